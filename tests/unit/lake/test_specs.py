"""The tables' columns."""

import pytest

from zenspark.lake.specs import GAPS, JOURNAL_SCHEMA, LATEST, SAMPLES, TRAFFIC, TableSpec


@pytest.mark.parametrize("shape", [SAMPLES, LATEST, GAPS, TRAFFIC])
def test_what_the_log_describes_is_in_the_files(shape: TableSpec) -> None:
    assert set(shape.described) <= set(shape.columns.names)
    assert shape.schema.names == shape.columns.names + shape.partitions.names
    assert len(set(shape.schema.names)) == len(shape.schema.names)


def test_samples_are_rows_of_a_journal() -> None:
    assert JOURNAL_SCHEMA.names[-2:] == ["recorder", "offset"]
    assert SAMPLES.columns is LATEST.columns is JOURNAL_SCHEMA
