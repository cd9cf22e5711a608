"""One table of a lake: Parquet data files, and the Delta log that lists the live ones.

A transaction adds files, removes files and sets application versions: the `txn` actions of the Delta protocol, a number
for each application id ("offset:robot" = 5000). They are part of the snapshot, survive checkpoints of the log, and two
writers that set the same one concurrently cannot both succeed. So the offset up to which a table has ingested each
journal is kept there.

Files have the paths that every Delta writer uses: `<column>=<value>/part-….parquet`. A file that was written and never
committed is invisible to readers; vacuum removes it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from zenspark.errors import LakeError
from zenspark.lake.delta_log import (
    ConflictChecker,
    DeltaLog,
    PartitionKey,
    TableState,
    add_action,
    remove_action,
    txn_action,
)
from zenspark.lake.parquet_files import DataFile, DataFileWriter
from zenspark.lake.partitioning import WILDCARD
from zenspark.lake.specs import LAKE_FORMAT_VERSION, READABLE_VERSIONS, TableSpec
from zenspark.lake.storage_path import StoragePath

VERSION_PROPERTY = "zenspark.schema"
LOG_RETENTION_PROPERTY = "delta.logRetentionDuration"
FILE_RETENTION_PROPERTY = "delta.deletedFileRetentionDuration"
DEFAULT_HISTORY = timedelta(hours=1)
"""Time for which other tools can read older versions (time travel); each commit in that time is a file."""
COMMITS_PER_CHECKPOINT = 20
"""Commits between two checkpoints: a process that opens the table reads those since the last one one by one."""
FILES_PER_CHECKPOINT_COMMIT = 500
"""Files of a table per commit between two checkpoints. A table with many files is checkpointed less often: each
checkpoint lists all of them."""
MAX_LOOKUP_DAYS = 366
"""Most days that are looked up partition by partition; for more, all partitions are filtered."""


@dataclass(frozen=True)
class Transaction:
    """The changes of one commit: files to add and remove, and application versions to set."""

    add: Sequence[DataFile] = ()
    remove: Sequence[DataFile] = ()
    app_versions: Mapping[str, int] = field(default_factory=dict)
    is_optimize: bool = False
    """Whether only files change and rows stay the same, as in a compaction."""

    @property
    def operation(self) -> str:
        """The operation name in the history of the table."""
        if self.is_optimize:
            return "OPTIMIZE"
        return "DELETE" if self.remove and not self.add else "WRITE"


@dataclass(frozen=True)
class ForeignCommit:
    """A commit by another tool that removed or changed rows."""

    version: int
    operation: str
    removed: Sequence[str]
    """Paths of the removed files; vacuum may have deleted them."""
    added: Sequence[DataFile]
    partitions: frozenset[PartitionKey | None] = frozenset()
    """Partitions of the removed files; None where the log does not name it."""


class LakeTable:
    """A table at the version that was current when it was opened or last updated."""

    def __init__(self, location: StoragePath, spec: TableSpec, log: DeltaLog | None = None) -> None:
        """Open the table; if it does not exist it is empty, and the first commit creates it."""
        self.location = location
        self.spec = spec
        self._log = log or open_log(location, spec)
        self._state = self._read()

    def _read(self) -> TableState:
        try:
            state = self._log.update()
        except OSError as error:
            raise LakeError(self.location.address, to_one_line(error)) from error
        self._check(state)
        return state

    def _check(self, state: TableState) -> None:
        if state.version < 0:
            return
        version = self._properties(state).get(VERSION_PROPERTY)
        if version not in READABLE_VERSIONS:
            origin = f"its schema has version {version}" if version else "it was not made by zenspark"
            raise LakeError(self.location.address, f"{origin}, and this zenspark reads version {LAKE_FORMAT_VERSION}")
        mismatch = describe_difference(column_types(self.spec.schema), column_types(parse_schema(state)))
        if mismatch:
            raise LakeError(self.location.address, f"its columns are not those of this version: {mismatch}")

    @staticmethod
    def _properties(state: TableState) -> Mapping[str, str]:
        return state.metadata.get("configuration") or {}

    def update(self) -> LakeTable:
        """Read commits made since the table was opened or last updated."""
        self._state = self._read()
        return self

    # --- content

    @property
    def exists(self) -> bool:
        return self._state.version >= 0

    @property
    def version(self) -> int:
        """Version of the snapshot: increases with every commit; -1 if the table does not exist."""
        return self._state.version

    @property
    def format(self) -> str | None:
        """Format version of the lake that created it; None if the table does not exist."""
        return self._properties(self._state).get(VERSION_PROPERTY)

    @property
    def schema(self) -> pa.Schema:
        """The schema in the log: the columns of the spec, then those that other tools added."""
        return parse_schema(self._state) if self.exists else self.spec.schema

    @property
    def extra_columns(self) -> pa.Schema:
        """Columns that other tools added."""
        specified = set(self.spec.schema.names)
        return pa.schema([column for column in self.schema if column.name not in specified])

    @property
    def files(self) -> list[DataFile]:
        """All live files; takes time in proportion to their number."""
        return list(self._state.files)

    @property
    def partitions(self) -> Mapping[PartitionKey, Mapping[str, DataFile]]:
        """Live files by path, for each partition; the mapping is immutable."""
        return self._state.partitions

    @property
    def file_count(self) -> int:
        return sum(len(group) for group in self._state.partitions.values())

    def files_since(self, version: int) -> list[DataFile]:
        """Live files that were added after a version."""
        if version >= self.version:
            return []
        commits = self._log.commits_since(version, self.version)
        if commits is None:
            return [file for file in self._state.files if file.version > version]
        names = self.spec.partitions.names
        return [file for commit in commits for file in commit.added if self._state.contains(file, names)]

    def prune_files(
        self,
        day_from: date | None = None,
        day_to: date | None = None,
        prefix: str | None = None,
        include_wildcards: bool = True,
    ) -> list[DataFile]:
        """Files of a range of days, inclusive, and a key prefix, by default also of prefixes with wildcards."""
        names = self.spec.partitions.names
        assert names == ["day", "prefix"], "only samples are partitioned so"
        return [
            file
            for key in self._candidate_partitions(day_from, day_to, prefix, include_wildcards)
            for file in self._state.partitions.get(key, {}).values()
        ]

    def _candidate_partitions(
        self, first: date | None, last: date | None, prefix: str | None, include_wildcards: bool
    ) -> Iterable[PartitionKey]:
        """Partitions that may have such rows: by name for few days, otherwise by filtering all partitions."""
        days = (last - first).days if first is not None and last is not None else MAX_LOOKUP_DAYS + 1
        if prefix is None or days > MAX_LOOKUP_DAYS:
            return [
                key for key in self._state.partitions if _may_contain_rows(key, first, last, prefix, include_wildcards)
            ]
        assert first is not None, "days were counted from it"
        exact = [((first + timedelta(days=number)).isoformat(), prefix) for number in range(days + 1)]
        wildcards = self._state.wildcard_partitions if include_wildcards else ()
        others = [key for key in wildcards if _may_contain_rows(key, first, last, prefix, include_wildcards)]
        return dict.fromkeys([*exact, *others, *((day, None) for day, _ in exact)])

    def foreign_changes(self, version: int) -> list[ForeignCommit] | None:
        """Commits of other tools after a version that removed rows; None if the log does not reach back that far."""
        commits = self._log.commits_since(version, self.version)
        if commits is None:
            return None
        return [
            ForeignCommit(
                commit.version,
                commit.operation,
                list(commit.removed),
                commit.added,
                frozenset(commit.removed.values()),
            )
            for commit in commits
            if commit.is_foreign and commit.removes_rows
        ]

    def app_version(self, app_id: str) -> int | None:
        """The version that the last transaction set for an application id; None if none did."""
        return self._state.app_versions.get(app_id)

    @property
    def app_versions(self) -> Mapping[str, int]:
        """The version of every application id."""
        return self._state.app_versions

    def to_deltalake(self) -> DeltaTable:
        """Open the current version with the `deltalake` package, which reads the whole log."""
        try:
            return DeltaTable(self.location.address, storage_options=dict(self.location.options))
        except TableNotFoundError:
            raise LakeError(self.location.address, "there is no table here") from None

    # --- write

    def write(self, rows: pa.Table, label: str) -> list[DataFile]:
        """Write rows as data files of an unpartitioned table; they are not committed yet."""
        files = DataFileWriter(self.location, self.spec, label)
        files.write(rows, {})
        return files.close()

    def commit(self, transaction: Transaction, *, any_format: bool = False) -> None:
        """Commit a transaction atomically; raises CommitConflict if another writer set one of its application ids.

        With `any_format` a table of an older format is accepted, which only an upgrade does.
        """
        now = int(time.time() * 1000)
        data_change = not transaction.is_optimize
        actions = [
            # deltalake's OPTIMIZE ignores files that were removed concurrently with dataChange=false, and would
            # add their rows a second time: removals always have dataChange=true
            *(remove_action(file, now, True) for file in transaction.remove),
            *(add_action(file, now, data_change) for file in transaction.add),
            *(txn_action(app_id, version, now) for app_id, version in transaction.app_versions.items()),
        ]
        checker = ConflictChecker(
            frozenset(transaction.app_versions), frozenset(file.path for file in transaction.remove)
        )
        base = self._state
        if not self.exists:
            self.create()
        if self.format != LAKE_FORMAT_VERSION and not any_format:
            raise LakeError(
                self.location.address,
                f"it has format version {self.format}, which is read-only:"
                f" `zenspark lake upgrade` makes it {LAKE_FORMAT_VERSION}",
            )
        try:
            self._state = self._log.commit(base, actions, transaction.operation, checker)
        except OSError as error:
            raise LakeError(self.location.address, to_one_line(error)) from error

    def create(self, history: timedelta = DEFAULT_HISTORY) -> None:
        """Create the table if it does not exist."""
        interval = _format_interval(history)
        try:
            if self.location.is_local:
                self.location.write("_delta_log/.made", b"")  # deltalake makes no directories
                self.location.remove("_delta_log/.made")
            DeltaTable.create(
                self.location.address,
                schema=Schema.from_arrow(self.spec.schema),
                mode="ignore",
                partition_by=self.spec.partitions.names,
                configuration={
                    VERSION_PROPERTY: LAKE_FORMAT_VERSION,
                    LOG_RETENTION_PROPERTY: interval,
                    FILE_RETENTION_PROPERTY: interval,
                },
                storage_options=dict(self.location.options),
                raise_if_key_not_exists=False,
            )
        except OSError as error:  # deltalake raises it for failures of the object store, too
            raise LakeError(self.location.address, to_one_line(error)) from error
        self.update()

    def set_history(self, history: timedelta) -> None:
        """Set the time for which the log and removed files are kept, so that other tools can read older versions."""
        interval = _format_interval(history)
        if not self.exists or self._properties(self._state).get(LOG_RETENTION_PROPERTY) == interval:
            return
        try:
            self.to_deltalake().alter.set_table_properties(
                {LOG_RETENTION_PROPERTY: interval, FILE_RETENTION_PROPERTY: interval}
            )
        except (OSError, DeltaError) as error:
            raise LakeError(self.location.address, to_one_line(error)) from error
        self.update()

    # --- checkpoints

    def checkpoint(self, *, force: bool = False) -> bool:
        """Write a checkpoint if enough commits were made since the last one, and clean up the log. True if it did."""
        due = max(COMMITS_PER_CHECKPOINT, self.file_count // FILES_PER_CHECKPOINT_COMMIT)
        if not self.exists or (self.version - self._log.checkpoint_version < due and not force):
            return False
        delta = self.to_deltalake()
        try:
            delta.create_checkpoint()
            delta.cleanup_metadata()
        except (OSError, DeltaError) as error:
            raise LakeError(self.location.address, to_one_line(error)) from error
        self._log.checkpoint_version = delta.version()
        return True


def _format_interval(time: timedelta) -> str:
    return f"interval {round(time.total_seconds())} seconds"


def open_log(location: StoragePath, spec: TableSpec) -> DeltaLog:
    """Open the log of a table with this spec; to be shared by all `LakeTable` objects of the table."""
    types = {column.name: column.type for column in spec.columns if column.name in spec.stats_columns}
    return DeltaLog(location, spec.partitions.names, types)


def parse_schema(state: TableState) -> pa.Schema:
    """The schema of the table in its metadata."""
    return pa.schema(Schema.from_json(state.metadata["schemaString"]).to_arrow())


def _may_contain_rows(
    key: PartitionKey, first: date | None, last: date | None, prefix: str | None, include_wildcards: bool
) -> bool:
    """Whether a partition may have rows of these days and this prefix; a null value may stand for any."""
    day, key_prefix = key
    is_in_days = day is None or (
        (first is None or day >= first.isoformat()) and (last is None or day <= last.isoformat())
    )
    return is_in_days and (
        prefix is None or key_prefix is None or key_prefix == prefix or (include_wildcards and WILDCARD in key_prefix)
    )


def to_one_line(error: Exception) -> str:
    """Join the coloured lines of a deltalake error message into one plain line."""
    return " ".join(re.sub(r"\x1b\[\d+m↳\x1b\[0m", "", str(error)).split())


def column_types(schema: pa.Schema) -> dict[str, str]:
    """The names of types by column."""
    return {column.name: _type_name(column.type) for column in schema}


def _type_name(data_type: pa.DataType) -> str:
    """The name of a type, the same for all physical layouts of strings and binaries."""
    return str(data_type).removeprefix("large_").removesuffix("_view")


def describe_difference(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Describe columns that are missing or have another type; additional columns are ignored."""
    differences = [f"{name} is missing" for name in expected if name not in found]
    differences += [
        f"{name} is {found[name]}, not {expected[name]}"
        for name in expected
        if name in found and expected[name] != found[name]
    ]
    return "; ".join(differences)
