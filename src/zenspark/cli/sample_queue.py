"""SampleQueue: passes samples from the thread of the network to a command that prints them; never blocks the former."""

from __future__ import annotations

import queue
import time

from zenspark.types.sample import Sample

MAX_SAMPLES = 100_000
"""Samples that wait to be printed; further ones are skipped and counted, instead of blocking publishers."""


class SampleQueue:
    """Bounded queue of samples with their time of reception; use it as a callback."""

    def __init__(self, limit: int = MAX_SAMPLES) -> None:
        self._queue: queue.Queue[tuple[Sample, float]] = queue.Queue(limit)
        self.received = 0
        """Samples that arrived."""
        self.skipped = 0
        """Samples that arrived while the queue was full."""

    def __call__(self, sample: Sample) -> None:
        self.received += 1
        try:
            self._queue.put_nowait((sample, time.time()))
        except queue.Full:
            self.skipped += 1

    def get(self, timeout: float) -> tuple[Sample, float] | None:
        """Return the next sample and its time of reception; None if there is none within `timeout` seconds."""
        try:
            return self._queue.get(timeout=timeout) if timeout > 0 else self._queue.get_nowait()
        except queue.Empty:
            return None
