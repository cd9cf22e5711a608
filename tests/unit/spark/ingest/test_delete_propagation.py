"""Where rows can be that were deleted; tests/spark/test_lake_derived.py tests what follows from it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.lake_model import Row
from tests.lake_samples import numbered
from tests.lake_tables import put_in
from tests.rows import EPOCH
from zenspark.spark.ingest.delete_propagation import (
    CONTENT_COLUMNS,
    _files_in_partitions,
    _files_of_keys,
    _is_in_partition,
    _read_identities,
)
from zenspark.spark.lake import Lake

DAY, NEXT = "2023-11-14", "2023-11-15"
A_DAY = 86_400_000_000


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    keys = [("x/1", 0), ("y/1", 0), ("*/1", 0), ("x/2", A_DAY), ("y/2", A_DAY)]
    rows: list[Row] = [{"key": key, "received_at": EPOCH + late} for key, late in keys]
    put_in(lake, numbered(rows, 0, "r"))
    return lake


def places(files: list[object]) -> set[tuple[object, object]]:
    return {(file.partition["day"], file.partition["prefix"]) for file in files}  # type: ignore[attr-defined]


def test_files_are_searched_in_partitions_of_keys_and_of_wildcards(lake: Lake) -> None:
    samples = lake.table("samples")
    assert places([*_files_in_partitions(samples, {DAY}, {"x"})]) == {(DAY, "x"), (DAY, "*")}
    assert places([*_files_in_partitions(samples, {DAY, NEXT}, {"x"})]) == {(DAY, "x"), (DAY, "*"), (NEXT, "x")}
    assert places([*_files_in_partitions(samples, {NEXT}, {"*"})]) == {(NEXT, "x"), (NEXT, "y")}
    assert len(_files_in_partitions(samples, {DAY, None}, {"x"})) == 5
    assert places([*_files_of_keys(samples, ["x/1", "x/9"])]) == {(DAY, "x"), (DAY, "*"), (NEXT, "x")}
    assert len(_files_of_keys(samples, ["x/1", "**"])) == 5


def test_a_key_belongs_to_its_prefix_and_to_those_with_wildcards() -> None:
    assert _is_in_partition("x/1", {"x"})
    assert not _is_in_partition("x/1", {"y"})
    assert _is_in_partition("x/1", {"y", "*"})
    assert _is_in_partition("x/1", {None})


def test_row_identity_is_recorder_and_offset(lake: Lake) -> None:
    samples = lake.table("samples")
    numbers = iter([pa.record_batch({"id": pa.array(range(len(samples.files)))})])
    batches = _read_identities(samples.location, [file.path for file in samples.files], numbers)
    assert sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist()) == [
        ("r", at) for at in range(5)
    ]
    assert "key" not in CONTENT_COLUMNS
