"""One table of a lake: Parquet files, and the Delta log that says which of them count.

A change is one transaction: files come in, others go, and *marks* move, which are numbers under a name
("offset:robot" = 5000). Marks are the application transactions of the Delta protocol: they are part of the snapshot,
outlive checkpoints of the log, and two writers that move the same mark at once cannot both succeed. That makes a mark
the place to keep how far a table has come.

Files may stand anywhere below the table's directory. Every write makes a directory of its own, `batch=<name>/`, so
that what an attempt left behind that was never committed is one directory, which nobody reads.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from zenspark.errors import LakeError
from zenspark.spark.lake.files import File, Files, limits
from zenspark.spark.lake.folder import Folder, Found
from zenspark.spark.lake.shapes import VERSION, Shape

VERSION_PROPERTY = "zenspark.schema"
PROPERTIES = {
    VERSION_PROPERTY: VERSION,
    # The log is for readers of now, not for travels in time: every commit lists it, so it must not grow with age.
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
CHECKPOINTS = "delta.checkpointInterval"
"""After so many transactions the log is summed up: until then, who opens the table reads them one by one."""
FOOTERS_AT_ONCE = 8


@dataclass(frozen=True)
class Change:
    """What one transaction does to a table."""

    add: Sequence[File] = ()
    remove: Sequence[File] = ()
    marks: Mapping[str, int] = field(default_factory=dict)
    rearranges: bool = False
    """The rows stay what they are: only their files change."""


class Table:
    """A table as it was when this object was made or last refreshed."""

    def __init__(self, folder: Folder, shape: Shape) -> None:
        """Opens the table, and makes it if there is none."""
        self.folder = folder
        self.shape = shape
        self._marks: dict[str, int | None] = {}
        """Those of this snapshot that were asked for: deltalake looks through the log for each."""
        try:
            self._delta = self._opened()
        except OSError as error:  # so deltalake calls what goes wrong on the way to the files, too
            raise LakeError(folder.address, _line(error)) from error
        self._check()

    def _opened(self) -> DeltaTable:
        try:
            return self._open()
        except TableNotFoundError:
            self._create()
            return self._open()

    def _open(self) -> DeltaTable:
        return DeltaTable(self.folder.address, storage_options=dict(self.folder.options))

    def _create(self) -> None:
        if self.folder.local:
            self.folder.write("_delta_log/.made", b"")  # deltalake makes no directories
            self.folder.remove("_delta_log/.made")
        DeltaTable.create(
            self.folder.address,
            schema=Schema.from_arrow(self.shape.schema),
            mode="ignore",
            partition_by=self.shape.partitions.names,
            configuration=PROPERTIES | {CHECKPOINTS: "50" if self.folder.local else "10"},
            storage_options=dict(self.folder.options),
            raise_if_key_not_exists=False,
        )

    def _check(self) -> None:
        version = self._delta.metadata().configuration.get(VERSION_PROPERTY)
        if version != VERSION:
            found = f"its schema has version {version}" if version else "it was not made by zenspark"
            raise LakeError(self.folder.address, f"{found}, and this zenspark reads version {VERSION}")
        wrong = difference(column_types(self.shape.schema), column_types(pa.schema(self._delta.schema().to_arrow())))
        if wrong:
            raise LakeError(self.folder.address, f"its columns are not those of this version: {wrong}")

    def refresh(self) -> Table:
        """Sees what was committed meanwhile."""
        self.__dict__.pop("files", None)
        self._marks = {}
        try:
            self._delta.update_incremental()
        except DeltaError:  # what the log had between then and now was cleaned away
            self._delta = self._open()
        return self

    @property
    def version(self) -> int:
        """The number of the snapshot: it grows with every transaction."""
        return self._delta.version()

    @cached_property
    def files(self) -> list[File]:
        """The files that count."""
        return list(_files_of(pa.table(self._delta.get_add_actions(flatten=False))))

    def mark(self, name: str) -> int | None:
        """A number as the last transaction that moved it left it."""
        if name not in self._marks:
            self._marks[name] = self._delta.transaction_version(name)
        return self._marks[name]

    def delta(self) -> DeltaTable:
        """The snapshot for the `deltalake` package."""
        return self._delta

    def described(self, directory: str) -> list[File]:
        """The Parquet files in a directory of this table, described for the log: only their footers are read."""
        found = self.folder.files(directory, suffix=".parquet")
        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            return [file for file in pool.map(self._described, found) if file.rows]

    def _described(self, found: Found) -> File:
        with self.folder.open(found.path) as source:
            footer = pq.read_metadata(source)
        least, greatest = limits(footer, self.shape.described)
        names = self.shape.partitions.names
        return File(found.path, found.size, footer.num_rows, partition_of(found.path, names), least, greatest)

    def write(self, rows: pa.Table, directory: str) -> list[File]:
        """Writes rows of a table without partitions that this process has at hand."""
        files = Files(self.folder, self.shape, directory)
        files.write(rows, {})
        return files.close()

    def commit(self, change: Change) -> None:
        """Makes a change count, all of it or nothing; fails if somebody else moved one of its marks meanwhile."""
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            *(RemoveAction(f.path, not change.rearranges, now, f.size, dict(f.partition)) for f in change.remove),
            *(_add_action(file, now, not change.rearranges) for file in change.add),
        ]
        marks = [Transaction(name, number) for name, number in change.marks.items()]
        version, known = self.version, {**self._marks, **change.marks}
        try:
            self._delta.create_write_transaction(
                actions,
                "append",
                self._delta.schema(),
                self.shape.partitions.names,
                commit_properties=CommitProperties(app_transactions=marks),
            )
        except CommitFailedError as error:
            raise LakeError(self.folder.address, f"somebody else writes it at the same time ({error})") from error
        except OSError as error:
            raise LakeError(self.folder.address, _line(error)) from error
        if self.refresh().version == version + 1:  # nobody else was there meanwhile
            self._marks = known


def _line(error: OSError) -> str:
    """What deltalake says in many coloured lines, in one."""
    return " ".join(re.sub(r"\x1b\[\d+m↳\x1b\[0m", "", str(error)).split())


def _files_of(actions: pa.Table) -> Iterator[File]:
    for action in actions.to_pylist():
        partition = {name: _text(value) for name, value in (action.get("partition") or {}).items()}
        least, greatest = action.get("min") or {}, action.get("max") or {}
        yield File(
            unquote(action["path"]), action["size_bytes"], action["num_records"] or 0, partition, least, greatest
        )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _add_action(file: File, now: int, data_change: bool) -> AddAction:
    stats = {
        "numRecords": file.rows,
        "minValues": {name: _plain(value) for name, value in file.least.items() if value is not None},
        "maxValues": {name: _plain(value) for name, value in file.greatest.items() if value is not None},
    }
    # characters as they are: readers have been seen to take the two halves of an escaped one for another character
    told = json.dumps(stats, ensure_ascii=False)
    return AddAction(file.path, file.size, dict(file.partition), now, data_change, told)


def _plain(value: object) -> object:
    """A value as it stands in the log's JSON."""
    match value:
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case date():
            return value.isoformat()
    return value


def partition_of(path: str, names: Iterable[str]) -> dict[str, str | None]:
    """The partition a file is in, from its path, where Spark writes `%` and two digits for what may not stand there."""
    values = dict(part.split("=", 1) for part in path.split("/")[:-1] if "=" in part)
    return {name: unquote(values[name]) for name in names}


def column_types(schema: pa.Schema) -> dict[str, str]:
    """The columns of a schema with their types in words."""
    return {column.name: str(column.type) for column in schema}


def difference(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Says in words how the columns of two tables differ, or nothing if they do not."""
    said = [f"{name} is missing" for name in expected if name not in found]
    said += [f"{name} is unknown" for name in found if name not in expected]
    said += [
        f"{name} is {found[name]}, not {expected[name]}"
        for name in expected
        if name in found and expected[name] != found[name]
    ]
    if not said and list(expected) != list(found):
        said = [f"their order is {', '.join(found)}"]
    return "; ".join(said)
