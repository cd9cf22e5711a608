"""Reading once: a range of journals. The same offsets give the same rows in any process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from zenspark.spark.options import BatchOptions
from zenspark.spark.source.journal_set import Journals, Places
from zenspark.spark.source.pushdown import Bounds, Pushed, applied, taken


def schema_of(options: BatchOptions) -> pa.Schema:
    """The columns of the rows."""
    return Journals(options.journal).schema


def reader_of(options: BatchOptions) -> DataSourceReader:
    """The reader for these options; one that takes filters only where the user said that it may."""
    return FilteringJournalReader(options) if options.push_down else JournalReader(options)


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
        parts = journals.slices(start, end, options.min_partitions, options.parallelism)
        return [InputPartition(part) for part in parts]

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
