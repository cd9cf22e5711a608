"""Journals for tests: rows whose content follows from their number."""

from __future__ import annotations

from pathlib import Path

from tests.rows import samples
from zenspark.journal import JournalWriter, Policy


def journal(path: Path, rows: int, *, name: str = "robot", block: int = 100, policy: Policy | None = None) -> str:
    """A journal of so many rows, as blocks of so many; where it is."""
    with JournalWriter(path, policy, recorder=name) as writer:
        first = writer.acknowledged
        for start in range(first, first + rows, block):
            writer.append(samples(start, min(start + block, first + rows)))
            writer.flush()
    return str(path)
