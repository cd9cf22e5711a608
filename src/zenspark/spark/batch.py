"""Reading once: a range of journals, or the replies to live queries.

A journal gives the same rows for the same offsets in any process. A live query asks the network when the task runs, and
asks again when Spark runs the task again: its rows are those of the last time.
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
from zenspark.spark.filters import Bounds, Pushed, applied, taken
from zenspark.spark.journals import Journals, Places
from zenspark.spark.network import opened
from zenspark.spark.options import BatchOptions

ROWS = 4096
"""Replies are handed to Spark by so many."""
ERROR_SCHEMA = SCHEMA.append(pa.field("error", pa.string()))
TARGETS = {"bestMatching": QueryTarget.BEST_MATCHING, "all": QueryTarget.ALL, "allComplete": QueryTarget.ALL_COMPLETE}


def schema_of(options: BatchOptions) -> pa.Schema:
    """The columns of what will be read."""
    if options.journal:
        return Journals(options.journal).schema
    return ERROR_SCHEMA if options.on_error == "row" else SCHEMA


def reader_of(options: BatchOptions) -> DataSourceReader:
    """The reader for these options; one that takes filters only where the user said that it may."""
    if options.journal:
        return FilteringJournalReader(options) if options.push_down else JournalReader(options)
    return FilteringQueryReader(options) if options.push_down else QueryReader(options)


class JournalReader(DataSourceReader):
    """Reads a range of one or several journals."""

    def __init__(self, options: BatchOptions) -> None:
        self.options = options
        self.filters: list[Pushed] = []

    def partitions(self) -> list[InputPartition]:
        """Parts of the range that may have rows that pass the filters."""
        options, journals = self.options, Journals(self.options.journal)
        start = journals.places(options.starting_offsets, options.starting_timestamp)
        end = journals.places(options.ending_offsets, options.ending_timestamp)
        start = journals.kept(start, options.fail_on_data_loss)
        end = journals.kept(end, options.fail_on_data_loss)
        start, end = self._narrowed(journals, start, end)
        return [InputPartition(part) for part in journals.slices(start, end, options.min_partitions)]

    def _narrowed(self, journals: Journals, start: Places, end: Places) -> tuple[Places, Places]:
        bounds = Bounds.of(self.filters)
        if bounds.recorders is not None:
            start = {name: offset for name, offset in start.items() if name in bounds.recorders}
        if bounds.since is not None:
            known = journals.by_recorder
            start = {name: max(offset, known[name].offset_at(bounds.since)) for name, offset in start.items()}
        if bounds.end is not None:
            end = {name: min(offset, bounds.end) for name, offset in end.items()}
        return {name: max(offset, bounds.start) for name, offset in start.items()}, end

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        if partition.value is None:  # what Spark makes of no partitions at all
            return iter(())
        return map(applied(self.filters), partition.value.batches())


class FilteringJournalReader(JournalReader):
    """Applies filters on keys, offsets and times while it reads."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keeps those it applies, and hands back the others."""
        columns = Journals(self.options.journal).schema.names
        for each in filters:
            pushed = taken(each, columns)
            if pushed is None:
                yield each
            else:
                self.filters.append(pushed)


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
