"""Asking once: the replies to live queries as rows.

The network is asked when the task runs, and again when Spark runs the task again: the rows are those of the last time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, In, InputPartition

from zenspark.api.batches import piece_from_samples
from zenspark.api.enums import ConsolidationMode, QueryTarget
from zenspark.api.parameters import Selector
from zenspark.api.sample import Reply, Sample
from zenspark.api.values import ReplyError
from zenspark.arrow import SCHEMA
from zenspark.arrow.incoming import batch_of
from zenspark.errors import ZError
from zenspark.key.match import intersects
from zenspark.spark.network import opened
from zenspark.spark.options import BatchOptions

ROWS = 4096
"""Replies are handed to Spark by so many."""
ERROR_SCHEMA = SCHEMA.append(pa.field("error", pa.string()))
TARGETS = {"bestMatching": QueryTarget.BEST_MATCHING, "all": QueryTarget.ALL, "allComplete": QueryTarget.ALL_COMPLETE}


def schema_of(options: BatchOptions) -> pa.Schema:
    """The columns of the rows, with one for errors if they are rows too."""
    return ERROR_SCHEMA if options.on_error == "row" else SCHEMA


def reader_of(options: BatchOptions) -> DataSourceReader:
    """The reader for these options; one that takes filters only where the user said that it may."""
    return FilteringQueryReader(options) if options.push_down else QueryReader(options)


class QueryReader(DataSourceReader):
    """Asks the network, a task for each selector."""

    def __init__(self, options: BatchOptions) -> None:
        self.options = options
        self.keys: list[str] | None = None
        """The only keys wanted, if that is known."""

    def partitions(self) -> list[InputPartition]:
        """The selectors that may bring a key that is wanted."""
        return [InputPartition(text) for text in self.options.selector if self._may_bring(Selector(text))]

    def _may_bring(self, selector: Selector) -> bool:
        return self.keys is None or any(intersects(str(selector.key_expr), key) for key in self.keys)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The replies to one query."""
        if partition.value is None:
            return
        options = self.options
        with opened(options) as session:
            replies = session.get(
                partition.value,
                target=TARGETS[options.target],
                consolidation=ConsolidationMode[options.consolidation.upper()],
                timeout=options.timeout,
            )
            yield from _batches(partition.value, replies, options.on_error == "row")


def _batches(selector: str, replies: Iterable[Reply], keeps_errors: bool) -> Iterator[pa.RecordBatch]:
    samples: list[Sample] = []
    for reply in replies:
        if reply.ok is not None:
            samples.append(reply.ok)
        elif reply.err is not None and keeps_errors:
            yield _error_row(selector, reply.err)
        else:
            raise ZError(f"{selector}: a queryable answered with an error: {_text(reply.err)}")
        if len(samples) == ROWS:
            yield _rows(samples, keeps_errors)
            samples = []
    if samples:
        yield _rows(samples, keeps_errors)


def _rows(samples: list[Sample], has_error: bool) -> pa.RecordBatch:
    batch = batch_of([piece_from_samples(samples, _now())])
    if not has_error:
        return batch
    nothing = pa.nulls(batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([*batch.columns, nothing], schema=ERROR_SCHEMA)


def _error_row(selector: str, error: ReplyError) -> pa.RecordBatch:
    row = {
        "key": selector.partition("?")[0],
        "kind": "ERROR",
        "payload": error.payload.to_bytes(),
        "encoding": str(error.encoding),
        "received_at": _now(),
        "error": _text(error),
    }
    return pa.RecordBatch.from_pylist([row], schema=ERROR_SCHEMA)


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
