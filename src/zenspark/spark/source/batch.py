"""Batch source: reads a range of journals. The same offsets return the same rows in any process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from zenspark.spark.options import BatchOptions
from zenspark.spark.source.journal_set import JournalSet, RecorderOffsets
from zenspark.spark.source.pushdown import PushedFilter, ScanRange, make_row_filter, translate_filter


def schema_of(options: BatchOptions) -> pa.Schema:
    """Return the columns of the rows."""
    return JournalSet(options.journal).schema


def make_reader(options: BatchOptions) -> DataSourceReader:
    """Make the reader; it accepts filters only if option pushDown is set."""
    return FilteringJournalReader(options) if options.push_down else JournalReader(options)


class JournalReader(DataSourceReader):
    """Reads a range of one or several journals."""

    def __init__(self, options: BatchOptions) -> None:
        self.options = options
        self.filters: list[PushedFilter] = []

    def partitions(self) -> list[InputPartition]:
        """Return the slices of the range that can have rows that pass the filters."""
        options, journals = self.options, JournalSet(self.options.journal)
        start = journals.resolve_offsets(options.starting_offsets, options.starting_timestamp)
        end = journals.resolve_offsets(options.ending_offsets, options.ending_timestamp)
        start = journals.available_offsets(start, options.fail_on_data_loss)
        end = journals.available_offsets(end, options.fail_on_data_loss)
        start, end = self._narrow_range(journals, start, end)
        parts = journals.slices(start, end, options.min_partitions, options.parallelism)
        return [InputPartition(part) for part in parts]

    def _narrow_range(
        self, journals: JournalSet, start: RecorderOffsets, end: RecorderOffsets
    ) -> tuple[RecorderOffsets, RecorderOffsets]:
        bounds = ScanRange.of(self.filters)
        if bounds.recorders is not None:
            start = {name: offset for name, offset in start.items() if name in bounds.recorders}
        if bounds.since is not None:
            by_recorder = journals.by_recorder
            start = {name: max(offset, by_recorder[name].offset_at(bounds.since)) for name, offset in start.items()}
        if bounds.end is not None:
            end = {name: min(offset, bounds.end) for name, offset in end.items()}
        return {name: max(offset, bounds.start) for name, offset in start.items()}, end

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one slice."""
        if partition.value is None:  # Spark reads one empty partition if there are none
            return iter(())
        return map(make_row_filter(self.filters), partition.value.batches())


class FilteringJournalReader(JournalReader):
    """Applies filters on keys, offsets and times while it reads."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep the filters applied here, and return the others to Spark."""
        columns = JournalSet(self.options.journal).schema.names
        for filter_ in filters:
            pushed = translate_filter(filter_, columns)
            if pushed is None:
                yield filter_
            else:
                self.filters.append(pushed)
