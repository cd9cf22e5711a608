"""A pipeline and tables behind a server, for tests."""

from __future__ import annotations

import threading

import duckdb
import msgspec
import pyarrow as pa

from zenspark.errors import UsageError


class Column(msgspec.Struct, frozen=True):
    name: str
    type: str


class Table(msgspec.Struct, frozen=True):
    name: str
    columns: list[Column]
    rows: int
    bytes: int
    files: int


class Tables:
    """Arrow tables, queried with DuckDB."""

    def __init__(self, **tables: pa.Table) -> None:
        self._tables = tables
        self._lock = threading.Lock()
        self.queries = 0

    def tables(self) -> list[Table]:
        return [
            Table(name, [Column(field.name, str(field.type)) for field in table.schema], table.num_rows, 1000, 1)
            for name, table in self._tables.items()
        ]

    def query(self, text: str, limit: int | None = None, timeout: float | None = None) -> pa.Table:
        with self._lock, duckdb.connect() as connection:
            self.queries += 1
            for name, table in self._tables.items():
                connection.register(name, table)
            try:
                found = connection.sql(text).to_arrow_table()
            except duckdb.Error as error:
                raise UsageError(str(error)) from error
            return found if limit is None else found.slice(0, limit)


class Waiting(msgspec.Struct, frozen=True):
    rows: int
    seconds: float


class Lost(msgspec.Struct, frozen=True):
    links: dict[str, int]
    recorder: int
    trimmed: int


class Run(msgspec.Struct, frozen=True):
    task: str
    time: float | None
    seconds: float | None
    result: str | None
    is_failed: bool
    next: float | None


class JournalState(msgspec.Struct, frozen=True):
    path: str = "./journal"
    rows: int = 20
    bytes: int = 4000
    segments: int = 2
    oldest: float | None = 1_700_000_000.0
    newest: float | None = 1_700_000_060.0
    free_bytes: int | None = 10**9
    backlog: int = 0
    refused: int = 3


class Ingestion(msgspec.Struct, frozen=True):
    lake: str
    state: str
    rows: int
    bytes: int
    batch_seconds: float | None
    quarantined: int
    maintenance: str | None
    problem: str | None
    maintenance_runs: tuple[Run, ...] = (
        Run("refresh", None, None, None, False, 1_700_000_000.0),
        Run("compaction", 1_700_000_000.0, 0.5, "disk full", True, None),
    )


class Status(msgspec.Struct, frozen=True):
    """The fields of a pipeline's status that the server reads."""

    recorded: int
    ingested: int
    waiting: Waiting
    bytes: int
    keys: int
    lost: Lost
    quarantined: int
    ingestions: tuple[Ingestion, ...]
    problem: str | None = None
    journals: tuple[JournalState, ...] = (JournalState(),)


def status(rows: int = 10, *, problem: str | None = None, state: str = "ingesting") -> Status:
    """A status with so many rows ingested."""
    ingestion = Ingestion("./lake", state, rows, rows * 100, 0.5, 1, "disk full", problem)
    lost = Lost({"sequence_gap": 2}, 3, 4)
    return Status(20, rows, Waiting(20 - rows, 1.5), rows * 100, 5, lost, 1, (ingestion,), problem)


class FakePipeline:
    """A pipeline whose status a test sets."""

    def __init__(self) -> None:
        self.now = status()

    def status(self) -> Status:
        return self.now
