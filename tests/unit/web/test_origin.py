"""Which hosts and origins are ours."""

from __future__ import annotations

import socket

import pytest

from zenspark.web.origin import OriginPolicy
from zenspark.web.settings import HttpSettings

POLICY = OriginPolicy(HttpSettings(allowed_hosts=("Node.Example",), allowed_origins=("https://dash.example/",)))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "a.localhost:8000", "[::1]:8000", "192.0.2.7", "node.example:8000",
     "node.example.", socket.gethostname()],
)  # fmt: skip
def test_host_names_of_the_server_are_known(host: str) -> None:
    assert POLICY.is_own_host(host)


@pytest.mark.parametrize("host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::1"])
def test_foreign_host_names_are_unknown(host: str) -> None:
    assert not POLICY.is_own_host(host)


@pytest.mark.parametrize(
    ("headers", "foreign"),
    [
        ({}, False),
        ({"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:8000"}, False),
        ({"host": "127.0.0.1:8000", "origin": "https://dash.example"}, False),
        ({"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:3000"}, True),
        ({"host": "127.0.0.1:8000", "origin": "https://127.0.0.1:8000"}, True),
        ({"host": "127.0.0.1:8000", "origin": "null"}, True),
        ({"sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "same-site"}, True),
        ({"sec-fetch-site": "cross-site"}, True),
    ],
)
def test_origin_and_sec_fetch_site_decide_whether_a_page_is_foreign(headers: dict[str, str], foreign: bool) -> None:
    assert POLICY.is_foreign(headers) is foreign


def test_the_scheme_is_https_with_a_certificate() -> None:
    policy = OriginPolicy(HttpSettings(certificate="cert.pem"))  # type: ignore[arg-type]  # any path
    assert not policy.is_foreign({"host": "a", "origin": "https://a"})
    assert policy.is_foreign({"host": "a", "origin": "http://a"})
