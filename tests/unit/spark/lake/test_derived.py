"""When it is worth to merge what folds have left."""

import pytest

from zenspark.spark.lake.derived import FEW_FILES, MANY_FILES, MERGED, NEW, WORTH_MERGING, Wanted, merge_is_due, shared
from zenspark.spark.lake.files import ROWS, File


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
