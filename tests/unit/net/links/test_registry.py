import contextlib
import logging

import pytest

from tests.unit.net.ends import accept, listen
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import UsageError
from zenspark.net.links import registry
from zenspark.net.links.endpoint import Endpoint


def test_links_are_opened_by_protocol() -> None:
    with contextlib.closing(listen("tcp/127.0.0.1:0")) as listener:
        link = registry.connect(Endpoint.parse(listener.locator.text), TIMEOUT_SECONDS)
        with contextlib.closing(link), contextlib.closing(accept(listener)) as other:
            assert link.dst == other.src


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("quic/127.0.0.1:1", "not one of tcp, tls, udp, ws, unixsock-stream"),
        ("TCP/127.0.0.1:1", "not one of tcp"),
        ("udp/224.0.0.224:1", "is a multicast group"),
        ("tcp/127.0.0.1", "has no port"),
    ],
)
def test_unsupported_or_invalid_endpoint_is_a_usage_error(text: str, problem: str) -> None:
    endpoint = Endpoint.parse(text)
    for attempt in (lambda: registry.listen(endpoint), lambda: registry.connect(endpoint, TIMEOUT_SECONDS)):
        with pytest.raises(UsageError, match=problem):
            attempt()


def test_options_that_are_not_used_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "zenspark.net"):
        listen("tcp/127.0.0.1:0#so_sndbuf=65000;retry_period_max_ms=1").close()
        assert caplog.messages == []
        listen("tcp/127.0.0.1:0#bogus=1").close()
    assert caplog.messages == ["endpoint tcp/127.0.0.1:0 has options that are not used: bogus"]


@pytest.mark.parametrize("protocol", ["tcp", "ws", "udp"])
def test_options_of_tls_are_refused_where_there_is_none(protocol: str) -> None:
    with pytest.raises(UsageError, match="is not a TLS link, which its options require: enable_mtls"):
        listen(f"{protocol}/127.0.0.1:0#enable_mtls=true")
    with pytest.raises(UsageError, match="is not a TLS link"):
        registry.connect(Endpoint.parse(f"{protocol}/127.0.0.1:1#root_ca_certificate=x"), TIMEOUT_SECONDS)
