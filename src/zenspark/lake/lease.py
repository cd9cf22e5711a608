"""Leases: the right of one process to ingest a recorder, or to maintain the tables of a lake.

A lease is a small file in the lake that its holder renews every few seconds. It keeps two processes from doing the same
work; exactly-once ingestion does not depend on it, but on the writer epochs in the table
(spark/ingest/commit_samples.py).

A lease expires when the holder's process has ended, if that ran on the same machine; otherwise when its file has not
changed for half a minute by the clock of the waiting process. Clocks of two machines are never compared.
"""

from __future__ import annotations

import contextlib
import os
import platform
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Self
from urllib.parse import quote
from uuid import uuid4

import msgspec
import psutil

from zenspark.errors import ZError
from zenspark.lake.storage_path import StoragePath

LEASE_RENEW_INTERVAL_SECONDS = 10.0
"""Seconds between two renewals of a lease."""
LEASE_EXPIRY_SECONDS = 30.0
"""Seconds without renewal after which a lease has expired."""
LEASE_DIRECTORY = "_maintenance"
RECORDER_LEASE_PREFIX = "landing-"
"""Prefix of the lease of a recorder. 'landing' is the former word for ingestion, kept for old lakes: older and newer
processes must exclude each other."""


class LeaseHolder(msgspec.Struct, frozen=True):
    """The process that holds a lease, as recorded in the lease file."""

    instance: str
    """Id of its pipeline: a restarted process takes over the lease of its predecessor at once."""
    host: str
    machine: str
    """Boot id and PID namespace in which `pid` is valid."""
    pid: int
    process_started: float
    started: str
    heartbeat: float
    """Seconds since 1970, for information; expiry depends only on whether it changes."""

    @classmethod
    def this_process(cls, instance: str | None = None) -> Self:
        """Describe this process as the holder of a lease from now on."""
        return cls(
            instance or uuid4().hex,
            platform.node(),
            machine_id(),
            os.getpid(),
            psutil.Process().create_time(),
            datetime.now(UTC).isoformat(timespec="seconds"),
            time.time(),
        )

    def is_gone(self) -> bool:
        """Whether its process is known to have ended; always False for another machine."""
        if self.machine != machine_id():
            return False
        try:
            return abs(psutil.Process(self.pid).create_time() - self.process_started) > 1.0
        except psutil.NoSuchProcess:
            return True

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host} since {self.started}"


@cache
def machine_id() -> str:
    """Id of this boot of this machine and of the PID namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    pid_namespace = Path("/proc/self/ns/pid")
    boot_id = boot.read_text().strip() if boot.exists() else f"{platform.node()}-{psutil.boot_time():.0f}"
    return f"{boot_id}/{pid_namespace.stat().st_ino}" if pid_namespace.exists() else boot_id


class Lease:
    """One lease, used by one process. Times are seconds of a monotonic clock."""

    def __init__(self, lake: StoragePath, name: str, holder: LeaseHolder) -> None:
        self.path = f"{LEASE_DIRECTORY}/{quote(name, safe='')}.json"
        self._location = lake
        self._holder = holder
        self._seen: bytes | None = None
        self._seen_at = 0.0

    def acquire(self, now: float) -> LeaseHolder | None:
        """Acquire the lease if it is free or expired; otherwise return its holder."""
        content = self._location.read(self.path)
        other = _decode_holder(content)
        if other is not None and not self._can_take_over(other, content, now):
            return other
        self._seen = None
        self._write()
        return None

    def _can_take_over(self, other: LeaseHolder, content: bytes | None, now: float) -> bool:
        """Whether the lease of another holder has expired, or belongs to the same pipeline."""
        if other.instance == self._holder.instance or other.is_gone():
            return True
        if content != self._seen:
            self._seen, self._seen_at = content, now
        return now - self._seen_at >= LEASE_EXPIRY_SECONDS

    def renew(self) -> bool:
        """Renew the lease; False if another process has acquired it."""
        other = _decode_holder(self._location.read(self.path))
        if other is not None and other.instance != self._holder.instance:
            return False
        self._write()
        return True

    def release(self) -> None:
        """Release the lease if it is still held."""
        other = _decode_holder(self._location.read(self.path))
        if other is not None and other.instance == self._holder.instance:
            self._location.remove(self.path)

    def _write(self) -> None:
        renewed = msgspec.structs.replace(self._holder, heartbeat=time.time())
        self._location.write(self.path, msgspec.json.encode(renewed))


class LeaseKeeper:
    """Renews the leases of one ingest process in a thread: of its recorders, and of maintenance if it is free."""

    def __init__(self, lake: StoragePath, recorders: Sequence[str], instance: str | None = None) -> None:
        holder = LeaseHolder.this_process(instance)
        self._recorder_leases = {
            recorder: Lease(lake, RECORDER_LEASE_PREFIX + recorder, holder) for recorder in recorders
        }
        self._maintenance = Lease(lake, "maintenance", holder)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zenspark-leases", daemon=True)
        self.maintains = False
        """Whether this process holds the maintenance lease."""
        self.lost: str | None = None
        """The recorder whose lease another process has acquired, if any."""

    def acquire(self) -> str | None:
        """Acquire the leases of all recorders; otherwise describe the holder of the one that is not free."""
        for recorder, lease in self._recorder_leases.items():
            other = lease.acquire(time.monotonic())
            if other is not None:
                return f"recorder {recorder} is being ingested by {other}; waiting"
        return None

    def start(self) -> None:
        """Acquire the maintenance lease if it is free, and start the renewal thread."""
        self._maintain()
        self._thread.start()

    def stop(self, *, release: bool) -> None:
        """Stop renewing; with `release` the leases are released, otherwise they are kept for the next attempt."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        if release:
            with contextlib.suppress(OSError, ZError):
                for lease in (*self._recorder_leases.values(), self._maintenance):
                    lease.release()

    def _run(self) -> None:
        while not self._stopped.wait(LEASE_RENEW_INTERVAL_SECONDS) and self.lost is None:
            # while the lake is unreachable leases cannot be renewed, and no other process can acquire them
            with contextlib.suppress(OSError, ZError):
                self._renew()

    def _renew(self) -> None:
        for recorder, lease in self._recorder_leases.items():
            if not lease.renew():
                self.lost = recorder
                return
        self._maintain()

    def maintain_now(self) -> bool:
        """Acquire the maintenance lease if it is free. Returns whether this process holds it."""
        with contextlib.suppress(OSError, ZError):
            self._maintain()
        return self.maintains

    def _maintain(self) -> None:
        self.maintains = self._maintenance.acquire(time.monotonic()) is None


def _decode_holder(content: bytes | None) -> LeaseHolder | None:
    """Decode a lease file; None if it is missing or invalid."""
    try:
        return None if content is None else msgspec.json.decode(content, type=LeaseHolder)
    except msgspec.DecodeError:
        return None
