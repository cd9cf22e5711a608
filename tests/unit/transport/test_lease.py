"""Leases and keep-alives with numbers for the time."""

from __future__ import annotations

from zenspark.transport.lease import KeepAliveTimer, PeerLease


def test_lease_never_expires_before_the_peer_announced_it() -> None:
    lease = PeerLease(now=5.0)
    assert (lease.expires_at, lease.has_expired(1e12)) == (float("inf"), False)


def test_lease_expires_after_its_seconds_of_silence() -> None:
    lease = PeerLease(now=5.0, seconds=10.0)
    assert (lease.has_expired(14.9), lease.has_expired(15.0)) == (False, True)
    lease.renewed_at = 12.0
    assert (lease.expires_at, lease.has_expired(21.9), lease.has_expired(22.0)) == (22.0, False, True)
    assert lease.describe_expiry() == "lease expired: nothing received for 10 s"


def test_keep_alives_are_sent_several_times_per_lease() -> None:
    timer = KeepAliveTimer(now=1.0, per_lease=4)
    assert timer.due_at == float("inf")  # the session is not open
    timer.lease = 10.0
    assert timer.due_at == 3.5
    timer.sent_at = 2.0
    assert timer.due_at == 4.5
