"""One table of a lake: Parquet files, and the Delta log that says which of them count.

A change is one transaction: files come in, others go, and *marks* move, which are numbers under a name
("offset:robot" = 5000). Marks are the application transactions of the Delta protocol: they are part of the snapshot,
outlive checkpoints of the log, and two writers that move the same mark at once cannot both succeed. That makes a mark
the place to keep how far a table has come.

Files lie as every Delta writer lays them: `<column>=<value>/part-….parquet`. A file that was written and never
committed counts for no reader; vacuum removes it.
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
from zenspark.lake.specs import FORMAT_VERSION, READABLE_VERSIONS, TableSpec
from zenspark.lake.storage_path import StoragePath

VERSION_PROPERTY = "zenspark.schema"
LOG_RETENTION_PROPERTY = "delta.logRetentionDuration"
FILE_RETENTION_PROPERTY = "delta.deletedFileRetentionDuration"
DEFAULT_HISTORY = timedelta(hours=1)
"""How far back other tools can read a table as it was; each commit of that time is a file."""
COMMITS_PER_CHECKPOINT = 20
"""Commits after which the log is summed up: until then, who opens the table reads them one by one."""
FILES_PER_CHECKPOINT_COMMIT = 500
"""A table of so many files per commit is summed up less often, because a checkpoint lists them all."""
WILDCARD = "*"
MAX_LOOKUP_DAYS = 366
"""Partitions of so many days are looked up by name; for more, all partitions are searched."""


@dataclass(frozen=True)
class Transaction:
    """What one transaction does to a table."""

    add: Sequence[DataFile] = ()
    remove: Sequence[DataFile] = ()
    app_versions: Mapping[str, int] = field(default_factory=dict)
    is_optimize: bool = False
    """The rows stay what they are: only their files change."""

    @property
    def operation(self) -> str:
        """What the history of the table calls it."""
        if self.is_optimize:
            return "OPTIMIZE"
        return "DELETE" if self.remove and not self.add else "WRITE"


@dataclass(frozen=True)
class ForeignCommit:
    """A commit of another tool that removed or changed rows."""

    version: int
    operation: str
    removed: Sequence[str]
    """The paths of the files that went; vacuum may have removed them from disk."""
    added: Sequence[DataFile]
    partitions: frozenset[PartitionKey | None] = frozenset()
    """Where the files were that went; None where the log does not say it."""


class LakeTable:
    """A table as it was when this object was made or last refreshed."""

    def __init__(self, location: StoragePath, spec: TableSpec, log: DeltaLog | None = None) -> None:
        """Open the table; where there is none it is empty, and made by the first commit."""
        self.location = location
        self.spec = spec
        self._log = log or open_log(location, spec)
        self._state = self._read()

    def _read(self) -> TableState:
        try:
            state = self._log.refresh()
        except OSError as error:
            raise LakeError(self.location.address, to_one_line(error)) from error
        self._check(state)
        return state

    def _check(self, state: TableState) -> None:
        if state.version < 0:
            return
        version = self._properties(state).get(VERSION_PROPERTY)
        if version not in READABLE_VERSIONS:
            found = f"its schema has version {version}" if version else "it was not made by zenspark"
            raise LakeError(self.location.address, f"{found}, and this zenspark reads version {FORMAT_VERSION}")
        wrong = describe_difference(column_types(self.spec.schema), column_types(parse_schema(state)))
        if wrong:
            raise LakeError(self.location.address, f"its columns are not those of this version: {wrong}")

    @staticmethod
    def _properties(state: TableState) -> Mapping[str, str]:
        return state.metadata.get("configuration") or {}

    def refresh(self) -> LakeTable:
        """See what was committed meanwhile."""
        self._state = self._read()
        return self

    # --- what it has

    @property
    def exists(self) -> bool:
        return self._state.version >= 0

    @property
    def version(self) -> int:
        """The number of the snapshot: it grows with every transaction; -1 where there is no table yet."""
        return self._state.version

    @property
    def format(self) -> str | None:
        """The version of the lake's format that wrote it; None where there is no table yet."""
        return self._properties(self._state).get(VERSION_PROPERTY)

    @property
    def schema(self) -> pa.Schema:
        """The columns as the log has them: those of the spec, then what other tools added."""
        return parse_schema(self._state) if self.exists else self.spec.schema

    @property
    def extra(self) -> pa.Schema:
        """Columns that another tool added."""
        known = set(self.spec.schema.names)
        return pa.schema([column for column in self.schema if column.name not in known])

    @property
    def files(self) -> list[DataFile]:
        """The files that count: all of them, which takes as long as there are many."""
        return list(self._state.files)

    @property
    def partitions(self) -> Mapping[PartitionKey, Mapping[str, DataFile]]:
        """The files that count, by path, by the values of the partition columns; never changed, only replaced."""
        return self._state.partitions

    @property
    def file_count(self) -> int:
        return sum(len(group) for group in self._state.partitions.values())

    def files_since(self, version: int) -> list[DataFile]:
        """The files that count and were added after a version of the log."""
        if version >= self.version:
            return []
        commits = self._log.commits_since(version, self.version)
        if commits is None:
            return [file for file in self._state.files if file.version > version]
        names = self.spec.partitions.names
        return [file for commit in commits for file in commit.added if self._state.has(file, names)]

    def prune_files(
        self,
        day_from: date | None = None,
        day_to: date | None = None,
        prefix: str | None = None,
        wild: bool = True,
    ) -> list[DataFile]:
        """The files of days and a prefix, both ends included; with `wild` also those of prefixes with wildcards."""
        names = self.spec.partitions.names
        assert names == ["day", "prefix"], "only samples are partitioned so"
        return [
            file
            for key in self._keys(day_from, day_to, prefix, wild)
            for file in self._state.partitions.get(key, {}).values()
        ]

    def _keys(self, first: date | None, last: date | None, prefix: str | None, wild: bool) -> Iterable[PartitionKey]:
        """The partitions that can be meant: looked up one by one where they are few, or else searched for."""
        days = (last - first).days if first is not None and last is not None else MAX_LOOKUP_DAYS + 1
        if prefix is None or days > MAX_LOOKUP_DAYS:
            return [key for key in self._state.partitions if _may_contain_rows(key, first, last, prefix, wild)]
        assert first is not None, "days were counted from it"
        known = [((first + timedelta(days=number)).isoformat(), prefix) for number in range(days + 1)]
        others = (
            [key for key in self._state.wildcard_partitions if _may_contain_rows(key, first, last, prefix, wild)]
            if wild
            else []
        )
        return dict.fromkeys([*known, *others, *((day, None) for day, _ in known)])

    def foreign_changes(self, version: int) -> list[ForeignCommit] | None:
        """Commits of other tools after a version that removed rows; None if the log does not reach back so far."""
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
        """A number as the last transaction that moved it left it."""
        return self._state.app_versions.get(app_id)

    @property
    def app_versions(self) -> Mapping[str, int]:
        """The version of every application id."""
        return self._state.app_versions

    def delta(self) -> DeltaTable:
        """The table for the `deltalake` package, as it is now: it reads the whole log."""
        try:
            return DeltaTable(self.location.address, storage_options=dict(self.location.options))
        except TableNotFoundError:
            raise LakeError(self.location.address, "there is no table here") from None

    # --- to change it

    def write(self, rows: pa.Table, label: str) -> list[DataFile]:
        """Write rows of a table without partitions that this process has at hand."""
        files = DataFileWriter(self.location, self.spec, label)
        files.write(rows, {})
        return files.close()

    def commit(self, change: Transaction, *, any_format: bool = False) -> None:
        """Make a change count, all of it or nothing; fails if another writer moved one of its marks meanwhile.

        With `any_format` a table of an older format is changed, too: only an upgrade does that.
        """
        now = int(time.time() * 1000)
        changes_rows = not change.is_optimize
        actions = [
            # deltalake's OPTIMIZE overlooks files that were removed meanwhile without a change of data, and would bring
            # their rows in a second time: what is removed here always counts as changed
            *(remove_action(file, now, True) for file in change.remove),
            *(add_action(file, now, changes_rows) for file in change.add),
            *(txn_action(app_id, version, now) for app_id, version in change.app_versions.items()),
        ]
        guard = ConflictChecker(frozenset(change.app_versions), frozenset(file.path for file in change.remove))
        base = self._state
        if not self.exists:
            self.create()
        if self.format != FORMAT_VERSION and not any_format:
            raise LakeError(
                self.location.address,
                f"it has format version {self.format}, which is read-only: `zenspark lake upgrade` makes it {FORMAT_VERSION}",
            )
        try:
            self._state = self._log.commit(base, actions, change.operation, guard)
        except OSError as error:
            raise LakeError(self.location.address, to_one_line(error)) from error

    def create(self, history: timedelta = DEFAULT_HISTORY) -> None:
        """Make the table if there is none."""
        kept = _format_interval(history)
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
                    VERSION_PROPERTY: FORMAT_VERSION,
                    LOG_RETENTION_PROPERTY: kept,
                    FILE_RETENTION_PROPERTY: kept,
                },
                storage_options=dict(self.location.options),
                raise_if_key_not_exists=False,
            )
        except OSError as error:  # so deltalake calls what goes wrong on the way to the files, too
            raise LakeError(self.location.address, to_one_line(error)) from error
        self.refresh()

    def set_history(self, history: timedelta) -> None:
        """Keep the log and unused files for so long: how far back other tools can read the table as it was."""
        kept = _format_interval(history)
        if not self.exists or self._properties(self._state).get(LOG_RETENTION_PROPERTY) == kept:
            return
        try:
            self.delta().alter.set_table_properties({LOG_RETENTION_PROPERTY: kept, FILE_RETENTION_PROPERTY: kept})
        except (OSError, DeltaError) as error:
            raise LakeError(self.location.address, to_one_line(error)) from error
        self.refresh()

    # --- to keep the log short

    def checkpoint(self, *, force: bool = False) -> bool:
        """Sum the log up if enough has been committed since the last time, and drop what it no longer needs."""
        due = max(COMMITS_PER_CHECKPOINT, self.file_count // FILES_PER_CHECKPOINT_COMMIT)
        if not self.exists or (self.version - self._log.checkpoint_version < due and not force):
            return False
        delta = self.delta()
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
    """The log of a table with this spec; one is shared by what follows it."""
    types = {column.name: column.type for column in spec.columns if column.name in spec.stats_columns}
    return DeltaLog(location, spec.partitions.names, types)


def parse_schema(state: TableState) -> pa.Schema:
    """The columns that the log says the table has."""
    return pa.schema(Schema.from_json(state.metadata["schemaString"]).to_arrow())


def _may_contain_rows(key: PartitionKey, first: date | None, last: date | None, prefix: str | None, wild: bool) -> bool:
    """Whether rows of a partition can be of these days and this prefix; a value that is not there may be any."""
    day, own = key
    is_then = day is None or ((first is None or day >= first.isoformat()) and (last is None or day <= last.isoformat()))
    return is_then and (prefix is None or own is None or own == prefix or (wild and WILDCARD in own))


def to_one_line(error: Exception) -> str:
    """What deltalake says in many coloured lines, in one."""
    return " ".join(re.sub(r"\x1b\[\d+m↳\x1b\[0m", "", str(error)).split())


def column_types(schema: pa.Schema) -> dict[str, str]:
    """The columns of a schema with their types in words."""
    return {column.name: _type_name(column.type) for column in schema}


def _type_name(kind: pa.DataType) -> str:
    """A type in words: how many bytes a length takes is the writer's business."""
    return str(kind).removeprefix("large_").removesuffix("_view")


def describe_difference(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Say in words what is missing or of another type; columns that another tool added do no harm."""
    said = [f"{name} is missing" for name in expected if name not in found]
    said += [
        f"{name} is {found[name]}, not {expected[name]}"
        for name in expected
        if name in found and expected[name] != found[name]
    ]
    return "; ".join(said)
