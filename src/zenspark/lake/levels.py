"""Levels: keeps the number of files of a state table small, as a log-structured merge tree does.

A state table is partitioned by its column `part`. Refreshes append small files to the partition `part=new` (for
`latest`, rows whose keys have wildcards to `part=wild`). When there are `MIN_FILES_TO_MERGE` of them they are merged
into one sorted level, together with smaller levels, so that each remaining level is more than `LEVEL_GROWTH_FACTOR`
times as large as all smaller ones. A row is rewritten only as often as the logarithm of the number of rows, and
unchanged rows are not rewritten because others change.

Only rows that are in the public table are merged: the files in `part=new` and `part=wild` show which rows the next
write of that table has to change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from zenspark.lake.parquet_files import DataFile

REPLACED_PART = "state"
"""The partition, `part=state`, whose files each refresh replaces."""
NEW_PART = "new"
WILDCARD_PART = "wild"
MERGED_PREFIX = "merged"
"""Prefix of the values of `part` of merged levels."""
MERGED_WILDCARD_PART = "merged-wild"
WILDCARD_PARTS = (WILDCARD_PART, MERGED_WILDCARD_PART)

MIN_FILES_TO_MERGE = 16
"""New files whose rows are in the public table that trigger a merge."""
MAX_NEW_FILES = 256
"""New files that trigger a merge whether in the public table or not, because every reader opens each of them."""
LEVEL_GROWTH_FACTOR = 4


class MergePlan(NamedTuple):
    """Files to be merged, and the partition (`part`) of the result."""

    files: list[DataFile]
    part: str
    is_full: bool
    """Whether no other level remains, so that rows that only hide rows of other levels can be dropped."""


def part_of(file: DataFile) -> str:
    """The partition of a state table that a file is in: its value of `part`."""
    return str(file.partition["part"])


def is_new(file: DataFile) -> bool:
    """Whether a refresh appended the file and it has not been merged yet."""
    return part_of(file) in (NEW_PART, WILDCARD_PART)


def has_wildcard_keys(file: DataFile) -> bool:
    """Whether the keys of its rows have wildcards: such rows are few, and apply to every key."""
    return part_of(file) in WILDCARD_PARTS


def plan_merge(files: Collection[DataFile], unwritten: Iterable[DataFile]) -> MergePlan | None:
    """Choose the files to merge; None if no merge is due. Rows of `unwritten` files are not in the public table yet."""
    unwritten_paths = {file.path for file in unwritten}
    new = [file for file in files if is_new(file)]
    written = [file for file in new if file.path not in unwritten_paths]
    if len(written) >= MIN_FILES_TO_MERGE:
        return _plan_level(written, [file for file in files if not is_new(file) and part_of(file) != REPLACED_PART])
    if len(new) >= MAX_NEW_FILES:
        return MergePlan([file for file in new if file.path in unwritten_paths], NEW_PART, is_full=False)
    return None


def _plan_level(new: list[DataFile], merged: list[DataFile]) -> MergePlan:
    """Plan a merge of new files with the levels that are not much larger."""
    levels: dict[str, list[DataFile]] = defaultdict(list)
    for file in merged:
        levels[part_of(file)].append(file)
    selected = new + levels.pop(MERGED_WILDCARD_PART, [])
    for part in sorted(levels, key=lambda part: _count_rows(levels[part])):
        if _count_rows(levels[part]) > LEVEL_GROWTH_FACTOR * _count_rows(selected):
            break
        selected += levels.pop(part)
    names = (f"{MERGED_PREFIX}-{number}" for number in range(1, len(levels) + 2))
    return MergePlan(selected, next(name for name in names if name not in levels), is_full=not levels)


def _count_rows(files: Iterable[DataFile]) -> int:
    return sum(file.rows for file in files)


def received_before(rows: pa.Table, limits: Mapping[str, int]) -> pa.Array:
    """Mask of rows received before the limit of their recorder, in microseconds since 1970."""
    names, times = rows["recorder"].to_pylist(), rows["received_at"].cast(pa.int64()).to_pylist()
    return pa.array([time < limits.get(name, 0) for name, time in zip(names, times, strict=True)], pa.bool_())
