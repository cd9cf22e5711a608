"""When it is worth to merge what folds have left."""

import pytest

from zenspark.spark.lake.derived import FEW_FILES, MANY_FILES, MERGED, NEW, WORTH_MERGING, merge_is_due
from zenspark.spark.lake.table import File


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
