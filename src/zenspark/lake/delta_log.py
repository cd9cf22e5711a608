"""The Delta transaction log of one table: read incrementally, committed by put-if-absent.

`deltalake` replays the whole log for every commit and every update: with 100,000 files each costs half a second of
processor time. Ingestion commits every second, so a `DeltaLog` keeps the state of the last version it has read and
reads only later commits. A commit is one JSON file, `_delta_log/<version>.json`, that must not exist yet; a writer that
finds the version taken reads the other commit and tries the next version, unless the two transactions conflict.

Only plain Delta is read and written (reader version 1, writer version 2). A table whose protocol requires more, because
another tool enabled deletion vectors or column mapping, is refused. `deltalake` writes checkpoints and removes old log
files.

States:
    a `DeltaLog` is shared by all threads of a process and changes under its lock;
    a `TableState` is immutable, so a snapshot of a table costs nothing and never changes under its reader.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from zenspark import __version__
from zenspark.errors import LakeError
from zenspark.lake.layered_mapping import LayeredMapping
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.storage_path import StoragePath

LOG_DIRECTORY = "_delta_log"
LAST_CHECKPOINT = f"{LOG_DIRECTORY}/_last_checkpoint"
ENGINE_INFO = f"zenspark/{__version__}"
READER_VERSION = 1
WRITER_VERSIONS = (2, 3, 4)
"""Writer versions whose additions (constraints, change data feed, generated columns) do not concern appended files."""
PATH_SAFE = "/=+&@$;,~!()'-_."
"""Path characters that the log has unescaped; all others are percent-encoded, as the protocol requires."""
MAX_COMMIT_ATTEMPTS = 100
"""Most versions in a row that other writers commit before a commit fails: more means a loop, not traffic."""
MAX_CACHED_COMMITS = 5_000
"""Commits kept in memory for `files_since`; for older versions all files of the table are filtered."""
CHECKPOINT_RECHECK_SECONDS = 600.0
"""Seconds without a read after which log files may have been cleaned up, so that the checkpoint is read first."""

PartitionKey = tuple[str | None, ...]
Action = dict[str, Any]


@dataclass(frozen=True)
class TableState:
    """Live files, metadata and application versions of a table at one version of its log."""

    version: int = -1
    """Version of the log; -1 if the table does not exist."""
    partitions: Mapping[PartitionKey, Mapping[str, DataFile]] = field(default_factory=dict)
    """Live files by path, for each partition (the values of the partition columns)."""
    app_versions: Mapping[str, int] = field(default_factory=dict)
    """Version of each application id (`txn` actions)."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    wildcard_partitions: frozenset[PartitionKey] = frozenset()
    """Partitions whose value has wildcards: few, and searched by every query."""

    @property
    def files(self) -> Iterator[DataFile]:
        for group in self.partitions.values():
            yield from group.values()

    def contains(self, file: DataFile, names: Sequence[str]) -> bool:
        """Whether a file is live at this version."""
        return file.path in self.partitions.get(partition_key(file.partition, names), {})


@dataclass(frozen=True)
class Commit:
    """One commit of the log: the files it added and removed."""

    version: int
    added: Sequence[DataFile]
    removed: Mapping[str, PartitionKey | None]
    """Paths of removed files, each with its partition, or None where the log does not name it."""
    removes_rows: bool
    """Whether rows were removed with the files; a compaction removes files only."""
    operation: str
    engine: str
    app_versions: Mapping[str, int] = field(default_factory=dict)
    changes_table: bool = False
    """Whether it changed the schema, table properties or the protocol."""
    id: str = ""

    @property
    def is_foreign(self) -> bool:
        """Whether another tool wrote the commit."""
        return not self.engine.startswith("zenspark/")


class CommitConflict(LakeError):
    """A concurrent commit conflicts with this transaction."""


class DeltaLog:
    """Reads and writes the log of one table; shared by all threads of a process."""

    def __init__(self, location: StoragePath, partitions: Sequence[str], types: Mapping[str, pa.DataType]) -> None:
        """Take the names of the partition columns, and the types of the columns that have statistics."""
        self.location = location
        self._names = tuple(partitions)
        self._types = types
        self._lock = threading.RLock()
        self._state = TableState()
        self._commits: deque[Commit] = deque(maxlen=MAX_CACHED_COMMITS)
        self._read_at = 0.0
        self.checkpoint_version = -1
        """Version of the last known checkpoint."""

    # --- read

    def update(self) -> TableState:
        """Read the commits since the last update and return the state after them."""
        with self._lock:
            if self._state.version < 0 or time.monotonic() - self._read_at > CHECKPOINT_RECHECK_SECONDS:
                self._load_checkpoint()
            while (commit := self._read_next_commit()) is not None:
                self._apply(*commit)
            self._read_at = time.monotonic()
            return self._state

    def _read_next_commit(self) -> tuple[list[Action], Commit] | None:
        version = self._state.version + 1
        content = self.location.read(commit_path(version))
        if content is None:
            return None
        actions = _decode_actions(content, self._commit_address(version))
        return actions, self._parse_commit(version, actions)

    def _commit_address(self, version: int) -> str:
        return f"{self.location.address}/{commit_path(version)}"

    def _parse_commit(self, version: int, actions: Iterable[Action]) -> Commit:
        added: list[DataFile] = []
        removed: dict[str, PartitionKey | None] = {}
        app_versions: dict[str, int] = {}
        changes = removes_rows = False
        info: Mapping[str, Any] = {}
        for action in actions:
            if (add := action.get("add")) is not None:
                added.append(_parse_add(add, self._names, self._types, version))
            elif (remove := action.get("remove")) is not None:
                values = remove.get("partitionValues")
                removed[unquote(remove["path"])] = None if values is None else partition_key(values, self._names)
                removes_rows |= bool(remove.get("dataChange", True))
            elif (txn := action.get("txn")) is not None:
                app_versions[txn["appId"]] = txn["version"]
            elif "metaData" in action or "protocol" in action:
                changes = True
            info = action.get("commitInfo") or info
        return Commit(
            version,
            added,
            removed,
            removes_rows,
            str(info.get("operation", "unknown")),
            str(info.get("engineInfo", "")),
            app_versions,
            changes,
            str(info.get("zensparkCommit", "")),
        )

    def _apply(self, actions: Iterable[Action], commit: Commit) -> None:
        state = self._state
        partitions = _apply_commit(state.partitions, commit, self._names)
        metadata, protocol = state.metadata, state.protocol
        for action in actions:
            metadata = action.get("metaData") or metadata
            protocol = action.get("protocol") or protocol
        self._check_protocol(protocol)
        app_versions = {**state.app_versions, **commit.app_versions} if commit.app_versions else state.app_versions
        wildcard_partitions = state.wildcard_partitions.union(
            _with_wildcards(partition_key(file.partition, self._names) for file in commit.added)
        )
        self._state = TableState(commit.version, partitions, app_versions, metadata, protocol, wildcard_partitions)
        self._commits.append(commit)

    def _check_protocol(self, protocol: Mapping[str, Any]) -> None:
        """Raise LakeError if the protocol requires features that are not supported."""
        reader, writer = protocol.get("minReaderVersion", 1), protocol.get("minWriterVersion", 2)
        if reader > READER_VERSION or writer not in WRITER_VERSIONS:
            features = sorted({*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())})
            names = f" ({', '.join(features)})" if features else ""
            raise LakeError(
                self.location.address,
                f"another tool raised its protocol to reader version {reader}, writer version {writer}{names}; zenspark"
                f" uses tables of reader version {READER_VERSION} and writer version {WRITER_VERSIONS[0]}",
            )

    # --- load

    def _load_checkpoint(self) -> None:
        """Load the newest checkpoint if it is ahead of the state in memory."""
        version, parts = self._last_checkpoint()
        if version <= self._state.version:
            return
        tables = [self._checkpoint_rows(path) for path in checkpoint_paths(version, parts)]
        self._state = _state_from_checkpoint(tables, version, self._names, self._types)
        self._check_protocol(self._state.protocol)
        self._commits.clear()
        self.checkpoint_version = version

    def _last_checkpoint(self) -> tuple[int, int | None]:
        content = self.location.read(LAST_CHECKPOINT)
        if content is None:
            return (-1, None) if self.location.exists(commit_path(0)) else (self._find_checkpoint(), None)
        checkpoint = msgspec.json.decode(content)
        return int(checkpoint["version"]), checkpoint.get("parts")

    def _find_checkpoint(self) -> int:
        """Version of the newest checkpoint in a log without `_last_checkpoint`; -1 if there is none."""
        names = [name.split(".") for name in self.location.names(LOG_DIRECTORY)]
        return max((int(name[0]) for name in names if name[1:] == ["checkpoint", "parquet"]), default=-1)

    def _checkpoint_rows(self, path: str) -> pa.Table:
        try:
            with self.location.open(path) as source:
                file = pq.ParquetFile(source)
                columns = [name for name in CHECKPOINT_COLUMNS if name in file.schema_arrow.names]
                return file.read(columns=columns)
        except FileNotFoundError:
            where = f"{self.location.address}/{path}"
            raise LakeError(where, "the log names this checkpoint, but it is not there") from None

    # --- commits

    @property
    def state(self) -> TableState:
        return self._state

    def commits_since(self, version: int, until: int) -> list[Commit] | None:
        """Commits after `version` up to and including `until`; None if the log has not all of them any more."""
        with self._lock:
            cached = [commit for commit in self._commits if version < commit.version <= until]
            if len(cached) == until - version:
                return cached
        return self._read_commits(version, until)

    def _read_commits(self, version: int, until: int) -> list[Commit] | None:
        if until - version > MAX_CACHED_COMMITS:
            return None
        commits = []
        for number in range(version + 1, until + 1):
            content = self.location.read(commit_path(number))
            if content is None:
                return None
            commits.append(self._parse_commit(number, _decode_actions(content, self._commit_address(number))))
        return commits

    # --- write

    def commit(
        self, base: TableState, actions: Sequence[Action], operation: str, checker: ConflictChecker
    ) -> TableState:
        """Commit actions that are based on a state; raises CommitConflict if `checker` finds one."""
        identity = uuid4().hex
        info = {
            "timestamp": int(time.time() * 1000),
            "operation": operation,
            "engineInfo": ENGINE_INFO,
            "isBlindAppend": not checker.removed and not checker.app_versions,
            "zensparkCommit": identity,
        }
        content = b"\n".join(msgspec.json.encode(action) for action in [*actions, {"commitInfo": info}]) + b"\n"
        with self._lock:
            checked = base.version
            for _ in range(MAX_COMMIT_ATTEMPTS):
                self.update()
                if self._is_committed_since(checked, identity, checker):
                    return self._state
                checked = self._state.version
                if self.location.put_if_absent(commit_path(checked + 1), content):
                    self._apply(actions, self._parse_commit(checked + 1, [*actions, {"commitInfo": info}]))
                    return self._state
            raise CommitConflict(self.location.address, f"{MAX_COMMIT_ATTEMPTS} commits of other writers came first")

    def _is_committed_since(self, checked: int, identity: str, checker: ConflictChecker) -> bool:
        """Check commits after a version for conflicts; True if this commit is among them (its response was lost)."""
        commits = self.commits_since(checked, self._state.version)
        if commits is None:
            raise CommitConflict(
                self.location.address, f"the log after version {checked} was cleaned up at the same time"
            )
        for commit in commits:
            if commit.id == identity:
                return True
            conflict = checker.find_conflict(commit)
            if conflict is not None:
                raise CommitConflict(self.location.address, conflict)
        return False


@dataclass(frozen=True)
class ConflictChecker:
    """Preconditions of a transaction: no concurrent commit may set these application versions or remove these files."""

    app_versions: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()

    def find_conflict(self, commit: Commit) -> str | None:
        """Describe the conflict with a concurrent commit, or return None."""
        conflicting = sorted(self.app_versions & commit.app_versions.keys())
        if conflicting:
            return f"another writer set {conflicting[0]!r} at the same time (version {commit.version})"
        removed = sorted(self.removed.intersection(commit.removed))
        if removed:
            return (
                f"another writer removed {removed[0]} at the same time ({commit.operation}, version {commit.version})"
            )
        return None


# --- names ------------------------------------------------------------------------------------------------------------


def commit_path(version: int) -> str:
    return f"{LOG_DIRECTORY}/{version:020}.json"


def checkpoint_paths(version: int, parts: int | None) -> list[str]:
    stem = f"{LOG_DIRECTORY}/{version:020}.checkpoint"
    if parts is None:
        return [f"{stem}.parquet"]
    return [f"{stem}.{part:010}.{parts:010}.parquet" for part in range(1, parts + 1)]


def partition_key(partition: Mapping[str, str | None], names: Sequence[str]) -> PartitionKey:
    """The values of the partition columns, in the order of `names`."""
    return tuple(partition.get(name) or None for name in names)


def _with_wildcards(partitions: Iterable[PartitionKey]) -> Iterator[PartitionKey]:
    return (partition for partition in partitions if any(value is not None and "*" in value for value in partition))


# --- actions ----------------------------------------------------------------------------------------------------------


def add_action(file: DataFile, now: int, data_change: bool) -> Action:
    """The `add` action of a file; `now` is in milliseconds since 1970."""
    return {
        "add": {
            "path": quote(file.path, safe=PATH_SAFE),
            "partitionValues": dict(file.partition),
            "size": file.size,
            "modificationTime": now,
            "dataChange": data_change,
            "stats": file.stats,
            **({"tags": dict(file.tags)} if file.tags else {}),
        }
    }


def remove_action(file: DataFile, now: int, data_change: bool) -> Action:
    """The `remove` action of a file; `now` is in milliseconds since 1970."""
    return {
        "remove": {
            "path": quote(file.path, safe=PATH_SAFE),
            "deletionTimestamp": now,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": dict(file.partition),
            "size": file.size,
        }
    }


def txn_action(app_id: str, version: int, now: int) -> Action:
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": now}}


_decoder = msgspec.json.Decoder()


def _decode_actions(content: bytes, where: str) -> list[Action]:
    try:
        return [_decoder.decode(line) for line in content.splitlines() if line.strip()]
    except (msgspec.DecodeError, RecursionError) as error:
        raise LakeError(where, f"expected a commit of a Delta log, a JSON object in each line: {error}") from None


def _parse_add(add: Action, names: Sequence[str], types: Mapping[str, pa.DataType], version: int) -> DataFile:
    values = add.get("partitionValues") or {}
    return DataFile.from_log(
        unquote(add["path"]),
        add.get("size") or 0,
        {name: values.get(name) or None for name in names},
        add.get("stats"),
        types,
        version,
        add.get("tags") or {},
    )


def _apply_commit(
    partitions: Mapping[PartitionKey, Mapping[str, DataFile]], commit: Commit, names: Sequence[str]
) -> Mapping[PartitionKey, Mapping[str, DataFile]]:
    """Apply the added and removed files of a commit; only the partitions it touches are copied."""
    if not commit.added and not commit.removed:
        return partitions
    copied: dict[PartitionKey, dict[str, DataFile]] = {}

    def group(key: PartitionKey) -> dict[str, DataFile]:
        if key not in copied:
            copied[key] = dict(partitions.get(key, {}))
        return copied[key]

    for path, partition in commit.removed.items():
        key = partition if partition is not None else _find_partition(partitions, path)
        if key is not None:
            group(key).pop(path, None)
    for file in commit.added:
        group(partition_key(file.partition, names))[file.path] = file
    before = partitions if isinstance(partitions, LayeredMapping) else LayeredMapping(partitions)
    return before.with_changes({key: files or None for key, files in copied.items()})


def _find_partition(partitions: Mapping[PartitionKey, Mapping[str, DataFile]], path: str) -> PartitionKey | None:
    return next((key for key, files in partitions.items() if path in files), None)


# --- checkpoints ------------------------------------------------------------------------------------------------------

CHECKPOINT_COLUMNS = ("add", "txn", "metaData", "protocol")


def _state_from_checkpoint(
    tables: list[pa.Table], version: int, names: Sequence[str], types: Mapping[str, pa.DataType]
) -> TableState:
    partitions: dict[PartitionKey, dict[str, DataFile]] = {}
    app_versions: dict[str, int] = {}
    state = TableState(version)
    for table in tables:
        for action in _checkpoint_actions(table, "add"):
            file = _parse_add(_maps_as_dicts(action), names, types, version)
            partitions.setdefault(partition_key(file.partition, names), {})[file.path] = file
        for action in _checkpoint_actions(table, "txn"):
            app_versions[action["appId"]] = action["version"]
        for action in _checkpoint_actions(table, "metaData"):
            state = replace(state, metadata={**action, "configuration": dict(action.get("configuration") or ())})
        for action in _checkpoint_actions(table, "protocol"):
            state = replace(state, protocol=action)
    return replace(
        state,
        partitions=partitions,
        app_versions=app_versions,
        wildcard_partitions=frozenset(_with_wildcards(partitions)),
    )


def _checkpoint_actions(table: pa.Table, name: str) -> list[Action]:
    if name not in table.schema.names:
        return []
    column = table[name].combine_chunks()
    actions = column.filter(column.is_valid())
    names = [field.name for field in column.type if field.name not in ("stats_parsed", "partitionValues_parsed")]
    columns = [actions.field(name).to_pylist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _maps_as_dicts(add: Action) -> Action:
    """Convert the maps of a checkpoint's `add` action, which Arrow reads as lists of pairs, to dicts."""
    return {**add, "partitionValues": dict(add.get("partitionValues") or ()), "tags": dict(add.get("tags") or ())}
