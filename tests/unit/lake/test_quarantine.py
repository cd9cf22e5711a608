"""Blocks that cannot be ingested are quarantined, and the other blocks of their slice are written."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest

from tests.rows import numbers
from tests.spark.poison import poison
from tests.unit.spark.journaled import journal
from zenspark.errors import CorruptJournal, OffsetOutOfRange, UsageError
from zenspark.journal import Journal, Policy, Slice
from zenspark.journal.block_codec import DICTIONARY_TYPE
from zenspark.journal.format import ENTRY_SIZE, index_file
from zenspark.lake.delta_table import Transaction
from zenspark.lake.quarantine import (
    LATE_TAG,
    QUARANTINED,
    QuarantinedBlock,
    is_data_error,
    parse_app_id,
    split_into_blocks,
    write_by_block,
)
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def part_of(path: Path, start: int, end: int) -> Slice:
    (part,) = Journal(path).slices(start, end, 1)
    return part


def borders(part: Slice) -> list[tuple[int, int, bool]]:
    return [(piece.start, piece.end, entry is not None) for piece, entry in split_into_blocks(part)]


def rows_in(lake: Lake) -> list[int]:
    rows: list[int] = numbers(lake.dataset("samples").to_table().to_pylist())
    return rows


@pytest.mark.parametrize(
    ("error", "is_data"),
    [
        (CorruptJournal("j", 0, "x"), True),
        (pa.ArrowInvalid("x"), True),
        (pa.ArrowNotImplementedError("x"), True),
        (ValueError(), True),
        (KeyError("x"), True),
        (OverflowError(), True),
        (OSError(errno.ENOSPC, "x"), False),
        (pa.ArrowMemoryError("x"), False),
        (MemoryError(), False),
        (TimeoutError(), False),
        (OffsetOutOfRange("j", 1, 2, 3), False),
        (UsageError("x"), False),
        (ImportError("x"), False),
    ],
)
def test_data_errors_are_distinguished_from_system_errors(error: Exception, is_data: bool) -> None:
    assert is_data_error(error) is is_data


def test_slice_is_split_into_blocks_across_segments(tmp_path: Path) -> None:
    path = Path(journal(tmp_path / "j", 500, policy=Policy(segment_bytes=10_000)))
    assert len(list(path.glob("*.segment"))) > 1
    assert borders(part_of(path, 150, 420)) == [
        (150, 200, True),
        (200, 300, True),
        (300, 400, True),
        (400, 420, True),
    ]
    for piece, _ in split_into_blocks(part_of(path, 150, 420)):
        assert sum(batch.num_rows for batch in piece.batches(DICTIONARY_TYPE)) == piece.num_rows


@pytest.mark.parametrize(("number", "expected"), [(0, (0, 100)), (2, (200, 300)), (4, (400, 500))])
def test_rows_with_damaged_index_entry_are_a_slice_without_entry(
    tmp_path: Path, number: int, expected: tuple[int, int]
) -> None:
    path = Path(journal(tmp_path / "j", 500))
    part = part_of(path, 0, 500)
    entries = bytearray(index_file(path, 0).read_bytes())
    entries[number * ENTRY_SIZE + 20] ^= 0xFF
    index_file(path, 0).write_bytes(entries)
    assert [(start, end) for start, end, is_known in borders(part) if not is_known] == [expected]
    assert [start for start, _, _ in borders(part)] == [0, 100, 200, 300, 400]


@pytest.mark.slow
def test_failing_blocks_are_quarantined_and_others_written(lake: Lake, tmp_path: Path) -> None:
    path = Path(journal(tmp_path / "j", 500))
    poison(path, 2)
    table = lake.table("samples")
    files, aside = write_by_block(lake.location, table.location, "x", part_of(path, 50, 500))
    assert sum(file.rows for file in files) == 350
    (item,) = aside
    assert (item.start, item.end, item.num_rows, item.has_bytes) == (200, 300, 100, True)
    assert lake.quarantine() == []  # it does not count before the transaction
    table.commit(Transaction(add=files, app_versions={item.app_id: QUARANTINED}))
    assert lake.quarantine() == [item]


@pytest.mark.slow
def test_quarantined_block_is_ingested_once_when_readable(
    lake: Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = Path(journal(tmp_path / "j", 300))
    restore = poison(path, 1)
    table = lake.table("samples")
    files, (item,) = write_by_block(lake.location, table.location, "x", part_of(path, 0, 300))
    table.commit(Transaction(add=files, app_versions={item.app_id: QUARANTINED}))
    assert lake.retry_quarantine() == 0
    assert lake.quarantine() == [item]
    restore()
    assert lake.retry_quarantine() == 100
    assert lake.retry_quarantine() == 0
    assert rows_in(lake) == list(range(300))
    late = [file for file in lake.table("samples").files if file.tags.get(LATE_TAG)]
    assert sum(file.rows for file in late) == 100
    assert [record.name for record in caplog.records] == ["zenspark.lake"] * 2


@pytest.mark.slow
def test_quarantined_bytes_are_ingested_without_the_journal(lake: Lake, tmp_path: Path) -> None:
    """As after an upgrade to a version that can read them."""
    path = Path(journal(tmp_path / "j", 300))
    table = lake.table("samples")
    part = part_of(path, 150, 250)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Slice, "batches", lambda *_: iter([pa.record_batch({"key": [1]})]))  # no version 1 can
        files, aside = write_by_block(lake.location, table.location, "x", part)
    assert files == []
    assert [(item.start, item.end) for item in aside] == [(150, 200), (200, 250)]
    table.commit(Transaction(app_versions={item.app_id: QUARANTINED for item in aside}))
    for file in path.iterdir():
        if file.is_file():
            file.unlink()
    assert lake.retry_quarantine() == 100
    assert rows_in(lake) == list(range(150, 250))


def test_full_disk_does_not_quarantine_rows(lake: Lake, tmp_path: Path) -> None:
    path = Path(journal(tmp_path / "j", 100))
    (tmp_path / "file").write_text("in place of a directory")
    with pytest.raises(OSError, match="Not a directory"):
        write_by_block(lake.location, StoragePath.at(tmp_path / "file"), "x", part_of(path, 0, 100))


def test_app_id_of_a_block_is_parsed() -> None:
    item = QuarantinedBlock(
        recorder="a:b-c", path="j", segment=0, start=5, end=9, reason="", version="1", time="", has_bytes=True
    )
    assert parse_app_id(item.app_id) == ("a:b-c", 5, 9)
