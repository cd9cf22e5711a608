"""Backlog: number and age of journal rows that are not ingested yet, measured on the journals themselves.

Ingestion that hangs or has not started cannot hide a backlog: only its end offset comes from the ingest process.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zenspark.errors import JournalError
from zenspark.journal import Journal


class Backlog(msgspec.Struct, frozen=True):
    """Rows in journals that are not ingested yet."""

    rows: int = 0
    seconds: float = 0.0
    """Age of the oldest of these rows."""


def measure_backlog(journals: Iterable[tuple[Journal, int]], now: float) -> Backlog:
    """Measure the rows from an offset on in each journal; `now` is in seconds since 1970."""
    rows, oldest = 0, now
    for journal, ingested in journals:
        try:
            start, end = max(ingested, journal.earliest()), journal.latest()
            if start < end:
                rows += end - start
                oldest = min(oldest, journal.received_at(start) / 1e6)
        except JournalError:
            continue  # not created yet, or trimmed concurrently
    return Backlog(rows, max(0.0, now - oldest))
