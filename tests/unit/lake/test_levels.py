"""Merge plans of state tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from zenspark.lake.levels import (
    LEVEL_GROWTH_FACTOR,
    MAX_NEW_FILES,
    MERGED_WILDCARD_PART,
    MIN_FILES_TO_MERGE,
    NEW_PART,
    REPLACED_PART,
    WILDCARD_PART,
    has_wildcard_keys,
    is_new,
    plan_merge,
    received_before,
)
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.specs import JOURNAL_SCHEMA


def files(part: str, count: int, rows: int = 1) -> list[DataFile]:
    return [DataFile(f"{part}/{number}", 1, rows, {"part": part}) for number in range(count)]


def parts(found: list[DataFile]) -> set[str]:
    return {str(file.partition["part"]) for file in found}


def test_few_new_files_are_not_merged() -> None:
    assert plan_merge(files(NEW_PART, MIN_FILES_TO_MERGE - 1), []) is None
    plan = plan_merge(files(NEW_PART, MIN_FILES_TO_MERGE), [])
    assert plan is not None
    assert (len(plan.files), plan.part, plan.is_full) == (MIN_FILES_TO_MERGE, "merged-1", True)


def test_files_not_in_the_public_table_are_not_merged() -> None:
    new = files(NEW_PART, MIN_FILES_TO_MERGE + 1)
    assert plan_merge(new, new[:2]) is None
    plan = plan_merge(new, new[:1])
    assert plan is not None
    assert plan.files == new[1:]


def test_too_many_files_not_in_the_public_table_are_merged_within_new_part() -> None:
    new = files(NEW_PART, MAX_NEW_FILES - 1) + files(WILDCARD_PART, 1)
    plan = plan_merge(new, new)
    assert plan is not None
    assert (plan.files, plan.part, plan.is_full) == (new, NEW_PART, False)
    assert plan_merge(new[1:], new[1:]) is None


@pytest.mark.parametrize(
    ("rows", "complete"),
    [(MIN_FILES_TO_MERGE * LEVEL_GROWTH_FACTOR, True), (MIN_FILES_TO_MERGE * LEVEL_GROWTH_FACTOR + 1, False)],
)
def test_much_larger_level_is_not_merged(rows: int, complete: bool) -> None:
    plan = plan_merge(files(NEW_PART, MIN_FILES_TO_MERGE) + files("merged-1", 1, rows), [])
    assert plan is not None
    assert plan.is_full is complete
    assert plan.part == ("merged-1" if complete else "merged-2")


def test_merged_levels_cascade_into_larger_ones() -> None:
    rows = MIN_FILES_TO_MERGE * LEVEL_GROWTH_FACTOR
    first, second, third = (
        files("merged-3", 1, rows),
        files("merged-1", 2, rows * LEVEL_GROWTH_FACTOR // 2),
        files("merged", 1, 10**9),
    )
    plan = plan_merge(files(NEW_PART, MIN_FILES_TO_MERGE) + second + first + third, [])
    assert plan is not None
    assert parts(plan.files) == {NEW_PART, "merged-3", "merged-1"}
    assert (plan.part, plan.is_full) == ("merged-1", False)


def test_wildcard_parts_are_merged_and_the_part_that_each_refresh_replaces_never() -> None:
    plan = plan_merge(
        files(NEW_PART, MIN_FILES_TO_MERGE) + files(MERGED_WILDCARD_PART, 1, 10**9) + files(REPLACED_PART, 3), []
    )
    assert plan is not None
    assert parts(plan.files) == {NEW_PART, MERGED_WILDCARD_PART}
    assert plan.is_full


def test_part_distinguishes_new_and_wildcard_files() -> None:
    found = {
        part: (is_new(file), has_wildcard_keys(file))
        for part in (NEW_PART, WILDCARD_PART, MERGED_WILDCARD_PART, REPLACED_PART)
        for file in files(part, 1)
    }
    assert found == {
        NEW_PART: (True, False),
        WILDCARD_PART: (True, True),
        MERGED_WILDCARD_PART: (False, True),
        REPLACED_PART: (False, False),
    }


def test_received_before_uses_the_limit_of_each_recorder() -> None:
    given = [("a", 4), ("a", 5), ("b", 4), ("c", 0)]
    rows = pa.Table.from_pylist([{"recorder": name, "received_at": at} for name, at in given], schema=JOURNAL_SCHEMA)
    assert received_before(rows, {"a": 5, "b": 3}).to_pylist() == [True, False, False, False]
