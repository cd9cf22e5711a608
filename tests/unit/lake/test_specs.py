"""Columns of the tables."""

import pytest

from zenspark.lake.specs import GAPS, JOURNAL_SCHEMA, LATEST, SAMPLES, TRAFFIC, TableSpec


@pytest.mark.parametrize("spec", [SAMPLES, LATEST, GAPS, TRAFFIC])
def test_stats_columns_are_data_columns(spec: TableSpec) -> None:
    assert set(spec.stats_columns) <= set(spec.columns.names)
    assert spec.schema.names == spec.columns.names + spec.partitions.names
    assert len(set(spec.schema.names)) == len(spec.schema.names)


def test_samples_columns_equal_journal_schema() -> None:
    assert JOURNAL_SCHEMA.names[-2:] == ["recorder", "offset"]
    assert SAMPLES.columns is LATEST.columns is JOURNAL_SCHEMA
