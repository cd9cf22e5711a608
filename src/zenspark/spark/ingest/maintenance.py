"""Maintenance of `samples`: compaction, retention, vacuum.

*Compaction* merges small files of one day and prefix and sorts their rows by key, so that the history of one key lies
in few row groups. Files are in tiers by size, each `TIER_FACTOR` times the one below. A tier with many files, or with
enough bytes for a large file, becomes one file of a higher tier, so that a row is rewritten at most once per tier, not
once per compaction. When a day is over, its remaining small files are merged regardless of their tier. Each group of
files is one transaction: completed work is kept.

*Retention* (`expire`) removes days by age, and the oldest files by total size, as far as the derived tables have been
refreshed with them. A rule for a key expression removes only the rows of its keys, by rewriting files.

*Vacuum* removes files that are in no snapshot any more from disk, after a delay for running readers. All of this may
run while batches are ingested: they only add files.
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
from zenspark.lake.delta_log import PartitionKey
from zenspark.lake.delta_table import LakeTable, Transaction
from zenspark.lake.ingested_offsets import mask_rows_from, may_have_rows_from
from zenspark.lake.parquet_files import KEY_ORDER_SIZES, DataFile, DataFileWriter, group_batches, read_batches
from zenspark.lake.parquet_footer import Numbers
from zenspark.lake.specs import TableSpec
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.ingest.write_files import run_on_executors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPACTED_FILE_BYTES = 128 << 20
"""Size to which files are compacted: those of this size or more stay."""
MIN_TIER_BYTES = 64 << 10
"""Files up to this size are all in the lowest tier."""
TIER_FACTOR = 8
MIN_FILES_TO_COMPACT = 16
"""Number of files of a tier that triggers compaction."""
MAX_GROUPS_PER_TASK = 256
"""Maximum number of groups of small files per task and commit."""
MAX_GROUP_ROWS = 8_000_000
"""Maximum rows of a compacted file: repeating a failed task with more rows is expensive."""
SORT_ROWS, SORT_BYTES = 1 << 22, 256 << 20
"""Rows and bytes that a task sorts at once; it never holds more than twice these bytes in memory."""
EXPIRED_TAG = "zenspark.expired"
"""Tag of a file: the retention rules that have been applied to it."""

Group = list[DataFile]


# --- compaction -------------------------------------------------------------------------------------------------------


def size_tier(size: int) -> int:
    """Return the tier of a file size; 0 is the smallest."""
    return max(0, math.ceil(math.log(max(size, 1) / MIN_TIER_BYTES, TIER_FACTOR)))


def compaction_groups(files: Iterable[DataFile], is_over: bool) -> list[Group]:
    """Return groups of files of one partition to merge into one file each; `is_over` if no more files will come."""
    tiers: dict[int, Group] = defaultdict(list)
    for file in files:
        if file.size < COMPACTED_FILE_BYTES:
            tiers[0 if is_over else size_tier(file.size)].append(file)
    return [group for tier in tiers.values() for group in _pack_groups(tier) if _is_worth_merging(group, is_over)]


def _is_worth_merging(group: Group, is_over: bool) -> bool:
    if len(group) < 2:
        return False
    return is_over or len(group) >= MIN_FILES_TO_COMPACT or _size(group) * 2 >= COMPACTED_FILE_BYTES


def _size(group: Group) -> int:
    return sum(file.size for file in group)


def _pack_groups(files: Group) -> list[Group]:
    """Group files, in the order they were added, into groups of about the target size."""
    packed: list[Group] = [[]]
    size = rows = 0
    for file in sorted(files, key=lambda file: (file.version, file.path)):
        is_full = size + file.size > COMPACTED_FILE_BYTES or rows + file.rows > MAX_GROUP_ROWS
        if packed[-1] and is_full:
            packed.append([])
            size = rows = 0
        packed[-1].append(file)
        size, rows = size + file.size, rows + file.rows
    return packed


class Compaction:
    """Compacts one table repeatedly, considering only partitions that changed since the last run."""

    def __init__(self) -> None:
        self._seen: dict[PartitionKey, tuple[int, bool]] = {}
        """Id of the file set of each partition when there was nothing to compact, and whether its day was over."""
        self._kept: Mapping[PartitionKey, Mapping[str, DataFile]] = {}
        """References to these file sets, so that no other object can get the same id."""

    def groups(self, samples: LakeTable, today: date) -> list[Group]:
        """Return the groups of files to compact now."""
        groups: list[Group] = []
        seen = {}
        for key, files in samples.partitions.items():
            day = partition_day(key)
            mark = (id(files), day is not None and day < today)
            if self._seen.get(key) == mark:
                seen[key] = mark
                continue
            partition_groups = compaction_groups(files.values(), mark[1])
            if not partition_groups:
                seen[key] = mark
            groups += partition_groups
        self._seen = seen
        self._kept = samples.partitions
        return groups

    def run(self, spark: SparkSession, samples: LakeTable, today: date) -> int:
        """Compact files, with as many concurrent tasks as cores. Returns the decrease of the number of files."""
        work = pack_tasks(self.groups(samples, today))
        write = partial(compact_groups, samples.location, with_extra_columns(samples))
        cores = spark.sparkContext.defaultParallelism
        decrease = 0
        for start in range(0, len(work), cores):
            tasks_at_once = work[start : start + cores]
            for task, added in zip(tasks_at_once, run_on_executors(spark, write, tasks_at_once), strict=True):
                removed = [file for group in task for file in group]
                samples.commit(Transaction(add=added, remove=removed, is_optimize=True))
                decrease += len(removed) - len(added)
        return decrease


def pack_tasks(groups: Sequence[Group]) -> list[list[Group]]:
    """Pack groups into tasks with one commit each: one large group, or many small ones of many prefixes."""
    tasks: list[list[Group]] = []
    size = COMPACTED_FILE_BYTES
    for group in groups:
        if size + _size(group) > COMPACTED_FILE_BYTES or len(tasks[-1]) >= MAX_GROUPS_PER_TASK:
            tasks.append([])
            size = 0
        tasks[-1].append(group)
        size += _size(group)
    return tasks


def compact_groups(folder: StoragePath, spec: TableSpec, groups: Sequence[Group]) -> list[DataFile]:
    """Merge the files of each group into one; runs as a Spark task."""
    try:
        return [file for group in groups for file in compact_group(folder, spec, group)]
    finally:
        pa.default_memory_pool().release_unused()  # the worker process is reused by tasks that need less


def partition_day(key: Sequence[str | None]) -> date | None:
    """Return the day of a partition of samples."""
    return None if key[0] is None else date.fromisoformat(key[0])


def with_extra_columns(table: LakeTable) -> TableSpec:
    """Return the schema of a table with columns that other tools added, so that rewriting its files keeps them."""
    return replace(table.spec, columns=pa.schema([*table.spec.columns, *table.extra_columns]))


def compact_group(folder: StoragePath, spec: TableSpec, group: Group) -> list[DataFile]:
    """Merge files of one partition into one, sorted by key; runs as a Spark task.

    Rows are sorted in chunks of `SORT_ROWS` rows or `SORT_BYTES` bytes; one chunk is in memory at a time.
    """
    files = DataFileWriter(folder, spec, "compact", KEY_ORDER_SIZES)
    partition = {name: str(value) for name, value in group[0].partition.items()}
    batches = (batch for file in group for batch in read_batches(folder, file, spec))
    try:
        for rows in group_batches(batches, SORT_ROWS, SORT_BYTES):
            files.write(rows, partition, key_order(rows["key"].chunk(0)))
            del rows  # before the next chunk is read
        return files.close()
    except BaseException:
        files.discard()
        raise


def key_order(keys: pa.DictionaryArray) -> Numbers | None:
    """Return row indices sorted by key, stable within a key; None if rows are sorted already."""
    rank = np.empty(len(keys.dictionary) + 1, np.int32)
    rank[pc.sort_indices(keys.dictionary).to_numpy()] = np.arange(len(keys.dictionary), dtype=np.int32)
    rank[-1] = -1  # rows without a key, which another tool may have inserted
    codes = pc.fill_null(keys.indices, len(keys.dictionary)).to_numpy()
    order = np.argsort(rank[codes], kind="stable")
    return None if (order[1:] > order[:-1]).all() else order


# --- retention --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RetentionRule:
    """Retention of the keys of an expression.

    Attributes:
        key_expr: Key expression of the keys.
        age: Age after which their rows are removed; None keeps them for ever.

    Example:
        >>> rule = RetentionRule("fleet/*/log", timedelta(days=1))
    """

    key_expr: str
    age: timedelta | None


@dataclass(frozen=True)
class Retention:
    """Retention of samples: the first rule that matches a key decides, else `age`; `max_bytes` limits the total.

    Attributes:
        age: Age after which rows are removed that no rule is about; None keeps them for ever.
        max_bytes: Size of the files over which the oldest days are removed; None without.
        rules: Rules for the keys of key expressions.

    Example:
        >>> rule = RetentionRule("fleet/*/log", timedelta(days=1))
        >>> retention = Retention(age=timedelta(days=30), rules=(rule,))
    """

    age: timedelta | None = None
    max_bytes: int | None = None
    rules: tuple[RetentionRule, ...] = ()

    @cached_property
    def is_empty(self) -> bool:
        """Whether all rows are kept."""
        return self.age is None and self.max_bytes is None and all(rule.age is None for rule in self.rules)

    def age_of(self, key: str) -> timedelta | None:
        """Return the age up to which rows of a key are kept.

        Args:
            key: The key, or a key expression of a DELETE.

        Returns:
            The age; None is unlimited.

        Example:
            >>> rule = RetentionRule("fleet/*/log", timedelta(days=1))
            >>> Retention(rules=(rule,)).age_of("fleet/r1/log").days
            1
        """
        for rule in self.rules:
            if intersects(rule.key_expr, key):
                return rule.age
        return self.age

    def for_day(self, day: date, now: datetime) -> Retention:
        """Return the retention that applies to a day: expired ages become zero, others None.

        Args:
            day: UTC day of reception.
            now: The time now, with a time zone.

        Returns:
            The retention of the rows that were received on that day.

        Example:
            >>> now = datetime(2026, 3, 31, tzinfo=UTC)
            >>> Retention(age=timedelta(days=30)).for_day(date(2026, 1, 1), now).age
            datetime.timedelta(0)
        """
        return replace(
            self,
            age=_age_at(self.age, day, now),
            rules=tuple(RetentionRule(rule.key_expr, _age_at(rule.age, day, now)) for rule in self.rules),
        )

    @property
    def tag(self) -> str:
        """The rules as text, for the tag of a file."""
        return ";".join(
            [*(f"{rule.key_expr}={rule.age is not None}" for rule in self.rules), str(self.age is not None)]
        )


KEEP_ALL = Retention()


def _age_at(age: timedelta | None, day: date, now: datetime) -> timedelta | None:
    return timedelta() if age is not None and day < (now.astimezone(UTC) - age).date() else None


def expire(
    spark: SparkSession | None,
    samples: LakeTable,
    refreshed_offsets: Sequence[Mapping[str, int]],
    retention: Retention,
    now: datetime,
) -> int:
    """Remove expired rows that the derived tables include. Returns the number of files removed or rewritten."""
    if retention.is_empty:
        return 0
    whole, partly = split_expired(samples.files, retention, now, partial(is_refreshed, samples, refreshed_offsets))
    if whole:
        samples.commit(Transaction(remove=whole))
    for file, state in partly:
        write = partial(write_unexpired, samples.location, with_extra_columns(samples), state)
        added = run_on_executors(spark, write, [file])[0] if spark is not None else write(file)
        samples.commit(Transaction(remove=[file], add=added))
    return len(whole) + len(partly)


def is_refreshed(samples: LakeTable, refreshed_offsets: Sequence[Mapping[str, int]], file: DataFile) -> bool:
    """Whether the derived tables include all rows of a file.

    The statistics of a file are not sufficient if another tool wrote rows of several recorders into it; then its rows
    are read.
    """
    pending = [offsets for offsets in refreshed_offsets if may_have_rows_from(file, offsets)]
    if not pending or file.min_values.get("recorder") == file.max_values.get("recorder"):
        return not pending
    rows = list(read_batches(samples.location, file, samples.spec, ["recorder", "offset"]))
    return not any(pc.any(mask_rows_from(batch, offsets)).as_py() for batch in rows for offsets in pending)


def split_expired(
    files: Sequence[DataFile],
    retention: Retention,
    now: datetime,
    is_removable: Callable[[DataFile], bool] = lambda _: True,
) -> tuple[Group, list[tuple[DataFile, Retention]]]:
    """Return files to remove as a whole, and files of which some keys may expire, with the retention of their day.

    Only files for which `is_removable`, which is expensive, returns True.
    """
    size = sum(file.size for file in files)
    whole: Group = []
    partly: list[tuple[DataFile, Retention]] = []
    states: dict[str | None, Retention] = {}
    for file in sorted(files, key=_expiry_order):
        day = file.partition["day"]
        if day is not None and day not in states:
            states[day] = retention.for_day(date.fromisoformat(day), now)
        state = states.get(day, KEEP_ALL)
        if _expires_whole(state) or (retention.max_bytes is not None and size > retention.max_bytes):
            if is_removable(file):
                whole.append(file)
                size -= file.size
        elif _expires_partly(state) and file.tags.get(EXPIRED_TAG) != state.tag and is_removable(file):
            partly.append((file, state))
    return whole, partly


def _expiry_order(file: DataFile) -> tuple[str, datetime, str]:
    """Sort key of files by newest row; a file without statistics is the first of its day."""
    return (
        file.partition["day"] or "",
        file.max_values.get("received_at") or datetime.min.replace(tzinfo=UTC),
        file.path,
    )


def _expires_whole(state: Retention) -> bool:
    return state.age is not None and all(rule.age is not None for rule in state.rules)


def _expires_partly(state: Retention) -> bool:
    return state.age is not None or any(rule.age is not None for rule in state.rules)


def write_unexpired(folder: StoragePath, spec: TableSpec, state: Retention, file: DataFile) -> list[DataFile]:
    """Rewrite a file without its expired rows; runs as a Spark task."""
    files = DataFileWriter(folder, spec, "retain", KEY_ORDER_SIZES, {EXPIRED_TAG: state.tag})
    partition = {name: str(value) for name, value in file.partition.items()}
    for batch in read_batches(folder, file, spec):
        keys = batch.column("key")
        kept = [key is None or state.age_of(key) is None for key in keys.dictionary.to_pylist()]
        mask = pc.fill_null(pa.array(kept, pa.bool_()).take(keys.indices), True)
        rows = pa.Table.from_batches([batch]).filter(mask)
        if rows.num_rows:
            files.write(rows.combine_chunks(), partition)
    return files.close()
