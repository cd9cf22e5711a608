"""How far a table has come in every journal: `offset:<recorder>` marks, and the names of the recorders there are.

A mark can be asked for by name only, so the names stand beside it, one empty file each. A name is written before the
first transaction that has its mark; a name without a mark means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import quote, unquote

from zenspark.spark.lake.files import File
from zenspark.spark.lake.table import Table

NAMES = "_recorders"


def remember(table: Table, recorders: Iterable[str]) -> None:
    """Makes sure that these recorders will be found."""
    for recorder in recorders:
        if table.mark(mark_of(recorder)) is None:
            table.folder.write(f"{NAMES}/{quote(recorder, safe='')}", b"")


def recorders(table: Table) -> list[str]:
    """Everybody whose rows are in this table, or may be soon."""
    return sorted(unquote(name) for name in table.folder.names(NAMES) if not name.endswith(".tmp"))


def offsets(table: Table, recorders: Iterable[str]) -> dict[str, int]:
    """Up to before which offset of each recorder a table has taken in the rows."""
    marks = {recorder: table.mark(mark_of(recorder)) for recorder in recorders}
    return {recorder: mark for recorder, mark in marks.items() if mark is not None}


def mark_of(recorder: str) -> str:
    return f"offset:{recorder}"


def marks(reached: Mapping[str, int]) -> dict[str, int]:
    """The marks that say so."""
    return {mark_of(recorder): offset for recorder, offset in reached.items()}


def reaches(file: File, start: Mapping[str, int]) -> bool:
    """Whether a file of samples, which are all of one recorder, has rows at or behind these offsets."""
    last: int = file.greatest["offset"]  # type: ignore[assignment]
    return last >= start.get(str(file.least["recorder"]), 0)
