"""Leases: acquire, renew, expire and release."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from zenspark.lake.lease import LEASE_EXPIRY_SECONDS, Lease, LeaseHolder
from zenspark.lake.storage_path import StoragePath


@pytest.fixture
def lake(tmp_path: Path) -> StoragePath:
    return StoragePath.at(tmp_path)


def elsewhere(instance: str) -> LeaseHolder:
    """A process on another machine, of which nothing is known but its file."""
    return msgspec.structs.replace(LeaseHolder.this_process(instance), machine="another", host="far", pid=7)


def test_free_lease_is_acquired_and_holder_reported_to_others(lake: StoragePath) -> None:
    assert Lease(lake, "landing-robot/1", LeaseHolder.this_process("one")).acquire(0.0) is None
    held = Lease(lake, "landing-robot/1", LeaseHolder.this_process("two")).acquire(0.0)
    assert held is not None
    assert held.instance == "one"
    assert str(held).startswith(f"pid {os.getpid()} on ")


def test_stale_lease_is_acquired_and_renewed_one_is_not(lake: StoragePath) -> None:
    first, second = Lease(lake, "m", elsewhere("one")), Lease(lake, "m", LeaseHolder.this_process("two"))
    assert first.acquire(0.0) is None
    assert second.acquire(100.0) is not None
    assert first.renew()
    assert second.acquire(100.0 + LEASE_EXPIRY_SECONDS) is not None  # it has changed since
    assert second.acquire(100.0 + 2 * LEASE_EXPIRY_SECONDS) is None
    assert not first.renew()
    assert second.renew()


def test_process_of_the_same_pipeline_takes_over_at_once(lake: StoragePath) -> None:
    assert Lease(lake, "m", elsewhere("one")).acquire(0.0) is None
    assert Lease(lake, "m", LeaseHolder.this_process("one")).acquire(0.0) is None


def test_lease_of_ended_local_process_is_acquired(lake: StoragePath) -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    gone = msgspec.structs.replace(LeaseHolder.this_process("one"), pid=process.pid)
    assert Lease(lake, "m", gone).acquire(0.0) is None
    assert Lease(lake, "m", LeaseHolder.this_process("two")).acquire(0.0) is None


def test_reused_process_id_does_not_hold_the_lease() -> None:
    here = LeaseHolder.this_process("one")
    assert not here.is_gone()
    assert msgspec.structs.replace(here, process_started=here.process_started - 60).is_gone()
    assert not msgspec.structs.replace(here, machine="another", pid=1 << 30).is_gone()


def test_only_the_holder_releases_the_lease(lake: StoragePath) -> None:
    first, second = Lease(lake, "m", LeaseHolder.this_process("one")), Lease(lake, "m", LeaseHolder.this_process("two"))
    assert first.acquire(0.0) is None
    second.release()
    assert second.acquire(0.0) is not None
    first.release()
    assert second.acquire(0.0) is None


def test_invalid_lease_file_is_replaced(lake: StoragePath) -> None:
    lease = Lease(lake, "m", LeaseHolder.this_process("one"))
    lake.write(lease.path, b"{")
    assert lease.acquire(0.0) is None
    assert lease.renew()
