from __future__ import annotations

import argparse
import json
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import zenspark
from tests.interop.reference import ours
from tests.optional import some
from zenspark.cli.http_flags import DEFAULT_ADDRESS, HttpPlan, add_http_flags, parse_http, serve_http, to_arguments
from zenspark.errors import LinkError, UsageError
from zenspark.web.settings import HttpSettings


def given(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_http_flags(parser, default=None)
    return parser.parse_args(arguments)


def test_http_plan_without_flags_is_the_default_address_or_none() -> None:
    assert parse_http(given(), default=None) == HttpPlan(None)
    plan = parse_http(given(), default=DEFAULT_ADDRESS)
    assert plan == HttpPlan(HttpSettings(address=("127.0.0.1", 8000)), None, may_move=True)
    assert parse_http(given("--http", "none"), default=DEFAULT_ADDRESS) == HttpPlan(None)
    assert not parse_http(given("--http", "8001"), default=DEFAULT_ADDRESS).may_move


def test_flags_become_settings(tmp_path: Path) -> None:
    secret, certificate = tmp_path / "token", tmp_path / "cert.pem"
    secret.write_text("s3cret\n")
    certificate.write_text("")
    plan = parse_http(
        given(
            *("--http", "0.0.0.0:9000", "--http-write", "--http-token", f"@{secret}", "--http-user", "ann:p:w"),
            *("--http-certificate", str(certificate), "--http-key", str(certificate)),
        ),
        default=None,
    )
    page = some(plan.page)
    assert (page.address, page.write, page.token) == (("0.0.0.0", 9000), True, "s3cret")
    assert (page.user, page.password, page.certificate) == ("ann", "p:w", certificate)
    assert (page.allowed_hosts, page.allowed_origins, page.insecure) == ((), (), False)


def test_names_origins_and_the_lack_of_protection_are_settings() -> None:
    flags = (
        *("--http", "0.0.0.0:9000", "--http-insecure", "--http-host", "robots.example", "--http-host", "r.example"),
        *("--http-origin", "https://dashboard.example"),
    )
    page = some(parse_http(given(*flags), default=None).page)
    assert (page.allowed_hosts, page.insecure) == (("robots.example", "r.example"), True)
    assert page.allowed_origins == ("https://dashboard.example",)


def test_a_certificate_without_its_key_names_the_missing_flag(tmp_path: Path) -> None:
    certificate = tmp_path / "cert.pem"
    certificate.write_text("-----BEGIN CERTIFICATE-----")
    for flags, problem in (
        (
            ("--http-certificate", str(certificate)),
            f"--http-certificate: {certificate} has no private key: .*--http-key",
        ),
        (("--http-key", str(certificate)), "--http-key: expected --http-certificate FILE with it"),
    ):
        with pytest.raises(UsageError, match=problem):
            parse_http(given("--http", "8000", *flags), default=None)
    certificate.write_text("-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----")
    page = parse_http(given("--http", "8000", "--http-certificate", str(certificate)), default=None).page
    assert some(page).key is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--http-write",), "--http-write: expected --http"),
        (("--http", "here"), "expected a TLS certificate|expected a token|expected a port"),
        (("--http", "0.0.0.0:8000"), "expected a token"),
        (("--http", "8000", "--http-user", "ann"), "NAME:PASSWORD"),
        (("--http", "8000", "--http-token", "@none"), "none cannot be read"),
        (("--http", "8000", "--http-certificate", "none.pem"), "no file none.pem"),
        (("--http", "127.0.0.1:99999"), "--http: expected a port"),
        (("--http-insecure",), "--http-insecure: expected --http"),
        (("--http", "8000", "--http-host", "robots.example:8000"), "--http-host: expected a name"),
        (("--http", "8000", "--http-origin", "dashboard.example"), "--http-origin: expected an origin"),
        (("--http", "8000", "--http-origin", "https://a.example/page"), "--http-origin: expected an origin"),
    ],
)
def test_contradictions_are_rejected(arguments: tuple[str, ...], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_http(given(*arguments), default=None)


def test_flags_can_be_passed_on() -> None:
    flags = ["--http", "8001", "--http-write", "--http-token", "t", "--http-host", "a", "--http-host", "b"]
    assert to_arguments(given(*flags)) == flags
    assert to_arguments(given()) == []


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as response:
        body: bytes = response.read()
        return body


def test_page_and_rest_are_served_and_a_busy_port_is_left() -> None:
    with (
        zenspark.open(ours(mode="router", listen__endpoints=["tcp/127.0.0.1:0"])) as session,
        socket.create_server(("127.0.0.1", 0)) as busy,
    ):
        page = HttpSettings(address=("127.0.0.1", busy.getsockname()[1]))
        with pytest.raises(LinkError), serve_http(session, HttpPlan(page)):
            pass
        plan = HttpPlan(page, ("127.0.0.1", 0), may_move=True)
        with serve_http(session, plan) as served:
            assert [name for name, _ in served.facts] == ["page", "REST on"]
            node = json.loads(read(f"{some(served.url)}/_api/node"))
            assert node["zid"] == str(session.zid())
            assert json.loads(read(f"{served.facts[1][1]}/none")) == []
        with serve_http(session, HttpPlan(None)) as served:
            assert served.url is None
