"""Levels: how the files of a state table stay few, as those of a log-structured merge tree do.

Refreshes append small files to the part `new` (for `latest`, rows whose keys have wildcards to `wild`). When there are
`FEW_FILES` of them they are merged into one sorted level; smaller levels are merged along, so that each level that
stays is more than `GROWTH` times as large as all before it. A row is rewritten only as often as the logarithm of the
number of rows, and rows that do not change are not rewritten because others do.

Only what the public table has is merged: files in `new` and `wild` are what shows a publication which rows changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from zenspark.lake.parquet_files import File

STATE = "state"
"""The part that each refresh writes anew."""
NEW = "new"
WILD = "wild"
MERGED = "merged"
"""How the names of levels begin."""
MERGED_WILD = "merged-wild"
WILD_PARTS = (WILD, MERGED_WILD)

FEW_FILES = 16
"""Fewer new files are not worth a merge."""
MANY_FILES = 256
"""So many are merged even if they are not published, because every reader opens each of them."""
GROWTH = 4


class Merge(NamedTuple):
    """Files to be merged, and the part they become."""

    files: list[File]
    part: str
    complete: bool
    """Whether no other level is left, so that rows that only hide rows of other levels are no longer needed."""


def part_of(file: File) -> str:
    """The part of a state table that a file is in."""
    return str(file.partition["part"])


def is_new(file: File) -> bool:
    """Whether a refresh appended it, and no merge has taken it yet."""
    return part_of(file) in (NEW, WILD)


def is_wild(file: File) -> bool:
    """Whether its rows have keys with wildcards: they are few, and needed for every key."""
    return part_of(file) in WILD_PARTS


def plan_merge(files: Collection[File], unpublished: Iterable[File]) -> Merge | None:
    """Chooses what to merge, or nothing if that is not worth it yet."""
    waiting = {file.path for file in unpublished}
    new = [file for file in files if is_new(file)]
    published = [file for file in new if file.path not in waiting]
    if len(published) >= FEW_FILES:
        return _level(published, [file for file in files if not is_new(file) and part_of(file) != STATE])
    if len(new) >= MANY_FILES:
        return Merge([file for file in new if file.path in waiting], NEW, complete=False)
    return None


def _level(new: list[File], merged: list[File]) -> Merge:
    """New files with the levels that are not much larger."""
    levels: dict[str, list[File]] = defaultdict(list)
    for file in merged:
        levels[part_of(file)].append(file)
    taken = new + levels.pop(MERGED_WILD, [])
    for part in sorted(levels, key=lambda each: _rows(levels[each])):
        if _rows(levels[part]) > GROWTH * _rows(taken):
            break
        taken += levels.pop(part)
    names = (f"{MERGED}-{number}" for number in range(1, len(levels) + 2))
    return Merge(taken, next(name for name in names if name not in levels), complete=not levels)


def _rows(files: Iterable[File]) -> int:
    return sum(file.rows for file in files)


def is_old(rows: pa.Table, limits: Mapping[str, int]) -> pa.Array:
    """Which rows were received before the limits of their recorders, in microseconds."""
    names, times = rows["recorder"].to_pylist(), rows["received_at"].cast(pa.int64()).to_pylist()
    return pa.array([time < limits.get(name, 0) for name, time in zip(names, times, strict=True)], pa.bool_())
