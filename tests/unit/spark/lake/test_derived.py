"""When it is worth to merge what folds have left."""

from pathlib import Path

import pytest

from tests.unit.spark.journaled import journal
from zenspark.journal import Journal
from zenspark.spark.lake.derived import (
    FEW_FILES,
    MANY_FILES,
    MERGED,
    NEW,
    WORTH_MERGING,
    Wanted,
    digests,
    merge_is_due,
    shared,
)
from zenspark.spark.lake.files import ROWS, File
from zenspark.spark.lake.folder import Folder
from zenspark.spark.lake.samples import write_part
from zenspark.spark.lake.traffic import Traffic


def files(part: str, count: int, rows: int) -> list[File]:
    return [File(f"{part}{number}", 1, rows, {"part": part}) for number in range(count)]


@pytest.mark.parametrize(
    ("new", "merged", "expected"),
    [
        (FEW_FILES - 1, 0, False),
        (FEW_FILES, 0, True),
        (FEW_FILES, FEW_FILES * WORTH_MERGING, True),
        (FEW_FILES, FEW_FILES * WORTH_MERGING + 1, False),
        (MANY_FILES, 10**9, True),
    ],
)
def test_the_more_there_is_the_more_must_have_come(new: int, merged: int, expected: bool) -> None:
    assert merge_is_due(files(NEW, new, 1) + files(MERGED, 1, merged)) is expected


def test_files_are_shared_among_tasks_by_their_rows() -> None:
    sizes = [ROWS // 2, ROWS // 2, ROWS, 1, 1]
    wanted = [Wanted(File(f"f{number}", 1, rows, {}, {"recorder": "r"}), 0) for number, rows in enumerate(sizes)]
    assert [[each.file.path for each in share] for share in shared(wanted)] == [["f0", "f1"], ["f2"], ["f3", "f4"]]
    assert shared([]) == []


def test_a_digest_leaves_out_what_was_taken_in_before(tmp_path: Path) -> None:
    (part,) = Journal(journal(tmp_path / "j", 200_000, block=50_000)).slices(0, 200_000, 1)
    (file,) = write_part(Folder.at(tmp_path), "batch=1", part)
    for start, left in ((0, 200_000), (150_001, 49_999), (199_999, 1), (200_000, 0)):
        found = digests(Traffic(), Folder.at(tmp_path), [Wanted(file, start)])
        assert sum(sum(digest["messages"].to_pylist()) for digest in found) == left
