"""Asking once: the replies to live queries as rows.

The network is asked when the task runs, and again when Spark runs the task again: the rows are those of the last time.
A task asks its selectors through one session, several at a time, so that one that is answered late does not hold up
the others.
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
from zenspark.spark.connect import connect_session
from zenspark.spark.options import BatchOptions
from zenspark.spark.source.journal_set import available_cores
from zenspark.types.enums import ConsolidationMode, QueryTarget
from zenspark.types.network_info import ReplyError
from zenspark.types.sample import Reply, Sample
from zenspark.types.selector import Selector

MAX_BATCH_ROWS = 4096
"""Replies are handed to Spark by so many."""
MAX_QUERIES_IN_FLIGHT = 8
"""Selectors that a task asks at a time: their replies share the link, and each has only its own timeout."""
MAX_BACKLOG_REPLIES = 8192
"""Replies that wait for Spark; with more the network is slowed down."""
ERROR_SCHEMA = SCHEMA.append(pa.field("error", pa.string()))
ROUTER_TIMEOUT = "Timeout"
"""What a router answers in the place of a node that gave no final reply in time."""
TARGETS = {"bestMatching": QueryTarget.BEST_MATCHING, "all": QueryTarget.ALL, "allComplete": QueryTarget.ALL_COMPLETE}


def schema_of(options: BatchOptions) -> pa.Schema:
    """The columns of the rows, with one for errors if they are rows too."""
    return ERROR_SCHEMA if options.on_error == "row" else SCHEMA


def reader_of(options: BatchOptions) -> DataSourceReader:
    """The reader for these options; one that takes filters only where the user said that it may."""
    return FilteringQueryReader(options) if options.push_down else QueryReader(options)


class QueryReader(DataSourceReader):
    """Asks the network, in as many tasks as run at once."""

    def __init__(self, options: BatchOptions) -> None:
        self.options = options
        self.keys: list[str] | None = None
        """The only keys wanted, if that is known."""

    def partitions(self) -> list[InputPartition]:
        """The selectors that may bring a key that is wanted, divided among tasks."""
        options = self.options
        wanted = [text for text in options.selector if self._may_bring(Selector(text))]
        tasks = min(max(options.parallelism or available_cores(), options.min_partitions or 1), len(wanted))
        return [InputPartition(tuple(wanted[place::tasks])) for place in range(tasks)]

    def _may_bring(self, selector: Selector) -> bool:
        return self.keys is None or any(intersects(str(selector.key_expr), key) for key in self.keys)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The replies to the queries of one task."""
        if partition.value is None:
            return
        with connect_session(self.options) as session, ReplyQueue() as arrivals:
            yield from _batches(_query_all(session, arrivals, partition.value, self.options), self.options)


class ReplyQueue:
    """Replies to several queries, in the order they came; when there are too many, the callbacks wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: deque[tuple[str, Reply | None]] = deque()
        self._is_closed = False

    def __enter__(self) -> ReplyQueue:
        return self

    def __exit__(self, *_: object) -> None:
        """No more are taken: whatever waits to bring one goes on without."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def put(self, selector: str, reply: Reply | None) -> None:
        """A reply to a query, or None: it was the last."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or len(self._items) < MAX_BACKLOG_REPLIES)
            self._items.append((selector, reply))
            self._changed.notify_all()

    def get(self) -> tuple[str, Reply | None]:
        """The next one, as soon as it is there."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._items))
            self._changed.notify_all()
            return self._items.popleft()


def _query_all(
    session: Session, arrivals: ReplyQueue, selectors: Sequence[str], options: BatchOptions
) -> Iterator[tuple[str, Reply]]:
    """The replies to each of several queries."""

    def ask(selector: str) -> None:
        session.get(
            selector,
            Callback(lambda reply: arrivals.put(selector, reply), lambda: arrivals.put(selector, None)),
            target=TARGETS[options.target],
            consolidation=ConsolidationMode[options.consolidation.upper()],
            timeout=options.timeout,
        )

    waiting = deque(selectors)
    in_flight = 0
    while waiting or in_flight:
        while waiting and in_flight < MAX_QUERIES_IN_FLIGHT:
            ask(waiting.popleft())
            in_flight += 1
        selector, reply = arrivals.get()
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
        if len(samples) == MAX_BATCH_ROWS:
            yield _rows(samples, keeps_errors)
            samples = []
    if samples:
        yield _rows(samples, keeps_errors)


def _rows(samples: list[Sample], has_error: bool) -> pa.RecordBatch:
    batch = concat_chunks([chunk_from_samples(samples, _now())])
    if not has_error:
        return batch
    nothing = pa.nulls(batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([*batch.columns, nothing], schema=ERROR_SCHEMA)


def _error_row(selector: str, reply: Reply, timeout: float) -> pa.RecordBatch:
    """A row of kind ERROR has what a queryable sent; one of kind TIMEOUT is of a query without a final reply."""
    row = {"key": selector.partition("?")[0], "kind": "TIMEOUT_ERROR", "received_at": _now()}
    if not _is_timeout(reply) and reply.err is not None:
        payload, encoding = reply.err.payload.to_bytes(), str(reply.err.encoding)
        row |= {"kind": "ERROR", "payload": payload, "encoding": encoding, "error": _text(reply.err)}
    else:
        row["error"] = _problem(reply, timeout)
    return pa.RecordBatch.from_pylist([row], schema=ERROR_SCHEMA)


def _problem(reply: Reply, timeout: float) -> str:
    """What an error reply means, as text for the user of the query."""
    if reply.err is TIMEOUT_ERROR:
        return f"timed out after {timeout:g} s without a final reply"
    if _is_timeout(reply) and reply.replier_id is not None:
        return f"timed out: a router on the way had no final reply from {reply.replier_id.zid}"
    return f"a queryable answered with an error: {_text(reply.err)}"


def _is_timeout(reply: Reply) -> bool:
    """Whether this session gave up, or a router did: that answers for a node, which has no entity 0 of its own."""
    if reply.err is TIMEOUT_ERROR:
        return True
    by_router = reply.replier_id is not None and reply.replier_id.eid == 0
    return by_router and _text(reply.err) == ROUTER_TIMEOUT


def _text(error: ReplyError | None) -> str:
    return "" if error is None else error.payload.to_bytes().decode(errors="replace")


def _now() -> int:
    return time.time_ns() // 1000


class FilteringQueryReader(QueryReader):
    """Does not ask what cannot bring a key that is wanted. Spark filters the rows."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Hands all of them back, and learns from those on keys."""
        for each in filters:
            if isinstance(each, EqualTo | In) and each.attribute == ("key",):
                found = [each.value] if isinstance(each, EqualTo) else list(each.value)
                self.keys = found if self.keys is None else [key for key in self.keys if key in found]
        return filters
