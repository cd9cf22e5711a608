"""Sequence numbers of an advanced publisher, and heartbeats that announce the last one (protocol section 18)."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable

from zenspark.api.publisher import Publisher
from zenspark.errors import ZError
from zenspark.types.ids import SOURCE_SN_MODULUS

SEQUENCE_NUMBER = struct.Struct("<I")


class SequenceCounter:
    """The sequence number of the next sample; it starts again at 0 after 2^32 - 1."""

    def __init__(self) -> None:
        self.next = 0
        self.has_begun = False

    def take(self) -> int:
        """Return the next number, and advance the counter."""
        number, self.next = self.next, (self.next + 1) % SOURCE_SN_MODULUS
        self.has_begun = True
        return number


class PeriodicTask:
    """Calls a function at a fixed interval, in a thread of its own, until it is stopped or the session is closed."""

    def __init__(self, period: float, work: Callable[[], object]) -> None:
        self._period = period
        self._work = work
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="zenspark-periodic", daemon=True).start()

    def _run(self) -> None:
        while not self._stopped.wait(self._period):
            try:
                self._work()
            except ZError:
                return  # the session is closed

    def undeclare(self) -> None:
        """Stop the calls."""
        self._stopped.set()


class Heartbeat:
    """Publishes the last sequence number; with `only_changes`, no number twice."""

    def __init__(self, publisher: Publisher, counter: SequenceCounter, only_changes: bool) -> None:
        self._publisher = publisher
        self._counter = counter
        self._only_changes = only_changes
        self._announced: int | None = None

    def publish_last_sn(self) -> None:
        """Publish the sequence number of the last sample, if there is one and, with `only_changes`, it is new."""
        upcoming = self._counter.next
        if self._counter.has_begun and not (self._only_changes and upcoming == self._announced):
            self._publisher.put(SEQUENCE_NUMBER.pack((upcoming - 1) % SOURCE_SN_MODULUS))
            self._announced = upcoming
