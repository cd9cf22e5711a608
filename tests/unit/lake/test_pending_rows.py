"""Files and rows that a refresh reads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from zenspark.journal.block_codec import DICTIONARY_TYPE, with_text_type
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.pending_rows import OffsetRanges
from zenspark.lake.specs import JOURNAL_SCHEMA

EXTENT = OffsetRanges({"a": 5}, {"a": 8, "b": 3})


def test_ranges_without_rows_are_empty() -> None:
    assert not EXTENT.is_empty
    assert OffsetRanges({"a": 8, "b": 3}, {"a": 8, "b": 3}).is_empty
    assert OffsetRanges({}, {}).is_empty
    assert OffsetRanges({"gone": 4}, {}).is_empty


def test_limit_rows_applies_to_each_recorder() -> None:
    assert EXTENT.limit_rows(2) == OffsetRanges({"a": 5}, {"a": 7, "b": 2})
    assert EXTENT.limit_rows(100) == EXTENT


def file(least: tuple[str, int] | None, greatest: tuple[str, int] | None) -> DataFile:
    stats_columns = [dict(zip(("recorder", "offset"), each, strict=True)) if each else {} for each in (least, greatest)]
    return DataFile("f", 1, 1, {}, stats_columns[0], stats_columns[1])


@pytest.mark.parametrize(
    ("least", "greatest", "may"),
    [
        (("a", 0), ("a", 4), False),
        (("a", 0), ("a", 5), True),
        (("a", 7), ("a", 9), True),
        (("a", 8), ("a", 9), False),
        (("b", 0), ("b", 0), True),
        (("unknown", 0), ("unknown", 9), False),
        (("a", 0), ("b", 0), True),  # of several recorders
        (None, None, True),
    ],
)
def test_files_are_pruned_by_recorder_and_offset(
    least: tuple[str, int] | None, greatest: tuple[str, int] | None, may: bool
) -> None:
    assert EXTENT.may_have_rows_in(file(least, greatest)) is may


def test_file_without_offset_statistics_is_not_pruned() -> None:
    known, unknown = (DataFile("f", 1, 1, {}, {"recorder": name}, {"recorder": name}) for name in ("a", "c"))
    assert EXTENT.may_have_rows_in(known)
    assert not EXTENT.may_have_rows_in(unknown)


def test_filter_batch_selects_rows_of_the_ranges() -> None:
    given = [("a", 4), ("a", 5), ("b", 0), ("a", 8), ("b", 3), (None, None), ("c", 1), ("a", None), (None, 6), ("a", 7)]
    rows = pa.RecordBatch.from_pylist([{"recorder": name, "offset": at} for name, at in given], schema=JOURNAL_SCHEMA)
    found = (
        EXTENT.filter_batch(rows.cast(with_text_type(JOURNAL_SCHEMA, DICTIONARY_TYPE))).cast(JOURNAL_SCHEMA).to_pylist()
    )
    assert [(row["recorder"], row["offset"]) for row in found] == [("a", 5), ("b", 0), ("a", 7)]


def test_late_rows_before_start_are_included() -> None:
    extent = OffsetRanges({"a": 10}, {"a": 12}, {"a": ((2, 4), (8, 11))})
    assert not extent.is_empty
    assert not OffsetRanges({"a": 12}, {"a": 12}, {"a": ((2, 4),)}).is_empty
    rows = pa.RecordBatch.from_pylist([{"recorder": "a", "offset": at} for at in range(20)], schema=JOURNAL_SCHEMA)
    found = extent.filter_batch(rows.cast(with_text_type(JOURNAL_SCHEMA, DICTIONARY_TYPE)))
    assert found["offset"].to_pylist() == [2, 3, 8, 9, 10, 11]
    assert [at for at in range(20) if extent.may_have_rows_in(file(("a", at), ("a", at)))] == [2, 3, 8, 9, 10, 11]
    assert extent.limit_rows(1).filter_batch(rows.cast(with_text_type(JOURNAL_SCHEMA, DICTIONARY_TYPE)))[
        "offset"
    ].to_pylist() == [2, 3, 8, 9, 10]
