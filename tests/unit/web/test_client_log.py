"""Log lines about HTTP clients: the first of each kind and reason per interval, with the total."""

from __future__ import annotations

import pytest

from zenspark.log_throttle import LOG_INTERVAL_SECONDS
from zenspark.web.client_log import ClientLog, client_host, format_address


def test_lines_of_one_reason_are_logged_once_per_interval(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    log = ClientLog(lambda: now)
    log.refuse_login("a", "wrong token")
    now = 1.0
    log.refuse_login("b", "wrong token")
    log.refuse_login("b", "too many failed logins")
    log.disconnect("b", "slow consumer of an event stream")
    now = LOG_INTERVAL_SECONDS
    log.refuse_login("c", "wrong token")
    assert caplog.messages == [
        "refused HTTP login from a: wrong token; 1 in all",
        "refused HTTP login from b: too many failed logins; 1 in all",
        "disconnected HTTP client b: slow consumer of an event stream; 1 in all",
        "refused HTTP login from c: wrong token; 3 in all",
    ]


def test_addresses() -> None:
    assert format_address(("127.0.0.1", 80)) == "127.0.0.1:80"
    assert format_address(("::1", 80)) == "[::1]:80"
    assert format_address(None) == "an unknown address"


def test_host_of_a_client_is_its_address_without_the_port() -> None:
    assert client_host(("::1", 80)) == "::1"
    assert client_host(("127.0.0.1", None)) == "127.0.0.1"
    assert client_host(None) == "an unknown address"
