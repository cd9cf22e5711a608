"""Levels: how the files of a state table stay few, as those of a log-structured merge tree do.

Refreshes append small files to the part `new` (for `latest`, rows whose keys have wildcards to `wild`). When there are
`MIN_FILES_TO_MERGE` of them they are merged into one sorted level; smaller levels are merged along, so that each level that
stays is more than `LEVEL_GROWTH_FACTOR` times as large as all before it. A row is rewritten only as often as the logarithm of the
number of rows, and rows that do not change are not rewritten because others do.

Only what the public table has is merged: files in `new` and `wild` are what shows a publication which rows changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from zenspark.lake.parquet_files import DataFile

STATE_PART = "state"
"""The part that each refresh writes anew."""
NEW_PART = "new"
WILDCARD_PART = "wild"
MERGED_PREFIX = "merged"
"""How the names of levels begin."""
MERGED_WILDCARD_PART = "merged-wild"
WILDCARD_PARTS = (WILDCARD_PART, MERGED_WILDCARD_PART)

MIN_FILES_TO_MERGE = 16
"""Fewer new files are not worth a merge."""
MAX_NEW_FILES = 256
"""So many are merged even if they are not published, because every reader opens each of them."""
LEVEL_GROWTH_FACTOR = 4


class MergePlan(NamedTuple):
    """Files to be merged, and the part they become."""

    files: list[DataFile]
    part: str
    complete: bool
    """Whether no other level is left, so that rows that only hide rows of other levels are no longer needed."""


def part_of(file: DataFile) -> str:
    """The part of a state table that a file is in."""
    return str(file.partition["part"])


def is_new(file: DataFile) -> bool:
    """Whether a refresh appended it, and no merge has taken it yet."""
    return part_of(file) in (NEW_PART, WILDCARD_PART)


def has_wildcard_keys(file: DataFile) -> bool:
    """Whether its rows have keys with wildcards: they are few, and needed for every key."""
    return part_of(file) in WILDCARD_PARTS


def plan_merge(files: Collection[DataFile], unpublished: Iterable[DataFile]) -> MergePlan | None:
    """Chooses what to merge, or nothing if that is not worth it yet."""
    waiting = {file.path for file in unpublished}
    new = [file for file in files if is_new(file)]
    published = [file for file in new if file.path not in waiting]
    if len(published) >= MIN_FILES_TO_MERGE:
        return _plan_level(published, [file for file in files if not is_new(file) and part_of(file) != STATE_PART])
    if len(new) >= MAX_NEW_FILES:
        return MergePlan([file for file in new if file.path in waiting], NEW_PART, complete=False)
    return None


def _plan_level(new: list[DataFile], merged: list[DataFile]) -> MergePlan:
    """New files with the levels that are not much larger."""
    levels: dict[str, list[DataFile]] = defaultdict(list)
    for file in merged:
        levels[part_of(file)].append(file)
    taken = new + levels.pop(MERGED_WILDCARD_PART, [])
    for part in sorted(levels, key=lambda each: _count_rows(levels[each])):
        if _count_rows(levels[part]) > LEVEL_GROWTH_FACTOR * _count_rows(taken):
            break
        taken += levels.pop(part)
    names = (f"{MERGED_PREFIX}-{number}" for number in range(1, len(levels) + 2))
    return MergePlan(taken, next(name for name in names if name not in levels), complete=not levels)


def _count_rows(files: Iterable[DataFile]) -> int:
    return sum(file.rows for file in files)


def received_before(rows: pa.Table, limits: Mapping[str, int]) -> pa.Array:
    """Which rows were received before the limits of their recorders, in microseconds."""
    names, times = rows["recorder"].to_pylist(), rows["received_at"].cast(pa.int64()).to_pylist()
    return pa.array([time < limits.get(name, 0) for name, time in zip(names, times, strict=True)], pa.bool_())
