"""The tables' columns."""

import pytest

from zenspark.lake.specs import GAPS, JOURNAL_SCHEMA, LATEST, SAMPLES, TRAFFIC, TableSpec


@pytest.mark.parametrize("spec", [SAMPLES, LATEST, GAPS, TRAFFIC])
def test_what_the_log_describes_is_in_the_files(spec: TableSpec) -> None:
    assert set(spec.stats_columns) <= set(spec.columns.names)
    assert spec.schema.names == spec.columns.names + spec.partitions.names
    assert len(set(spec.schema.names)) == len(spec.schema.names)


def test_samples_are_rows_of_a_journal() -> None:
    assert JOURNAL_SCHEMA.names[-2:] == ["recorder", "offset"]
    assert SAMPLES.columns is LATEST.columns is JOURNAL_SCHEMA
