"""The embedded engine: runs SQL queries on the tables of a lake, in milliseconds and without Spark.

    engine = Engine(Lake("./lake"))
    engine.query("select key, received_at from latest where zenoh_key_match(key, 'fleet/**')").to_pylist()

Every query reads the current versions of the tables. docs/sql.md documents the dialect.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain

import duckdb
import pyarrow as pa

from zenspark.arrow import UTC
from zenspark.errors import UsageError
from zenspark.lake.lake import TABLE_SPECS, Lake
from zenspark.sql.connection import DEFAULT_MEMORY_LIMIT, connect, register_functions, register_tables
from zenspark.sql.functions import FUNCTION_NAMES
from zenspark.sql.messages import describe_error
from zenspark.sql.query_thread import QueryThread
from zenspark.sql.statement import Statement, parse_statement
from zenspark.sql.tables import Scan, TableInfo, describe_tables, plan_scan

RESULT_BATCH_ROWS = 1 << 14
"""Rows of a batch of the result."""
ENGINE_ERRORS = (duckdb.Error, pa.ArrowException, OSError, RuntimeError)
"""Errors of a query: of the engine, of Arrow, and of files that are read; an interrupted one is a RuntimeError."""
HUGEINT = pa.decimal128(38, 0)
"""Arrow type in which the engine returns sums of integers."""


class Engine:
    """Runs queries about one lake; thread-safe.

    Args:
        lake: The lake, which must exist when a query runs.
        memory_limit: Memory that a query may take; `2GB` by default.

    Example:
        >>> engine = Engine(Lake("lake"))
        >>> rows = engine.query("select key, received_at from latest where zenoh_key_match(key, 'fleet/**')")
    """

    def __init__(self, lake: Lake, *, memory_limit: str = DEFAULT_MEMORY_LIMIT) -> None:
        self.lake = lake
        self._memory_limit = memory_limit

    def tables(self) -> list[TableInfo]:
        """Describe the tables of the lake.

        Returns:
            The tables with names, columns, rows, bytes and files; none before the lake exists.

        Raises:
            LakeError: The lake or a table cannot be read.

        Example:
            >>> [table.name for table in engine.tables()][:2]
            ['samples', 'latest']
        """
        return describe_tables(self.lake) if self.lake.exists() else []

    def query(self, text: str, limit: int | None = None, timeout: float | None = None) -> pa.Table:
        """Run a query, and return its rows.

        Args:
            text: The query, in SQL as of docs/sql.md; it can only read.
            limit: Most rows that are returned; all by default.
            timeout: Seconds after which the query is interrupted; without end by default.

        Returns:
            The rows, with times in UTC.

        Raises:
            UsageError: The query is wrong, not allowed, or took longer than the timeout.
            LakeError: There is no lake, or it cannot be read.

        Example:
            >>> engine.query("select count(*) as n from samples").to_pylist()
            [{'n': 30}]
        """
        with self.open(text, timeout) as reader:
            return read_table(reader, limit)

    @contextmanager
    def open(self, text: str, timeout: float | None = None) -> Iterator[pa.RecordBatchReader]:
        """Run a query and read its rows batch by batch, if they do not fit into memory.

        Args:
            text: The query, in SQL as of docs/sql.md; it can only read.
            timeout: Seconds after which the query is interrupted; without end by default.

        Returns:
            A context manager of a reader, which is closed at its end.

        Raises:
            UsageError: The query is wrong, not allowed, or took longer than the timeout; also raised by the reader.
            LakeError: There is no lake, or it cannot be read.

        Example:
            >>> with engine.open("select key, payload from samples") as reader:
            ...     sum(batch.num_rows for batch in reader)
            30
        """
        self.lake.check()
        connection = connect(self._memory_limit)
        thread = QueryThread(connection.interrupt)
        try:
            statement = parse_statement(connection, text)
            if statement.shows_tables:
                yield _table_names(self.lake)
                return
            with _time_limit(connection, timeout):
                yield self._run(connection, statement, thread)
        finally:
            thread.close()
            connection.close()

    def _run(
        self, connection: duckdb.DuckDBPyConnection, statement: Statement, thread: QueryThread
    ) -> pa.RecordBatchReader:
        """Start a query; its errors, also those while its rows are read, are UsageErrors."""
        functions = register_functions(connection)
        scans = self._plan(statement)

        def describe(error: Exception) -> UsageError:
            return functions.first or UsageError(self._describe(error, statement))

        try:
            register_tables(connection, scans)
            reader = thread.call(lambda: connection.sql(statement.translation.text).to_arrow_reader(RESULT_BATCH_ROWS))
        except ENGINE_ERRORS as error:
            raise describe(error) from None
        schema = pa.schema([field.with_type(_plain_type(field.type)) for field in reader.schema])
        return pa.RecordBatchReader.from_batches(schema, _read_batches(reader, schema, thread, describe))

    def _plan(self, statement: Statement) -> dict[str, Scan]:
        return {name: plan_scan(self.lake, name) for name in self.lake.tables() if name in statement.tables}

    def _describe(self, error: Exception, statement: Statement) -> str:
        used = [name for name in TABLE_SPECS if name in statement.tables]
        columns = chain.from_iterable(TABLE_SPECS[name].schema.names for name in used)
        return describe_error(
            error, statement.translation, tables=TABLE_SPECS, columns=dict.fromkeys(columns), functions=FUNCTION_NAMES
        )


def read_table(reader: pa.RecordBatchReader, limit: int | None = None) -> pa.Table:
    """Read the rows of a reader, or the first of them."""
    if limit is None:
        return reader.read_all()
    batches: list[pa.RecordBatch] = []
    left = limit
    for batch in reader:
        batches.append(batch.slice(0, left))
        left -= batches[-1].num_rows
        if left <= 0:
            break
    return pa.Table.from_batches(batches, reader.schema)


@contextmanager
def _time_limit(connection: duckdb.DuckDBPyConnection, seconds: float | None) -> Iterator[None]:
    """Interrupt a query that takes longer than `seconds`."""
    if seconds is None:
        yield
        return
    is_late = threading.Event()

    def interrupt() -> None:
        is_late.set()
        connection.interrupt()

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except UsageError:
        if is_late.is_set():
            raise UsageError(
                f"the query took longer than {seconds:g} s: select fewer rows, or a shorter time range"
            ) from None
        raise
    finally:
        timer.cancel()


def _read_batches(
    reader: pa.RecordBatchReader, schema: pa.Schema, thread: QueryThread, describe: Callable[[Exception], UsageError]
) -> Iterator[pa.RecordBatch]:
    """Yield batches with sums of integers as 64-bit integers, and times in UTC under that name, as Spark has them."""
    try:
        while (batch := thread.call(lambda: next(reader, None))) is not None:
            yield batch.cast(schema)
    except ENGINE_ERRORS as error:
        raise describe(error) from None


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if kind == HUGEINT:
        return pa.int64()
    return UTC if pa.types.is_timestamp(kind) and kind.tz is not None else kind


def _table_names(lake: Lake) -> pa.RecordBatchReader:
    names = pa.table({"name": lake.tables()})
    return pa.RecordBatchReader.from_batches(names.schema, names.to_batches())
