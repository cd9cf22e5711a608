"""Outage: handling of a journal that cannot be written, because a disk is full or fails.

First the recorder pauses: it receives nothing from the session, links are not read, and publishers with congestion
control BLOCK wait (backpressure). But they wait only for a while (eclipse-zenoh: 5 s), then close the link and lose
their queued messages, without counting them. So after `block_timeout` seconds the recorder receives samples again and
discards them: links stay open, and the loss is counted by neighbour. Rows that the writer had accepted before are not
discarded; they are written first.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from zenspark.arrow.decode import RowChunk
from zenspark.errors import JournalError

logger = logging.getLogger("zenspark.journal")

WRITE_RETRY_INTERVAL_SECONDS = 0.25
"""Seconds between attempts to write."""


class WriteFailure(NamedTuple):
    """A journal that cannot be written: since when, the error, and whether received rows are discarded."""

    since: float
    error: str
    is_discarding: bool = False


class Outage:
    """Decides whether a recorder waits or discards while its journal cannot be written, and counts discarded rows.

    Times are monotonic.
    """

    def __init__(self, journal: str | Path, block_timeout: float | None) -> None:
        """`journal` is the path that log lines begin with."""
        self._journal = journal
        self.discarded: dict[str, int] = {}
        """Rows discarded since the recorder started, by the zid of the neighbour that sent them."""
        self.failure: WriteFailure | None = None
        """None if the journal can be written; one object, so that other threads read a consistent state."""
        self._block_timeout = block_timeout
        self._retry_at = 0.0
        self._discarded_before = 0

    @property
    def total(self) -> int:
        """Rows discarded since the recorder started."""
        return sum(self.discarded.values())

    def is_write_due(self, now: float) -> bool:
        """Whether to try to write: always, except between retries while samples are discarded."""
        return not self._is_discarding or now >= self._retry_at

    def fail(self, error: JournalError, now: float) -> bool:
        """Handle a failed write; True to pause and try again, False to discard received rows."""
        if self.failure is None:
            self._discarded_before = self.total
            logger.error("%s: recording paused: %s", self._journal, error)
        since, was_discarding = (now, False) if self.failure is None else (self.failure.since, self._is_discarding)
        is_discarding = was_discarding or self._wait_left(since, now) <= 0
        if is_discarding and not was_discarding:
            seconds = now - since
            logger.error("%s: recording discards received rows after %.1f s: %s", self._journal, seconds, error)
        self._retry_at = now + WRITE_RETRY_INTERVAL_SECONDS
        self.failure = WriteFailure(since, str(error), is_discarding)
        return not is_discarding

    def retry_delay(self, now: float) -> float:
        """Return the seconds to wait before the next attempt to write."""
        if self.failure is None or self.failure.is_discarding:
            return WRITE_RETRY_INTERVAL_SECONDS
        return min(WRITE_RETRY_INTERVAL_SECONDS, max(self._wait_left(self.failure.since, now), 0.0))

    @property
    def _is_discarding(self) -> bool:
        return self.failure is not None and self.failure.is_discarding

    def _wait_left(self, since: float, now: float) -> float:
        return WRITE_RETRY_INTERVAL_SECONDS if self._block_timeout is None else since + self._block_timeout - now

    def count_discarded(self, chunks: list[RowChunk], local_zid: str) -> None:
        """Count discarded rows by neighbour; rows of the local session are counted under `local_zid`."""
        for chunk in chunks:
            via = chunk.shared[0].via or local_zid  # the same for all rows of a chunk, which come from one read
            self.discarded[via] = self.discarded.get(via, 0) + chunk.num_rows

    def end(self, offset: int) -> None:
        """End the outage, after all accepted rows were written up to an offset."""
        if self.failure is None:
            return
        self.failure = None
        discarded = self.total - self._discarded_before
        logger.warning("%s: recording resumed at offset %d: lost %d received rows", self._journal, offset, discarded)
