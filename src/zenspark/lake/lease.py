"""Leases: which process lands a recorder, and which one maintains the tables of a lake.

A lease is a small file in the lake that its holder renews every few seconds. It keeps two processes from doing the same
work; that no row lands twice, whatever happens to a lease, is up to the epochs in the table (samples.py).

A holder is gone if its process is, on the same machine; elsewhere, or if it hangs, when its file has not changed for
half a minute by the clock of the process that waits. Clocks of two machines are never compared.
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

RENEW_SECONDS = 10.0
STALE_SECONDS = 30.0
"""A holder that has not renewed its lease for so long has lost it."""
LEASE_DIRECTORY = "_maintenance"


class LeaseHolder(msgspec.Struct, frozen=True):
    """The process that holds a lease, as it stands in the file."""

    instance: str
    """Names the pipeline of which it is a part: a process takes over from its predecessor at once."""
    host: str
    machine: str
    """Tells whether `pid` means something here: of this boot, and of this namespace of processes."""
    pid: int
    process_started: float
    started: str
    heartbeat: float
    """Seconds since 1970, for readers; only that it changes counts."""

    @classmethod
    def this_process(cls, instance: str | None = None) -> Self:
        """This process, as it takes a lease now."""
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
        """Whether its process has ended, as far as can be told from here."""
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
    """Names this boot of this machine, and the namespace in which process ids count."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    names = Path("/proc/self/ns/pid")
    known = boot.read_text().strip() if boot.exists() else f"{platform.node()}-{psutil.boot_time():.0f}"
    return f"{known}/{names.stat().st_ino}" if names.exists() else known


class Lease:
    """One lease, as one process sees it. Times are seconds of a monotonic clock."""

    def __init__(self, lake: StoragePath, name: str, holder: LeaseHolder) -> None:
        self.path = f"{LEASE_DIRECTORY}/{quote(name, safe='')}.json"
        self._location = lake
        self._holder = holder
        self._seen: bytes | None = None
        self._seen_at = 0.0

    def acquire(self, now: float) -> LeaseHolder | None:
        """Take the lease if it is free; otherwise who holds it."""
        content = self._location.read(self.path)
        other = _decode_holder(content)
        if other is not None and not self._is_lost(other, content, now):
            return other
        self._seen = None
        self._write()
        return None

    def _is_lost(self, other: LeaseHolder, content: bytes | None, now: float) -> bool:
        """Whether a holder has lost its lease, or is of the same pipeline."""
        if other.instance == self._holder.instance or other.is_gone():
            return True
        if content != self._seen:
            self._seen, self._seen_at = content, now
        return now - self._seen_at >= STALE_SECONDS

    def renew(self) -> bool:
        """Say that the holder is still there; False if another process has taken the lease."""
        other = _decode_holder(self._location.read(self.path))
        if other is not None and other.instance != self._holder.instance:
            return False
        self._write()
        return True

    def release(self) -> None:
        """Give the lease back, if it is still held."""
        other = _decode_holder(self._location.read(self.path))
        if other is not None and other.instance == self._holder.instance:
            self._location.remove(self.path)

    def _write(self) -> None:
        renewed = msgspec.structs.replace(self._holder, heartbeat=time.time())
        self._location.write(self.path, msgspec.json.encode(renewed))


class LeaseKeeper:
    """Renews the leases of one landing in a thread: those of its recorders, and that of maintenance if it is free."""

    def __init__(self, lake: StoragePath, recorders: Sequence[str], instance: str | None = None) -> None:
        holder = LeaseHolder.this_process(instance)
        self._landing = {recorder: Lease(lake, f"landing-{recorder}", holder) for recorder in recorders}
        self._maintenance = Lease(lake, "maintenance", holder)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zenspark-leases", daemon=True)
        self.maintains = False
        """Whether this landing maintains the tables of the lake."""
        self.lost: str | None = None
        """The recorder that another process has taken, if any."""

    def acquire(self) -> str | None:
        """Take the leases of all recorders; otherwise which one is not free, in one line."""
        for recorder, lease in self._landing.items():
            other = lease.acquire(time.monotonic())
            if other is not None:
                return f"recorder {recorder} is being landed by {other}; waiting"
        return None

    def start(self) -> None:
        """Renew the leases from now on."""
        self._maintain()
        self._thread.start()

    def stop(self, *, release: bool) -> None:
        """Renew them no longer, and give them back if told so: otherwise they are kept for the next attempt."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        if release:
            with contextlib.suppress(OSError, ZError):
                for lease in (*self._landing.values(), self._maintenance):
                    lease.release()

    def _run(self) -> None:
        while not self._stopped.wait(RENEW_SECONDS) and self.lost is None:
            # while the lake cannot be reached leases cannot be renewed; another process cannot take them either
            with contextlib.suppress(OSError, ZError):
                self._renew()

    def _renew(self) -> None:
        for recorder, lease in self._landing.items():
            if not lease.renew():
                self.lost = recorder
                return
        self._maintain()

    def maintain_now(self) -> bool:
        """Whether this landing maintains the tables, which it does from now on if no other process does."""
        with contextlib.suppress(OSError, ZError):
            self._maintain()
        return self.maintains

    def _maintain(self) -> None:
        self.maintains = self._maintenance.acquire(time.monotonic()) is None


def _decode_holder(content: bytes | None) -> LeaseHolder | None:
    """Who stands in a file; None if there is none, or nothing that can be read."""
    try:
        return None if content is None else msgspec.json.decode(content, type=LeaseHolder)
    except msgspec.DecodeError:
        return None
