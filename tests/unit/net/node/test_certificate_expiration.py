"""Links end when the certificate of the other side expires, if they are configured to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.api.sessions import config, has_neighbour
from tests.unit.net.ends import Certificates
from tests.wait import until
from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.errors import CloseReason
from zenspark.net.node.certificate_expiration import MAX_CHECK_SECONDS, ExpirationTimers

LIFETIME = 8.0
"""Seconds that a certificate lives: enough for a handshake on a busy machine."""


class Timer:
    def __init__(self, delay: float, work: Callable[[], None]) -> None:
        self.delay = delay
        self.work = work
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Driver:
    """A link, and the reasons it was closed for."""

    def __init__(self, expires_at: float | None) -> None:
        self.link = SimpleNamespace(expires_at=expires_at, auth_identifier="ann", dst="tls/127.0.0.1:1")
        self.neighbour = "client a1 (tls/127.0.0.1:1)"
        self.closed: list[CloseReason] = []

    def end_session(self, reason: CloseReason, _: str) -> None:
        self.closed.append(reason)


class World:
    """Expirations with a wall clock that is set by hand, and the timers they started."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.timers: list[Timer] = []
        loop: Any = SimpleNamespace(now=lambda: 0.0, call_at=self._call_at)
        self.expirations: Any = ExpirationTimers(loop, lambda: self.now)

    def _call_at(self, when: float, work: Callable[[], None]) -> Timer:
        self.timers.append(Timer(when, work))
        return self.timers[-1]


def test_link_is_closed_when_its_certificate_expires(caplog: pytest.LogCaptureFixture) -> None:
    world, driver = World(), Driver(1_010.0)
    world.expirations.watch(driver)
    assert [timer.delay for timer in world.timers] == [10.0]
    world.now = 1_010.0
    world.timers[0].work()
    assert driver.closed == [CloseReason.EXPIRED]
    assert caplog.messages == [
        "closing session with client a1 (tls/127.0.0.1:1): its certificate has expired (common name ann); renew it"
    ]
    assert len(world.timers) == 1


def test_a_link_that_does_not_expire_has_no_timer() -> None:
    world = World()
    world.expirations.watch(Driver(None))
    assert world.timers == []


def test_wall_clock_is_rechecked_after_max_check_seconds() -> None:
    """A clock that is set forward is noticed; one that is set back gives no more time than it shows."""
    world, driver = World(), Driver(1_000_000.0)
    world.expirations.watch(driver)
    assert world.timers[0].delay == MAX_CHECK_SECONDS
    world.timers[0].work()
    assert driver.closed == []
    world.now = 2_000_000.0
    world.timers[1].work()
    assert driver.closed == [CloseReason.EXPIRED]


def test_a_link_that_expired_during_its_handshake_is_closed_at_once() -> None:
    world, driver = World(), Driver(999.0)
    world.expirations.watch(driver)
    assert (driver.closed, world.timers) == ([CloseReason.EXPIRED], [])


def test_the_timer_ends_with_the_link() -> None:
    world, driver = World(), Driver(1_010.0)
    world.expirations.watch(driver)
    world.expirations.cancel(driver)
    world.expirations.cancel(driver)
    assert world.timers[0].is_cancelled


# -- with real certificates ---------------------------------------------------------------------------------------


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def router(certificates: Certificates, closes: bool, lifetime: float | None = None) -> Session:
    certificate, key = certificates.files("127.0.0.1", common_name="router", lifetime=lifetime)
    mutual = f"enable_mtls=true;root_ca_certificate={certificates.root}"
    shown = f"listen_certificate={certificate};listen_private_key={key}"
    options = f"{mutual};{shown};close_link_on_expiration={str(closes).lower()}"
    return open_session(config("router", [f"tls/127.0.0.1:0#{options}"]))


def client(certificates: Certificates, other: Session, name: str, closes: bool, lifetime: float | None) -> Session:
    certificate, key = certificates.files(name, common_name=name, lifetime=lifetime)
    shown = {"connect_certificate": str(certificate), "connect_private_key": str(key), "enable_mtls": True}
    tls = {**shown, "root_ca_certificate": str(certificates.root), "close_link_on_expiration": closes}
    there = other._runtime.node.listeners[0].locator.text
    return open_session(config("client", connect=[there], transport__link__tls=tls))


@pytest.mark.slow
def test_a_listener_closes_links_to_clients_whose_certificates_expire(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        router(certificates, closes=True) as listener,
        client(certificates, listener, "lasting", closes=False, lifetime=None) as lasting,
        client(certificates, listener, "passing", closes=False, lifetime=LIFETIME) as passing,
    ):
        until(lambda: has_neighbour(listener, passing) and has_neighbour(listener, lasting))
        until(lambda: not has_neighbour(listener, passing))
        assert has_neighbour(listener, lasting)
        until(lambda: "its certificate has expired (common name passing)" in caplog.text)
        until(lambda: "certificate has expired" in caplog.text.partition("(handshakes)")[2])  # it is not let in again


@pytest.mark.slow
def test_a_client_closes_the_link_to_a_router_whose_certificate_expires(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        router(certificates, closes=False, lifetime=LIFETIME) as listener,
        client(certificates, listener, "ann", closes=True, lifetime=None) as ann,
        client(certificates, listener, "bob", closes=False, lifetime=None) as bob,
    ):
        assert has_neighbour(ann, listener)
        until(lambda: "its certificate has expired (common name router)" in caplog.text)
        until(lambda: not has_neighbour(ann, listener))
        assert has_neighbour(bob, listener)
