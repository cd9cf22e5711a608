"""Backlog: rows in journals that have not landed yet, counted and aged by the journals themselves.

A landing that hangs or has not started cannot hide it: only the offset up to which rows have landed comes from there.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zenspark.errors import JournalError
from zenspark.journal import Journal


class Backlog(msgspec.Struct, frozen=True):
    """Rows in journals that have not landed."""

    rows: int = 0
    seconds: float = 0.0
    """How long ago the oldest of them was received."""


def backlog_of(journals: Iterable[tuple[Journal, int]], now: float) -> Backlog:
    """What journals have behind an offset each, at a time in seconds since 1970."""
    rows, oldest = 0, now
    for journal, landed in journals:
        try:
            start, end = max(landed, journal.earliest()), journal.latest()
            if start < end:
                rows += end - start
                oldest = min(oldest, journal.received_at(start) / 1e6)
        except JournalError:
            continue  # it is not there yet, or was trimmed this moment
    return Backlog(rows, max(0.0, now - oldest))
