"""Live query source: returns the replies to queries as rows.

The queries are sent when the task runs, and again when Spark repeats the task: the rows are those of the last run. A
task sends its selectors through one session, several at a time, so that a slow one does not delay the others.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, In, InputPartition

from zenspark.api.session import Session
from zenspark.arrow import SCHEMA
from zenspark.arrow.decode import concat_chunks
from zenspark.engine.reply_collector import TIMEOUT_ERROR
from zenspark.errors import ZError
from zenspark.handlers.arrow import chunk_from_samples
from zenspark.handlers.handler import Callback
from zenspark.key.match import intersects
from zenspark.spark.options import BatchOptions
from zenspark.spark.source.journal_set import available_cores
from zenspark.spark.zenoh_session import connect_session
from zenspark.types.enums import ConsolidationMode, QueryTarget
from zenspark.types.network_info import ReplyError
from zenspark.types.sample import Reply, Sample
from zenspark.types.selector import Selector

MAX_REPLY_BATCH_ROWS = 4096
"""Maximum replies per Arrow batch."""
MAX_QUERIES_IN_FLIGHT = 8
"""Concurrent queries of a task: their replies share the link, and each has its own timeout."""
MAX_BACKLOG_REPLIES = 8192
"""High-water mark of replies waiting for Spark; above it the callbacks block (backpressure)."""
ERROR_SCHEMA = SCHEMA.append(pa.field("error", pa.string()))
ROUTER_TIMEOUT = "Timeout"
"""Error payload of a router in first of a node that sent no final reply in time."""
TARGETS = {"bestMatching": QueryTarget.BEST_MATCHING, "all": QueryTarget.ALL, "allComplete": QueryTarget.ALL_COMPLETE}


def schema_of(options: BatchOptions) -> pa.Schema:
    """Return the columns of the rows, with `error` if option onError is `row`."""
    return ERROR_SCHEMA if options.on_error == "row" else SCHEMA


def make_reader(options: BatchOptions) -> DataSourceReader:
    """Make the reader; it accepts filters only if option pushDown is set."""
    return FilteringQueryReader(options) if options.push_down else QueryReader(options)


class QueryReader(DataSourceReader):
    """Queries the network, in as many tasks as run concurrently."""

    def __init__(self, options: BatchOptions) -> None:
        self.options = options
        self.keys: list[str] | None = None
        """Keys that filters restrict the rows to, if known."""

    def partitions(self) -> list[InputPartition]:
        """Split the selectors that can match the wanted keys into tasks."""
        options = self.options
        selectors = [text for text in options.selector if self._may_match(Selector(text))]
        tasks = min(max(options.parallelism or available_cores(), options.min_partitions or 1), len(selectors))
        return [InputPartition(tuple(selectors[first::tasks])) for first in range(tasks)]

    def _may_match(self, selector: Selector) -> bool:
        return self.keys is None or any(intersects(str(selector.key_expr), key) for key in self.keys)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the replies to the queries of one task."""
        if partition.value is None:
            return
        with connect_session(self.options) as session, ReplyQueue() as queue:
            yield from _batches(_query_all(session, queue, partition.value, self.options), self.options)


class ReplyQueue:
    """Bounded queue of replies to several queries in order of arrival; when it is full, callbacks block."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: deque[tuple[str, Reply | None]] = deque()
        self._is_closed = False

    def __enter__(self) -> ReplyQueue:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the queue and release blocked callbacks."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def put(self, selector: str, reply: Reply | None) -> None:
        """Append a reply to a query, or None after its final reply; blocks while the queue is full."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or len(self._items) < MAX_BACKLOG_REPLIES)
            self._items.append((selector, reply))
            self._changed.notify_all()

    def get(self) -> tuple[str, Reply | None]:
        """Wait for the next reply."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._items))
            self._changed.notify_all()
            return self._items.popleft()


def _query_all(
    session: Session, queue: ReplyQueue, selectors: Sequence[str], options: BatchOptions
) -> Iterator[tuple[str, Reply]]:
    """Send queries, at most `MAX_QUERIES_IN_FLIGHT` at a time, and yield their replies."""

    def send_query(selector: str) -> None:
        callback: Callback[Reply] = Callback(
            lambda reply: queue.put(selector, reply), lambda: queue.put(selector, None)
        )
        session.get(
            selector,
            callback,
            target=TARGETS[options.target],
            consolidation=ConsolidationMode[options.consolidation.upper()],
            timeout=options.timeout,
        )

    waiting = deque(selectors)
    in_flight = 0
    while waiting or in_flight:
        while waiting and in_flight < MAX_QUERIES_IN_FLIGHT:
            send_query(waiting.popleft())
            in_flight += 1
        selector, reply = queue.get()
        if reply is None:
            in_flight -= 1
        else:
            yield selector, reply


def _batches(replies: Iterable[tuple[str, Reply]], options: BatchOptions) -> Iterator[pa.RecordBatch]:
    keeps_errors = options.on_error == "row"
    samples: list[Sample] = []
    for selector, reply in replies:
        if reply.ok is not None:
            samples.append(reply.ok)
        elif keeps_errors:
            yield _error_row(selector, reply, options.timeout)
        else:
            raise ZError(f"{selector}: {_problem(reply, options.timeout)}")
        if len(samples) == MAX_REPLY_BATCH_ROWS:
            yield _rows(samples, keeps_errors)
            samples = []
    if samples:
        yield _rows(samples, keeps_errors)


def _rows(samples: list[Sample], has_error: bool) -> pa.RecordBatch:
    batch = concat_chunks([chunk_from_samples(samples, _now())])
    if not has_error:
        return batch
    no_errors = pa.nulls(batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([*batch.columns, no_errors], schema=ERROR_SCHEMA)


def _error_row(selector: str, reply: Reply, timeout: float) -> pa.RecordBatch:
    """Make a row of kind ERROR from an error reply, or of kind TIMEOUT for a query without a final reply."""
    row = {"key": selector.partition("?")[0], "kind": "TIMEOUT", "received_at": _now()}
    if not _is_timeout(reply) and reply.err is not None:
        payload, encoding = reply.err.payload.to_bytes(), str(reply.err.encoding)
        row |= {"kind": "ERROR", "payload": payload, "encoding": encoding, "error": _text(reply.err)}
    else:
        row["error"] = _problem(reply, timeout)
    return pa.RecordBatch.from_pylist([row], schema=ERROR_SCHEMA)


def _problem(reply: Reply, timeout: float) -> str:
    """Format an error reply."""
    if reply.err is TIMEOUT_ERROR:
        return f"timed out after {timeout:g} s without a final reply"
    if _is_timeout(reply) and reply.replier_id is not None:
        return f"timed out: a router received no final reply from {reply.replier_id.zid}"
    return f"a queryable replied with an error: {_text(reply.err)}"


def _is_timeout(reply: Reply) -> bool:
    """Whether this session timed out, or a router did: it replies for a node, as entity 0."""
    if reply.err is TIMEOUT_ERROR:
        return True
    by_router = reply.replier_id is not None and reply.replier_id.eid == 0
    return by_router and _text(reply.err) == ROUTER_TIMEOUT


def _text(error: ReplyError | None) -> str:
    return "" if error is None else error.payload.to_bytes().decode(errors="replace")


def _now() -> int:
    return time.time_ns() // 1000


class FilteringQueryReader(QueryReader):
    """Does not send queries that cannot match the wanted keys. Spark filters the rows."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Return all filters to Spark, and use those on keys to skip queries."""
        for filter_ in filters:
            if isinstance(filter_, EqualTo | In) and filter_.attribute == ("key",):
                values = [filter_.value] if isinstance(filter_, EqualTo) else list(filter_.value)
                self.keys = values if self.keys is None else [key for key in self.keys if key in values]
        return filters
