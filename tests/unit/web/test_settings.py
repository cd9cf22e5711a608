"""Settings of the HTTP server, parsed from text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zenspark.config.config import Config
from zenspark.config.schema import ConfigError
from zenspark.errors import UsageError
from zenspark.web.settings import Address, HttpSettings, parse_address, parse_http_address, rest_address


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (8000, ("::", 8000)),
        ("8000", ("::", 8000)),
        ("127.0.0.1:8000", ("127.0.0.1", 8000)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("none", None),
        ("None", None),
    ],
)
def test_rest_addresses_are_parsed(given: object, address: Address | None) -> None:
    assert parse_address(given) == address


@pytest.mark.parametrize(
    "given", [None, True, "", "http", ":8000", "::1:8000", "a:b:1", "1:", "65536", -1, "²", 1.5, {}]
)
def test_invalid_address_is_rejected(given: object) -> None:
    with pytest.raises(ConfigError, match=r"^configuration key plugins/rest/http_port: expected a port, an address"):
        parse_address(given)


def test_rest_section_is_removed_and_other_plugins_stay() -> None:
    config = Config.from_json5("{plugins: {rest: {http_port: '127.0.0.1:1', __required__: true}, other: {a: 1}}}")
    address, others = rest_address(config)
    assert address == ("127.0.0.1", 1)
    assert json.loads(others.get_json("plugins")) == {"other": {"a": 1}}
    assert "rest" in json.loads(config.get_json("plugins"))


def test_configuration_without_rest_section_has_no_address() -> None:
    config = Config.from_json5("{plugins: {other: {}}}")
    assert rest_address(config) == (None, config)


def test_the_threads_of_zenohd_are_accepted() -> None:
    config = Config.from_json5("{plugins: {rest: {http_port: 1, work_thread_num: 2, max_block_thread_num: 50}}}")
    assert rest_address(config)[0] == ("::", 1)


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("8000", "configuration key plugins/rest: expected an object, found 8000"),
        ("{http_prt: 1}", "configuration key plugins/rest/http_prt: expected a key such as http_port"),
        ("{}", "configuration key plugins/rest/http_port: expected a port"),
    ],
)
def test_invalid_rest_section_is_rejected(section: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rest_address(Config.from_json5(f"{{plugins: {{rest: {section}}}}}"))
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("8000", ("127.0.0.1", 8000)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:0", ("::1", 0)),
        ("node.example", ("node.example", 8000)),
        ("[::1]", ("::1", 8000)),
    ],
)
def test_page_addresses_are_parsed(given: str, address: Address) -> None:
    assert parse_http_address(given) == address


@pytest.mark.parametrize("given", ["", ":8000", "a:b:1", "65536", "a:65536", "::1"])
def test_invalid_addresses_of_the_page(given: str) -> None:
    with pytest.raises(UsageError, match=r"^expected a port or an address and a port such as 127.0.0.1:8000, found "):
        parse_http_address(given)


CERTIFICATE = Path("cert.pem")
ELSEWHERE = ("0.0.0.0", 8000)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"user": "a"}, "expected user and password"),
        ({"password": "a"}, "expected user and password"),
        ({"token": ""}, "expected a token, user and password of the HTTP server that are not empty"),
        ({"user": "a:b", "password": "c"}, "expected a user name of the HTTP server without a colon"),
        ({"key": CERTIFICATE}, "expected a certificate with the private key"),
        ({"address": ELSEWHERE}, "0.0.0.0 can be reached from other machines: expected a token"),
        ({"address": ELSEWHERE, "token": "t"}, "0.0.0.0 can be reached from other machines: expected a TLS"),
        ({"address": ("node.example", 1), "certificate": CERTIFICATE}, "node.example can be reached"),
    ],
)
def test_settings_that_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        HttpSettings(**given).check()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"address": ("localhost", 1)},
        {"address": ("::1", 1), "token": "t"},
        {"address": ELSEWHERE, "token": "t", "certificate": CERTIFICATE},
        {"address": ELSEWHERE, "insecure": True},
    ],
)
def test_settings_that_are_accepted(given: dict[str, Any]) -> None:
    HttpSettings(**given).check()


def test_zenohd_rest_settings_allow_writing_without_login() -> None:
    settings = HttpSettings.zenohd_rest(("::", 8000))
    settings.check()
    assert (settings.write, settings.serve_page, settings.has_login, settings.is_loopback) == (
        True,
        False,
        False,
        False,
    )
