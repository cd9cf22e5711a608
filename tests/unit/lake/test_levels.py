"""Which files of a state are merged, and into what."""

from __future__ import annotations

import pyarrow as pa
import pytest

from zenspark.lake.levels import (
    FEW_FILES,
    GROWTH,
    MANY_FILES,
    MERGED_WILD,
    NEW,
    STATE,
    WILD,
    is_new,
    is_old,
    is_wild,
    plan_merge,
)
from zenspark.lake.parquet_files import File
from zenspark.lake.specs import JOURNAL


def files(part: str, count: int, rows: int = 1) -> list[File]:
    return [File(f"{part}/{number}", 1, rows, {"part": part}) for number in range(count)]


def parts(found: list[File]) -> set[str]:
    return {str(file.partition["part"]) for file in found}


def test_few_new_files_are_not_worth_a_merge() -> None:
    assert plan_merge(files(NEW, FEW_FILES - 1), []) is None
    plan = plan_merge(files(NEW, FEW_FILES), [])
    assert plan is not None
    assert (len(plan.files), plan.part, plan.complete) == (FEW_FILES, "merged-1", True)


def test_what_is_not_published_stays() -> None:
    new = files(NEW, FEW_FILES + 1)
    assert plan_merge(new, new[:2]) is None
    plan = plan_merge(new, new[:1])
    assert plan is not None
    assert plan.files == new[1:]


def test_very_many_files_are_merged_though_they_are_not_published_and_stay_so() -> None:
    new = files(NEW, MANY_FILES - 1) + files(WILD, 1)
    plan = plan_merge(new, new)
    assert plan is not None
    assert (plan.files, plan.part, plan.complete) == (new, NEW, False)
    assert plan_merge(new[1:], new[1:]) is None


@pytest.mark.parametrize(("rows", "complete"), [(FEW_FILES * GROWTH, True), (FEW_FILES * GROWTH + 1, False)])
def test_a_level_that_is_much_larger_is_left_alone(rows: int, complete: bool) -> None:
    plan = plan_merge(files(NEW, FEW_FILES) + files("merged-1", 1, rows), [])
    assert plan is not None
    assert plan.complete is complete
    assert plan.part == ("merged-1" if complete else "merged-2")


def test_each_level_that_is_merged_makes_room_for_a_larger_one() -> None:
    rows = FEW_FILES * GROWTH
    first, second, third = (
        files("merged-3", 1, rows),
        files("merged-1", 2, rows * GROWTH // 2),
        files("merged", 1, 10**9),
    )
    plan = plan_merge(files(NEW, FEW_FILES) + second + first + third, [])
    assert plan is not None
    assert parts(plan.files) == {NEW, "merged-3", "merged-1"}
    assert (plan.part, plan.complete) == ("merged-1", False)


def test_rows_with_wildcards_are_merged_along_and_the_state_never() -> None:
    plan = plan_merge(files(NEW, FEW_FILES) + files(MERGED_WILD, 1, 10**9) + files(STATE, 3), [])
    assert plan is not None
    assert parts(plan.files) == {NEW, MERGED_WILD}
    assert plan.complete


def test_parts_say_what_is_new_and_what_has_wildcards() -> None:
    found = {part: (is_new(file), is_wild(file)) for part in (NEW, WILD, MERGED_WILD, STATE) for file in files(part, 1)}
    assert found == {NEW: (True, False), WILD: (True, True), MERGED_WILD: (False, True), STATE: (False, False)}


def test_a_row_is_old_by_the_limit_of_its_recorder() -> None:
    given = [("a", 4), ("a", 5), ("b", 4), ("c", 0)]
    rows = pa.Table.from_pylist([{"recorder": name, "received_at": at} for name, at in given], schema=JOURNAL)
    assert is_old(rows, {"a": 5, "b": 3}).to_pylist() == [True, False, False, False]
