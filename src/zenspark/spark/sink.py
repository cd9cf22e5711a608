"""Sink: publishes rows as PUT and DELETE, at least once.

A task publishes its rows through its own session. As a client, which is the default, it ends when the node it is
connected to has received all of them: that node finishes a query that is sent after the rows. As a peer or router it
ends when they are sent, and fails if a neighbour was lost. Spark repeats a failed task from its first row. So that
receivers can drop duplicates, each row can carry an identity that is the same in every attempt.
"""

from __future__ import annotations

import difflib
import hashlib
import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from zenspark.api.log_filter import try_init_log_from_env
from zenspark.api.session import Session
from zenspark.arrow import SCHEMA
from zenspark.errors import RowError, UsageError
from zenspark.journal.flush_barrier import FlushBarrier
from zenspark.spark.options import SinkOptions
from zenspark.spark.zenoh_session import connect_session
from zenspark.types.enums import CongestionControl, Priority

logger = logging.getLogger("zenspark.spark")

JOURNAL_COLUMNS = ("recorder", "offset")
"""Columns of journal rows that are not published."""
SOURCE_COLUMNS = ("source_zid", "source_eid", "source_sn")
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class WriteResult(WriterCommitMessage):
    """Result of one task."""

    rows: int
    dropped: int
    """Deliveries dropped because of congestion, which only happens to rows that allow it."""


@dataclass(frozen=True)
class TaskWriter:
    """Publishes the rows of one task; created once when the query is planned, and sent to every task."""

    options: SinkOptions
    write_id: str
    """Replaces the query id where Spark has none."""

    def write(self, batches: Iterable[pa.RecordBatch]) -> WriteResult:
        """Publish the rows of one task."""
        rows = dropped = 0
        with PublishingSession(self.options) as session:
            for batch in batches:
                dropped += self._publish(session, batch, rows)
                rows += batch.num_rows
            session.finish()
        return WriteResult(rows, dropped)

    def _publish(self, session: PublishingSession, batch: pa.RecordBatch, first: int) -> int:
        """Publish one batch of a task; `first` is the index of its first row. Returns the dropped deliveries."""
        try:
            return session.publish(self._to_samples(batch, first))
        except RowError as error:
            before = f"; the task had published the {first} rows of earlier batches" if first else ""
            raise RowError(first + error.row, f"of the task {error.problem}{before}") from error

    def _to_samples(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Convert a batch to the columns of the sample schema, and add the identity."""
        options = self.options
        columns = {name: batch.column(name) for name in batch.schema.names if name not in JOURNAL_COLUMNS}
        identities = columns.pop(options.identity_column) if options.identity_column else None
        columns["key"] = _add_prefix(columns.pop(options.key_column), options.key_prefix)
        columns.setdefault("reliable", pa.repeat(options.reliability == "reliable", batch.num_rows))
        columns |= self._identity(identities, first, batch.num_rows)
        return pa.RecordBatch.from_pydict(columns)

    def _identity(self, identities: pa.Array | None, first: int, rows: int) -> dict[str, pa.Array]:
        match self.options.identity:
            case "attachment":
                return {
                    "attachment": self._identity_texts(first, rows)
                    if identities is None
                    else identities.cast(pa.binary())
                }
            case "sourceInfo":
                query, batch, partition = _task_identity(self.write_id)
                zid = hashlib.sha256(f"{query}/{batch}".encode()).hexdigest()[:32].lstrip("0")
                numbers = pa.array(range(first, first + rows), pa.int64())
                return dict(
                    zip(SOURCE_COLUMNS, (pa.repeat(zid, rows), pa.repeat(partition, rows), numbers), strict=True)
                )
            case _:
                return {}

    def _identity_texts(self, first: int, rows: int) -> pa.Array:
        query, batch, partition = _task_identity(self.write_id)
        numbers = pa.array(range(first, first + rows), pa.int64()).cast(pa.string())
        start = pa.scalar(f"{query}/{batch}/{partition}")
        return pc.binary_join_element_wise(start, numbers, "/").cast(pa.binary())


def make_task_writer(options: SinkOptions, columns: Sequence[str]) -> TaskWriter:
    """Validate the columns before anything is published, and make the task writer."""
    _require_column(options.key_column, columns, "keyColumn")
    if options.identity_column is not None:
        _require_column(options.identity_column, columns, "identityColumn")
    identity_columns = {"none": (), "attachment": ("attachment",), "sourceInfo": SOURCE_COLUMNS}[options.identity]
    for name in columns:
        if name in identity_columns and name != options.identity_column:
            raise UsageError(
                f"identity={options.identity} sets the column {name!r}, which the rows already have: drop it first"
            )
        if name not in (options.key_column, options.identity_column, *JOURNAL_COLUMNS, *SCHEMA.names):
            near = difflib.get_close_matches(name, SCHEMA.names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(SCHEMA.names)}"
            raise UsageError(f"no sample has a column {name!r}: {hint}")
    if options.key_column != "key" and "key" in columns:
        raise UsageError(f"keyColumn is {options.key_column!r}, but the rows have a column 'key', too: drop it first")
    return TaskWriter(options, uuid.uuid4().hex)


def _require_column(name: str, columns: Sequence[str], option: str) -> None:
    if name not in columns:
        raise UsageError(f"option {option}: the rows have no column {name!r}; they have {', '.join(columns)}")


def _add_prefix(keys: pa.Array, prefix: str | None) -> pa.Array:
    return keys if prefix is None else pc.binary_join_element_wise(pa.scalar(prefix), keys, "/")


def _task_identity(write_id: str) -> tuple[str, int, int]:
    """Return query id, batch id and partition of the current task."""
    task = TaskContext.get()
    if task is None:
        return write_id, 0, 0
    query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
    return query or write_id, int(batch or 0), task.partitionId()


class PublishingSession:
    """A session that publishes rows, and as a client waits until the node it is connected to has received them."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._session: Session = connect_session(options)
        self._flush_barrier = FlushBarrier(
            self._session, ", ".join(options.connect + options.listen) or options.config or ""
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def publish(self, batch: pa.RecordBatch) -> int:
        """Publish rows. Returns the number of dropped deliveries."""
        options = self._options
        return self._session.put_batch(
            batch,
            encoding=options.encoding,
            congestion_control=CongestionControl[options.congestion],
            priority=Priority[options.priority],
            express=options.express,
        )

    def finish(self) -> None:
        """Wait until the node that a client is connected to has received all rows; raises if a connection was lost."""
        self._flush_barrier.wait(self._options.timeout)


def log_result(event: str, messages: Iterable[WriterCommitMessage | None], level: int = logging.INFO) -> WriteResult:
    """Log the total of all tasks of a write, as a warning if rows were dropped. Returns the total.

    Runs in a separate process beside the driver, which logs at the level of `RUST_LOG`, or warnings only.
    """
    done = [message for message in messages if isinstance(message, WriteResult)]
    total = WriteResult(sum(result.rows for result in done), sum(result.dropped for result in done))
    try_init_log_from_env()
    text = "%s: %d rows published by %d tasks, %d deliveries dropped because of congestion"
    logger.log(logging.WARNING if total.dropped else level, text, event, total.rows, len(done), total.dropped)
    return total


class BatchWriter(DataSourceArrowWriter):
    """Publishes the rows of a batch DataFrame."""

    def __init__(self, task_writer: TaskWriter) -> None:
        self.task_writer = task_writer

    @classmethod
    def of(cls, options: SinkOptions, columns: Sequence[str], overwrite: bool) -> Self:
        if overwrite:
            raise UsageError('publications cannot be overwritten: write with mode("append")')
        return cls(make_task_writer(options, columns))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteResult:
        return self.task_writer.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        log_result("write", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log how many rows the finished tasks published: publications cannot be undone."""
        log_result("write failed", messages, logging.WARNING)


class StreamWriter(DataSourceStreamArrowWriter):
    """Publishes the rows of a stream by micro-batch."""

    def __init__(self, task_writer: TaskWriter) -> None:
        self.task_writer = task_writer

    @classmethod
    def of(cls, options: SinkOptions, columns: Sequence[str]) -> Self:
        return cls(make_task_writer(options, columns))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteResult:
        return self.task_writer.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        log_result(f"batch {batchId}", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log how many rows the finished tasks published: publications cannot be undone."""
        log_result(f"batch {batchId} failed", messages, logging.WARNING)
