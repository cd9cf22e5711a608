"""Parts of journals into files, what is reported of a task that fails, and the rows of one recorder in a batch."""

from __future__ import annotations

import errno
import itertools
import logging
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.rows import sample
from tests.spark.poison import poison
from tests.unit.spark.ingest.workers import NO_SPARK, run_on_executors
from tests.unit.spark.journaled import journal
from zenspark.errors import CorruptJournal, LakeError
from zenspark.journal import Journal, Slice
from zenspark.lake import quarantine
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.quarantine import SliceResult
from zenspark.lake.specs import JOURNAL_SCHEMA
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.ingest import commit_samples
from zenspark.spark.ingest.commit_samples import (
    MIN_SYSTEMATIC_BLOCKS,
    OffsetSpan,
    SamplesWriter,
    TaskFailure,
    WrittenFiles,
    run_task,
    write_slice,
)
from zenspark.spark.lake import Lake


def test_offset_spans_are_merged() -> None:
    assert OffsetSpan(5, 10, 5) | OffsetSpan(0, 5, 5) | OffsetSpan(12, 13, 1) == OffsetSpan(0, 13, 11)


def test_a_part_is_written_as_it_is_in_the_journal(tmp_path: Path) -> None:
    (part,) = Journal(journal(tmp_path / "j", 1000)).slices(5, 995, 1)
    ((file,), aside) = write_slice(StoragePath.at(tmp_path), "label", {}, part)
    assert (file.rows, file.partition, aside) == (990, {"day": "2023-11-14", "prefix": "fleet"}, [])
    rows = [sample(number) | {"recorder": "robot", "offset": number} for number in range(5, 995)]
    assert pq.ParquetFile(tmp_path / file.path).read().equals(pa.Table.from_pylist(rows, schema=JOURNAL_SCHEMA))


def test_task_error_is_returned_as_task_failure(tmp_path: Path) -> None:
    part = Slice("j", "robot", "samples", 0, 1, 0)

    def fail(error: Exception) -> TaskFailure:
        def write(_: Slice) -> SliceResult:
            raise error

        found = run_task(write, part)
        assert isinstance(found, TaskFailure)
        return found

    full = fail(OSError(errno.ENOSPC, "No space left on device"))
    assert (full.cause, full.is_data) == ("No space left on device", False)
    assert "in write" in full.stack
    assert fail(CorruptJournal("j", 0, "a block")).is_data
    assert fail(pa.ArrowInvalid("no")).is_data
    assert not fail(MemoryError()).is_data
    assert run_task(lambda _: SliceResult([], []), part) == SliceResult([], [])


def test_duplicate_rows_of_another_recorder_are_not_written(tmp_path: Path) -> None:
    (part,) = Journal(journal(tmp_path / "j", 10)).slices(0, 10, 1)
    ((file,), _) = write_slice(StoragePath.at(tmp_path), "label", {"robot": np.array([0, 3])}, part)
    assert pq.ParquetFile(tmp_path / file.path).read()["offset"].to_pylist() == [1, 2, 4, 5, 6, 7, 8, 9]
    everything = {"robot": np.arange(10)}
    assert write_slice(StoragePath.at(tmp_path), "label", everything, part).files == []


# --- what a batch does about tasks that fail --------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake whose tasks run here, one after the other."""
    monkeypatch.setattr(commit_samples, "run_on_executors", run_on_executors)
    return Lake(tmp_path / "lake")


def writer_for(lake: Lake) -> SamplesWriter:
    samples = SamplesWriter(lake.location, lake.table("samples"))
    samples.fence_earlier_writers(["robot"])
    return samples


def written(lake: Lake, path: str) -> WrittenFiles:
    source = Journal(path)
    return writer_for(lake)._write_slices(NO_SPARK, source.slices(0, source.latest(), 2), 0)


@pytest.mark.slow
def test_poisoned_block_is_quarantined_and_the_rest_is_written(
    lake: Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = journal(tmp_path / "j", 2000)
    poison(Path(path), 3)
    with caplog.at_level(logging.INFO):
        found = written(lake, path)
    address = lake.table("samples").location.address
    failed = f"{address}: Spark task failed with rows 0 to 1099 of recorder robot: Traceback"
    assert [text.splitlines()[0].startswith(failed) for text in caplog.messages if "Spark" in text] == [True] * 3
    assert sum(file.rows for file in found.files) == 1900
    assert [(item.start, item.end, item.is_damaged) for item in found.quarantined] == [(300, 400, True)]


@pytest.mark.slow
def test_intact_blocks_that_all_fail_are_not_quarantined(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = journal(tmp_path / "j", 100 * MIN_SYSTEMATIC_BLOCKS)

    def fail(*_: object) -> NoReturn:
        raise TypeError("write() takes 1 argument")

    monkeypatch.setattr(quarantine, "split_by_partition", fail)
    with pytest.raises(LakeError, match=f"none of {MIN_SYSTEMATIC_BLOCKS} blocks can be ingested: TypeError: write"):
        written(lake, path)
    assert lake.location.files("_quarantine") == []


def test_damaged_blocks_are_quarantined(lake: Lake, tmp_path: Path) -> None:
    path = journal(tmp_path / "j", 100 * MIN_SYSTEMATIC_BLOCKS)
    for number in range(MIN_SYSTEMATIC_BLOCKS):
        poison(Path(path), number)
    found = written(lake, path)
    assert (found.files, len(found.quarantined)) == ([], MIN_SYSTEMATIC_BLOCKS)


def test_a_disk_that_is_full_fails_the_batch_and_leaves_nothing(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = journal(tmp_path / "j", 1000)
    usual, calls = quarantine.write_rows, itertools.count()

    def write(*given: Any) -> list[DataFile]:  # noqa: ANN401 - passed on
        if next(calls):
            raise OSError(errno.ENOSPC, "No space left on device")
        return usual(*given)

    monkeypatch.setattr(commit_samples, "write_rows", write)
    with pytest.raises(LakeError, match="No space left on device"):
        written(lake, path)
    assert lake.table("samples").location.files(suffix=".parquet") == []
