from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, InputPartition, LessThan, StringEndsWith

from tests.unit.spark.journaled import journal
from zenspark.errors import UsageError
from zenspark.spark.options import BatchOptions
from zenspark.spark.source.batch import FilteringJournalReader, JournalReader, make_reader, schema_of


def options(path: str, **more: str) -> BatchOptions:
    return BatchOptions.of({"journal": path, **more})


def offsets(reader: JournalReader) -> list[int]:
    """The rows it reads, in a copy of it as workers have."""
    copy = pickle.loads(pickle.dumps(reader))
    return [
        row for part in reader.partitions() for batch in copy.read(part) for row in batch.column("offset").to_pylist()
    ]


def test_rows_have_the_announced_columns(tmp_path: Path) -> None:
    given = options(journal(tmp_path / "j", 100))
    reader = make_reader(given)
    assert type(reader) is JournalReader
    (part,) = reader.partitions()
    for batch in reader.read(part):
        assert batch.schema.equals(schema_of(given))


def test_empty_journal_has_no_partitions(tmp_path: Path) -> None:
    reader = JournalReader(options(journal(tmp_path / "j", 0)))
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_offset_options_limit_rows_and_unknown_offset_raises(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 100)
    given = options(path, startingOffsets='{"robot": 10}', endingOffsets='{"robot": 13}')
    assert offsets(JournalReader(given)) == [10, 11, 12]
    with pytest.raises(UsageError, match="offset 200 is not there"):
        JournalReader(options(path, startingOffsets='{"robot": 200}')).partitions()


def filtering(path: str, *filters: Filter) -> tuple[FilteringJournalReader, list[Filter]]:
    reader = make_reader(options(path, pushDown="true"))
    assert isinstance(reader, FilteringJournalReader)
    return reader, list(reader.pushFilters(list(filters)))


def test_pushed_filters_are_applied_and_others_returned_to_spark(tmp_path: Path) -> None:
    other = StringEndsWith(("key",), "pose")
    reader, rest = filtering(journal(tmp_path / "j", 100), EqualTo(("key",), "fleet/r3/pose"), other)
    assert rest == [other]
    assert offsets(reader) == list(range(3, 100, 7))


def test_slices_outside_the_filters_are_not_read(tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 400, block=100)
    reader, _ = filtering(path, GreaterThan(("offset",), 149), LessThan(("offset",), 250))
    assert [(part.value.start, part.value.end) for part in reader.partitions()] == [(150, 250)]
    assert offsets(reader) == list(range(150, 250))
    reader, _ = filtering(path, EqualTo(("recorder",), "nobody"))
    assert reader.partitions() == []
