"""Outage: what a recorder does while its journal cannot be written, because a disk is full or fails.

First it waits: nothing is taken from the session, links are not read, and publishers that block on congestion wait. But
they do so only for a while (eclipse-zenoh: 5 s), and then reset the link and lose what they had queued, which nobody
counts. So after `block_timeout` seconds the recorder goes on taking samples, and discards them: links stay up, and what
is lost is known by neighbour. Rows that the writer had taken before are not discarded; they are written first.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from zenspark.arrow.decode import RowChunk
from zenspark.errors import JournalError

logger = logging.getLogger("zenspark.journal")

RETRY_SECONDS = 0.25
"""Between attempts to write."""


class WriteFailure(NamedTuple):
    """That the journal cannot be written."""

    since: float
    error: str
    is_discarding: bool = False


class Outage:
    """Whether the journal can be written, since when it cannot, and what was discarded. Times are monotonic."""

    def __init__(self, block_timeout: float | None) -> None:
        self.dropped: dict[str, int] = {}
        """Rows that were discarded since the recorder started, by the zid of the neighbour that brought them."""
        self.failure: WriteFailure | None = None
        """None if the journal can be written; one value, so that other threads never see half of a change."""
        self._block_timeout = block_timeout
        self._retry_at = 0.0
        self._dropped_before = 0

    @property
    def total(self) -> int:
        """Rows that were discarded since the recorder started."""
        return sum(self.dropped.values())

    def may_try(self, now: float) -> bool:
        """Whether it is time to write: at once, or after a pause where writing failed and samples are discarded."""
        return not self._is_discarding or now >= self._retry_at

    def fail(self, error: JournalError, now: float) -> bool:
        """Note that writing failed; whether to wait and try again, and not to discard what is received."""
        if self.failure is None:
            self._dropped_before = self.total
            logger.error("recording waits: %s", error)
        since, was_discarding = (now, False) if self.failure is None else (self.failure.since, self._is_discarding)
        is_discarding = was_discarding or self._wait_left(since, now) <= 0
        if is_discarding and not was_discarding:
            logger.error("recording discards what is received after %.1f s: %s", now - since, error)
        self._retry_at = now + RETRY_SECONDS
        self.failure = WriteFailure(since, str(error), is_discarding)
        return not is_discarding

    def pause(self, now: float) -> float:
        """How many seconds to wait before the next attempt."""
        if self.failure is None or self.failure.is_discarding:
            return RETRY_SECONDS
        return min(RETRY_SECONDS, max(self._wait_left(self.failure.since, now), 0.0))

    @property
    def _is_discarding(self) -> bool:
        return self.failure is not None and self.failure.is_discarding

    def _wait_left(self, since: float, now: float) -> float:
        return RETRY_SECONDS if self._block_timeout is None else since + self._block_timeout - now

    def discard(self, pieces: list[RowChunk], own: str) -> None:
        """Count rows that are not recorded; those that no neighbour brought are this node's own."""
        for piece in pieces:
            via = piece.shared[0].via or own  # the same for all: a piece is what one read brought
            self.dropped[via] = self.dropped.get(via, 0) + piece.num_rows

    def end(self, offset: int) -> None:
        """Note that everything was written, up to an offset."""
        if self.failure is None:
            return
        self.failure = None
        dropped = self.total - self._dropped_before
        logger.warning("recording goes on at offset %d: %d rows were discarded", offset, dropped)
