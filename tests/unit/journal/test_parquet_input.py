"""Parquet files of samples, read in the order the rows were received."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.unit.journal.rows import START, batch, row
from zenspark.errors import JournalError, NoJournal
from zenspark.journal import parquet_input as module
from zenspark.journal.parquet_input import ParquetInput


def write(path: Path, numbers: list[int], rows_a_group: int = 3, statistics: bool = True) -> None:
    """A file of rows, each received as many seconds after the start as its number."""
    rows = pa.Table.from_batches([batch(*(row(number) for number in numbers))])
    pq.write_table(rows, path, row_group_size=rows_a_group, write_statistics=statistics)


def numbers(path: Path, condition: ds.Expression | None = None) -> list[int]:
    return [int(text) for found in ParquetInput(path).read(condition) for text in found.column("payload").to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_overlapping_files_are_merged_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, at_once: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(module, "MIN_SORT_ROWS", at_once)
    expected = []
    for file in range(chance.randint(1, 6)):
        first = chance.randint(0, 40)
        mine = [first + chance.randint(0, 30) for _ in range(chance.randint(1, 20))]
        write(tmp_path / f"{file}.parquet", mine, chance.randint(1, 5), chance.random() < 0.8)
        expected += mine
    assert numbers(tmp_path) == sorted(expected)
    late = ds.field("received_at") >= pa.scalar(START + 20_000_000, pa.timestamp("us", "UTC"))
    assert numbers(tmp_path, late) == [number for number in sorted(expected) if number >= 20]


def test_later_row_groups_are_read_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_SORT_ROWS", 1)
    write(tmp_path / "b.parquet", [3, 4])
    write(tmp_path / "a.parquet", [1, 2])
    found = ParquetInput(tmp_path).read(None)
    assert next(found).column("payload").to_pylist() == [b"1", b"2"]
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(JournalError, match="cannot be read"):
        next(found)


def test_file_without_footer_raises_before_first_row(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [1, 2])
    content = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(content[:-4])
    with pytest.raises(JournalError, match="cannot be read"):
        ParquetInput(tmp_path).read(None)


def test_condition_without_matches_reads_no_rows(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [1])
    assert numbers(tmp_path, ds.field("key") == "nowhere") == []


def test_lake_directory_is_rejected_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "samples" / "_delta_log").mkdir(parents=True)
    with pytest.raises(NoJournal, match="this is a lake; name its table samples/, or its journal _journal/"):
        ParquetInput(tmp_path)
