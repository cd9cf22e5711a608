"""The sink: rows become PUT and DELETE, at least once.

A task publishes its rows through a session of its own and ends when the neighbour it is connected to has taken all of
them: it answers a query that travels behind them. A task that fails is done again by Spark, from its first row. So that
receivers can drop what comes again, each row can carry an identity that is the same each time.
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

from zenspark.api.flush_barrier import Fence
from zenspark.api.log_filter import try_init_log_from_env
from zenspark.api.session import Session
from zenspark.arrow import SCHEMA
from zenspark.errors import RowError, UsageError
from zenspark.spark.connect import opened
from zenspark.spark.options import SinkOptions
from zenspark.types.enums import CongestionControl, Priority

logger = logging.getLogger("zenspark.spark")

OF_JOURNALS = ("recorder", "offset")
"""What rows have because a journal had them; they are not published."""
SOURCE = ("source_zid", "source_eid", "source_sn")
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What one task published."""

    rows: int
    dropped: int
    """Deliveries given up because of congestion, which only happens to rows that allow it."""


@dataclass(frozen=True)
class Writing:
    """What a writer needs in every task: it is made once, where the query is planned, and sent along."""

    options: SinkOptions
    write_id: str
    """Stands for the query where Spark has no id for it."""

    def task(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Publishes the rows of one task."""
        rows = dropped = 0
        with Outlet(self.options) as outlet:
            for batch in batches:
                dropped += self._publish(outlet, batch, rows)
                rows += batch.num_rows
            outlet.finish()
        return Written(rows, dropped)

    def _publish(self, outlet: Outlet, batch: pa.RecordBatch, first: int) -> int:
        """Publishes one batch of a task, of which so many rows came before; how many deliveries were given up."""
        try:
            return outlet.publish(self._prepared(batch, first))
        except RowError as error:
            before = f"; the task had published the {first} rows of earlier batches" if first else ""
            raise RowError(first + error.row, f"of the task {error.problem}{before}") from error

    def _prepared(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The batch with the columns of the schema, and its identity where that belongs."""
        options = self.options
        columns = {name: batch.column(name) for name in batch.schema.names if name not in OF_JOURNALS}
        identities = columns.pop(options.identity_column) if options.identity_column else None
        columns["key"] = _prefixed(columns.pop(options.key_column), options.key_prefix)
        columns.setdefault("reliable", pa.repeat(options.reliability == "reliable", batch.num_rows))
        columns |= self._identity(identities, first, batch.num_rows)
        return pa.RecordBatch.from_pydict(columns)

    def _identity(self, given: pa.Array | None, first: int, rows: int) -> dict[str, pa.Array]:
        match self.options.identity:
            case "attachment":
                return {"attachment": self._texts(first, rows) if given is None else given.cast(pa.binary())}
            case "sourceInfo":
                query, batch, partition = _place(self.write_id)
                zid = hashlib.sha256(f"{query}/{batch}".encode()).hexdigest()[:32].lstrip("0")
                numbers = pa.array(range(first, first + rows), pa.int64())
                return dict(zip(SOURCE, (pa.repeat(zid, rows), pa.repeat(partition, rows), numbers), strict=True))
            case _:
                return {}

    def _texts(self, first: int, rows: int) -> pa.Array:
        query, batch, partition = _place(self.write_id)
        numbers = pa.array(range(first, first + rows), pa.int64()).cast(pa.string())
        start = pa.scalar(f"{query}/{batch}/{partition}")
        return pc.binary_join_element_wise(start, numbers, "/").cast(pa.binary())


def writing_of(options: SinkOptions, columns: Sequence[str]) -> Writing:
    """Checks, before anything is published, that the rows can be."""
    _need(options.key_column, columns, "keyColumn")
    if options.identity_column is not None:
        _need(options.identity_column, columns, "identityColumn")
    made = {"none": (), "attachment": ("attachment",), "sourceInfo": SOURCE}[options.identity]
    for name in columns:
        if name in made and name != options.identity_column:
            raise UsageError(
                f"identity={options.identity} fills the column {name!r}, which the rows have: drop it first"
            )
        if name not in (options.key_column, options.identity_column, *OF_JOURNALS, *SCHEMA.names):
            near = difflib.get_close_matches(name, SCHEMA.names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(SCHEMA.names)}"
            raise UsageError(f"no sample has a column {name!r}: {hint}")
    if options.key_column != "key" and "key" in columns:
        raise UsageError(f"keyColumn is {options.key_column!r}, but the rows have a column 'key' too: drop it first")
    return Writing(options, uuid.uuid4().hex)


def _need(name: str, columns: Sequence[str], option: str) -> None:
    if name not in columns:
        raise UsageError(f"option {option}: the rows have no column {name!r}; they have {', '.join(columns)}")


def _prefixed(keys: pa.Array, prefix: str | None) -> pa.Array:
    return keys if prefix is None else pc.binary_join_element_wise(pa.scalar(prefix), keys, "/")


def _place(write_id: str) -> tuple[str, int, int]:
    """The query, batch and partition of the task that runs this."""
    task = TaskContext.get()
    if task is None:
        return write_id, 0, 0
    query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
    return query or write_id, int(batch or 0), task.partitionId()


class Outlet:
    """A session that publishes, and knows whether everything it published has been taken."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._session: Session = opened(options)
        self._fence = Fence(self._session, ", ".join(options.connect + options.listen) or options.config or "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def publish(self, batch: pa.RecordBatch) -> int:
        """Publishes rows; how many deliveries were given up."""
        options = self._options
        return self._session.put_batch(
            batch,
            encoding=options.encoding,
            congestion_control=CongestionControl[options.congestion],
            priority=Priority[options.priority],
            express=options.express,
        )

    def finish(self) -> None:
        """Returns when the neighbours have taken everything; raises if one was lost on the way."""
        self._fence.wait(self._options.timeout)


def report(event: str, messages: Iterable[WriterCommitMessage | None], level: int = logging.INFO) -> Written:
    """Logs what all tasks of a write published, as a warning if something was dropped; the sums.

    It runs in a process of its own beside the driver, which logs at the level that `RUST_LOG` names, or warnings only.
    """
    done = [message for message in messages if isinstance(message, Written)]
    total = Written(sum(each.rows for each in done), sum(each.dropped for each in done))
    try_init_log_from_env()
    text = "%s: %d rows published by %d tasks, %d deliveries dropped because of congestion"
    logger.log(logging.WARNING if total.dropped else level, text, event, total.rows, len(done), total.dropped)
    return total


class BatchWriter(DataSourceArrowWriter):
    """Publishes the rows of a table."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing

    @classmethod
    def of(cls, options: SinkOptions, columns: Sequence[str], overwrite: bool) -> Self:
        if overwrite:
            raise UsageError('what was published cannot be overwritten: write with mode("append")')
        return cls(writing_of(options, columns))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self.writing.task(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        report("write", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was published cannot be taken back: says how much that is, of the tasks that ended."""
        report("write failed", messages, logging.WARNING)


class StreamWriter(DataSourceStreamArrowWriter):
    """Publishes the rows of a stream, batch by batch."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing

    @classmethod
    def of(cls, options: SinkOptions, columns: Sequence[str]) -> Self:
        return cls(writing_of(options, columns))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self.writing.task(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        report(f"batch {batchId}", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was published cannot be taken back: says how much that is, of the tasks that ended."""
        report(f"batch {batchId} failed", messages, logging.WARNING)
