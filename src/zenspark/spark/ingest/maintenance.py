"""Keeping files of `samples` few, in the order of keys and not too old, and removing from disk what no longer counts.

*Compaction* puts small files of one day and prefix together and sorts their rows by key, so that the history of one
key lies in few row groups. Files are in tiers by size, each `TIER_FACTOR` times the one below; a tier that has many
files, or enough bytes for a large one, becomes one file of a higher tier, so that a row is rewritten once per tier at
most, not once per compaction. When a day is over, what is still small in it is put together whatever its tier. Each
group of files is a transaction of its own: what is done stays done.

*Retention* (`expire`) takes away days by their age, and the oldest files by their bytes, of what the derived tables
have taken in; with a rule for a key expression, the rows of its keys only, by rewriting the files that have them.

*Vacuum* removes files from disk that are in no snapshot any more, after a time for those who still read them. All of
this may happen while batches land: they only add files.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zenspark.key.match import intersects
from zenspark.lake.delta_log import Partition
from zenspark.lake.delta_table import Change, Table
from zenspark.lake.offset_marks import is_behind, reaches
from zenspark.lake.parquet_files import CLUSTERED, File, Files, batches_of, grouped
from zenspark.lake.parquet_footer import Numbers
from zenspark.lake.specs import Shape
from zenspark.lake.storage_path import Folder
from zenspark.spark.ingest.write_files import on_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_FILE_BYTES = 128 << 20
"""Bytes from which on a file is large enough."""
MIN_TIER_BYTES = 64 << 10
"""Bytes up to which files are all of the lowest tier."""
TIER_FACTOR = 8
MIN_FILES_TO_COMPACT = 16
"""So many files of a tier are put together,"""
MAX_GROUPS_PER_TASK = 256
"""Groups of small files that one task puts together and one commit takes in."""
MAX_GROUP_ROWS = 8_000_000
"""Rows in a file at most: more make a task that fails late dear to repeat."""
SORT_ROWS, SORT_BYTES = 1 << 22, 256 << 20
"""Rows, and bytes in memory, that a task sorts at once; it never has more than twice these bytes."""
EXPIRED_TAG = "zenspark.expired"
"""The tag of a file that says which retention rules have been applied to it."""

Group = list[File]


# --- compaction -------------------------------------------------------------------------------------------------------


def size_tier(size: int) -> int:
    """The tier of a file of this size, 0 for the smallest."""
    return max(0, math.ceil(math.log(max(size, 1) / MIN_TIER_BYTES, TIER_FACTOR)))


def compaction_groups(files: Iterable[File], is_over: bool) -> list[Group]:
    """Which files of one partition to put together, each group into one; `is_over` if no more will come."""
    tiers: dict[int, Group] = defaultdict(list)
    for file in files:
        if file.size < TARGET_FILE_BYTES:
            tiers[0 if is_over else size_tier(file.size)].append(file)
    return [group for tier in tiers.values() for group in _filled(tier) if _is_worth_it(group, is_over)]


def _is_worth_it(group: Group, is_over: bool) -> bool:
    if len(group) < 2:
        return False
    return is_over or len(group) >= MIN_FILES_TO_COMPACT or _size(group) * 2 >= TARGET_FILE_BYTES


def _size(group: Group) -> int:
    return sum(file.size for file in group)


def _filled(files: Group) -> list[Group]:
    """The same files in the order they came in, in groups of about the target's size."""
    found: list[Group] = [[]]
    size = rows = 0
    for file in sorted(files, key=lambda each: (each.version, each.path)):
        is_full = size + file.size > TARGET_FILE_BYTES or rows + file.rows > MAX_GROUP_ROWS
        if found[-1] and is_full:
            found.append([])
            size = rows = 0
        found[-1].append(file)
        size, rows = size + file.size, rows + file.rows
    return found


class Compaction:
    """Compacts one table again and again, and looks only at partitions that have changed since the last time."""

    def __init__(self) -> None:
        self._seen: dict[Partition, tuple[int, bool]] = {}
        """The files of each partition when there was nothing to do in it, and whether its day was over then."""
        self._kept: Mapping[Partition, Mapping[str, File]] = {}
        """The same files: while they are held here, no other object has the same id."""

    def groups(self, samples: Table, today: date) -> list[Group]:
        """What is to be put together now."""
        found: list[Group] = []
        seen = {}
        for key, files in samples.partitions.items():
            day = files_day(key)
            mark = (id(files), day is not None and day < today)
            if self._seen.get(key) == mark:
                seen[key] = mark
                continue
            own = compaction_groups(files.values(), mark[1])
            if not own:
                seen[key] = mark
            found += own
        self._seen = seen
        self._kept = samples.partitions
        return found

    def run(self, spark: SparkSession, samples: Table, today: date) -> int:
        """Put files together, as many tasks at once as there are cores; how many files fewer there are."""
        work = shares(self.groups(samples, today))
        write = partial(write_groups, samples.folder, extended(samples))
        cores = spark.sparkContext.defaultParallelism
        fewer = 0
        for start in range(0, len(work), cores):
            some = work[start : start + cores]
            for share, added in zip(some, on_workers(spark, write, some), strict=True):
                removed = [file for group in share for file in group]
                samples.commit(Change(add=added, remove=removed, rearranges=True))
                fewer += len(removed) - len(added)
        return fewer


def shares(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups for one task and one commit each: one large, or many small ones, as there are with many prefixes."""
    found: list[list[Group]] = []
    size = TARGET_FILE_BYTES
    for group in groups:
        if size + _size(group) > TARGET_FILE_BYTES or len(found[-1]) >= MAX_GROUPS_PER_TASK:
            found.append([])
            size = 0
        found[-1].append(group)
        size += _size(group)
    return found


def write_groups(folder: Folder, shape: Shape, share: Sequence[Group]) -> list[File]:
    """Write the files of each group into one: what a task of Spark does."""
    try:
        return [file for group in share for file in write_together(folder, shape, group)]
    finally:
        pa.default_memory_pool().release_unused()  # the worker lives on, with tasks that need less


def files_day(key: Sequence[str | None]) -> date | None:
    """The day of a partition of samples."""
    return None if key[0] is None else date.fromisoformat(key[0])


def extended(table: Table) -> Shape:
    """The shape of a table with the columns that other tools added, so that rewriting its files keeps them."""
    return replace(table.shape, columns=pa.schema([*table.shape.columns, *table.extra]))


def write_together(folder: Folder, shape: Shape, group: Group) -> list[File]:
    """Write the rows of files of one partition into one, by key: what a task of Spark does.

    Rows are sorted in pieces of `SORT_ROWS` rows or `SORT_BYTES` bytes, and one piece is in memory at a time.
    """
    files = Files(folder, shape, "compact", CLUSTERED)
    partition = {name: str(value) for name, value in group[0].partition.items()}
    batches = (batch for file in group for batch in batches_of(folder, file, shape))
    try:
        for rows in grouped(batches, SORT_ROWS, SORT_BYTES):
            files.write(rows, partition, key_order(rows["key"].chunk(0)))
            del rows  # before the next piece is read
        return files.close()
    except BaseException:
        files.discard()
        raise


def key_order(keys: pa.DictionaryArray) -> Numbers | None:
    """The numbers of rows in the order of their keys, and in each key in their own; None if that is how they are."""
    rank = np.empty(len(keys.dictionary) + 1, np.int32)
    rank[pc.sort_indices(keys.dictionary).to_numpy()] = np.arange(len(keys.dictionary), dtype=np.int32)
    rank[-1] = -1  # rows without a key, which another tool may have inserted
    codes = pc.fill_null(keys.indices, len(keys.dictionary)).to_numpy()
    order = np.argsort(rank[codes], kind="stable")
    return None if (order[1:] > order[:-1]).all() else order


# --- retention --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """How long rows of some keys are kept; None is for ever."""

    key_expr: str
    age: timedelta | None


@dataclass(frozen=True)
class Retention:
    """What is kept of samples: the first rule that matches a key decides, or else `age`; and so many bytes in all."""

    age: timedelta | None = None
    max_bytes: int | None = None
    rules: tuple[Rule, ...] = ()

    @cached_property
    def is_empty(self) -> bool:
        return self.age is None and self.max_bytes is None and all(rule.age is None for rule in self.rules)

    def age_of(self, key: str) -> timedelta | None:
        """How long rows of a key are kept."""
        for rule in self.rules:
            if intersects(rule.key_expr, key):
                return rule.age
        return self.age

    def expired(self, day: date, now: datetime) -> Retention:
        """The same with only what has expired by now for rows of a day: ages become zero, or none."""
        return replace(
            self,
            age=_due(self.age, day, now),
            rules=tuple(Rule(rule.key_expr, _due(rule.age, day, now)) for rule in self.rules),
        )

    @property
    def name(self) -> str:
        """What it does to a file, as a word that a tag can keep."""
        return ";".join(
            [*(f"{rule.key_expr}={rule.age is not None}" for rule in self.rules), str(self.age is not None)]
        )


KEEPS_ALL = Retention()


def _due(age: timedelta | None, day: date, now: datetime) -> timedelta | None:
    return timedelta() if age is not None and day < (now.astimezone(UTC) - age).date() else None


def expire(
    spark: SparkSession | None,
    samples: Table,
    taken_in: Sequence[Mapping[str, int]],
    retention: Retention,
    now: datetime,
) -> int:
    """Take away what has expired, as far as the derived tables have taken it in; how many files went or changed."""
    if retention.is_empty:
        return 0
    whole, partly = divided(samples.files, retention, now, partial(is_settled, samples, taken_in))
    if whole:
        samples.commit(Change(remove=whole))
    for file, state in partly:
        write = partial(write_kept, samples.folder, extended(samples), state)
        added = on_workers(spark, write, [file])[0] if spark is not None else write(file)
        samples.commit(Change(remove=[file], add=added))
    return len(whole) + len(partly)


def is_settled(samples: Table, taken_in: Sequence[Mapping[str, int]], file: File) -> bool:
    """Whether derived tables have taken in all rows of a file.

    Statistics do not say that of a file with rows of several recorders, which another tool has put together: its rows
    are looked at.
    """
    waiting = [offsets for offsets in taken_in if reaches(file, offsets)]
    if not waiting or file.least.get("recorder") == file.greatest.get("recorder"):
        return not waiting
    rows = list(batches_of(samples.folder, file, samples.shape, ["recorder", "offset"]))
    return not any(pc.any(is_behind(batch, offsets)).as_py() for batch in rows for offsets in waiting)


def divided(
    files: Sequence[File], retention: Retention, now: datetime, is_free: Callable[[File], bool] = lambda _: True
) -> tuple[Group, list[tuple[File, Retention]]]:
    """Files that go as a whole, and files of which some keys may go, with what has expired of their day.

    Only of those that are free to go, which is asked last.
    """
    size = sum(file.size for file in files)
    whole: Group = []
    partly: list[tuple[File, Retention]] = []
    states: dict[str | None, Retention] = {}
    for file in sorted(files, key=_newest):
        day = file.partition["day"]
        if day is not None and day not in states:
            states[day] = retention.expired(date.fromisoformat(day), now)
        state = states.get(day, KEEPS_ALL)
        if _expires_whole(state) or (retention.max_bytes is not None and size > retention.max_bytes):
            if is_free(file):
                whole.append(file)
                size -= file.size
        elif _expires_partly(state) and file.tags.get(EXPIRED_TAG) != state.name and is_free(file):
            partly.append((file, state))
    return whole, partly


def _newest(file: File) -> tuple[str, datetime, str]:
    """Orders files by what they have last; one without statistics counts as the first of its day."""
    return file.partition["day"] or "", file.greatest.get("received_at") or datetime.min.replace(tzinfo=UTC), file.path


def _expires_whole(state: Retention) -> bool:
    return state.age is not None and all(rule.age is not None for rule in state.rules)


def _expires_partly(state: Retention) -> bool:
    return state.age is not None or any(rule.age is not None for rule in state.rules)


def write_kept(folder: Folder, shape: Shape, state: Retention, file: File) -> list[File]:
    """Write the rows of a file that have not expired into another: what a task of Spark does."""
    files = Files(folder, shape, "retain", CLUSTERED, {EXPIRED_TAG: state.name})
    partition = {name: str(value) for name, value in file.partition.items()}
    for batch in batches_of(folder, file, shape):
        keys = batch.column("key")
        kept = [key is None or state.age_of(key) is None for key in keys.dictionary.to_pylist()]
        mask = pc.fill_null(pa.array(kept, pa.bool_()).take(keys.indices), True)
        rows = pa.Table.from_batches([batch]).filter(mask)
        if rows.num_rows:
            files.write(rows.combine_chunks(), partition)
    return files.close()
