"""ListenerSet: accepting links, with TLS handshakes and without descriptors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.net.ends import Certificates, is_at_end, raw
from tests.unit.net.nodes import QUICK, TestNode, call, nodes
from tests.wait import until
from zenspark.errors import LinkError
from zenspark.net.links import registry
from zenspark.net.links.base import Link, Listener
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.node import listeners as listeners_module
from zenspark.net.node.limits import NodeLimits
from zenspark.net.node.link_quotas import LinkLimits
from zenspark.router.limits import RefusalReason

A, B, C = 0xA1, 0xB1, 0xC1


def test_pending_limit_includes_links_in_tls_handshake(tmp_path: Path) -> None:
    certificate, key = Certificates(tmp_path).files("localhost")
    bob = TestNode(B, limits=NodeLimits(inbound=LinkLimits(pending=1), writer=QUICK))
    with nodes(bob):
        options = f"#listen_certificate={certificate};listen_private_key={key}"
        there = Endpoint.parse(bob.listen(Endpoint.parse(f"tls/127.0.0.1:0{options}")).locator.text)
        with raw(there) as first, raw(there) as second:
            assert is_at_end(first)
            second.send(b"this is not TLS\r\n\r\n")
            assert is_at_end(second)


def test_failed_handshakes_are_counted_and_logged_together(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "zenspark.net")
    certificate, key = Certificates(tmp_path).files("localhost")
    bob = TestNode(B, limits=NodeLimits(writer=QUICK))
    with nodes(bob):
        options = f"#listen_certificate={certificate};listen_private_key={key}"
        there = Endpoint.parse(bob.listen(Endpoint.parse(f"tls/127.0.0.1:0{options}")).locator.text)
        for _ in range(20):
            with raw(there) as stranger:
                stranger.send(b"this is not TLS\r\n\r\n")
                assert is_at_end(stranger)
        until(lambda: bob.router.refusals.counts.get(RefusalReason.HANDSHAKES) == 20)
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert warnings[0].startswith(
        "refused 1 connections (handshakes): the TLS or WebSocket handshake failed;"
        " 1 in all, the latest from tls/127.0.0.1:"
    )
    assert "TLS handshake: " in warnings[0]
    assert sum(message.startswith("tls handshake with tls/127.0.0.1:") for message in caplog.messages) == 20


class Exhausted(Listener):
    """A listener of a machine without descriptors, twice."""

    def __init__(self, inner: Listener) -> None:
        self._inner = inner
        self.endpoint, self.locator = inner.endpoint, inner.locator
        self.failures = 2

    def fileno(self) -> int:
        return self._inner.fileno()

    def accept(self) -> Link | None:
        if self.failures:
            self.failures -= 1
            raise LinkError(self.locator.text, "Too many open files")
        return self._inner.accept()

    def close(self) -> None:
        self._inner.close()


def test_accept_is_retried_when_out_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    listen = registry.listen
    monkeypatch.setattr(listeners_module, "ACCEPT_RETRY_DELAY_SECONDS", 0.01)
    monkeypatch.setattr(registry, "listen", lambda endpoint: Exhausted(listen(endpoint)))
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        call(alice, bob.listen_on_loopback())
        bob.wait_for(A)


@pytest.mark.slow
def test_connections_wait_while_accepting_is_paused() -> None:
    alice, bob = TestNode(A), TestNode(B)
    with nodes(alice, bob):
        bob.pause_accepting()
        call(alice, bob.listen_on_loopback())
        with raw(bob.listen_on_loopback()) as silent:
            silent.settimeout(0.1)
            with pytest.raises(TimeoutError):
                silent.recv(1)
            assert not bob.drivers
            bob.resume_accepting()
            bob.wait_for(A)
