"""Where HTTP requests are answered, from how it is written."""

from __future__ import annotations

import json

import pytest

from zenspark.config.config import Config
from zenspark.config.schema import ConfigError
from zenspark.web.settings import Address, parse_address, rest_address


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
def test_an_address(given: object, address: Address | None) -> None:
    assert parse_address(given) == address


@pytest.mark.parametrize(
    "given", [None, True, "", "http", ":8000", "::1:8000", "a:b:1", "1:", "65536", -1, "²", 1.5, {}]
)
def test_invalid_address_is_rejected(given: object) -> None:
    with pytest.raises(ConfigError, match=r"^configuration key plugins/rest/http_port: expected a port, an address"):
        parse_address(given)


def test_the_section_is_taken_out_and_others_stay() -> None:
    config = Config.from_json5("{plugins: {rest: {http_port: '127.0.0.1:1', __required__: true}, other: {a: 1}}}")
    address, others = rest_address(config)
    assert address == ("127.0.0.1", 1)
    assert json.loads(others.get_json("plugins")) == {"other": {"a": 1}}
    assert "rest" in json.loads(config.get_json("plugins"))


def test_without_the_section_there_is_none() -> None:
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
def test_a_section_that_cannot_be_used(section: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rest_address(Config.from_json5(f"{{plugins: {{rest: {section}}}}}"))
    assert str(caught.value).startswith(line)
