"""Which files are put together, which days go, what is swept."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.spark.lake.tables import file, samples_at, written
from zenspark.spark.lake.maintenance import ENOUGH, FACTOR, SMALLEST, TARGET, bins, expired, sweep, tier
from zenspark.spark.lake.table import Change

TODAY = date(2026, 11, 16)
YESTERDAY = "2026-11-15"
NOW = datetime(2026, 11, 16, tzinfo=UTC)


@pytest.mark.parametrize(
    ("size", "expected"), [(0, 0), (SMALLEST, 0), (SMALLEST + 1, 1), (SMALLEST * FACTOR, 1), (SMALLEST * FACTOR + 1, 2)]
)
def test_a_tier_holds_files_of_about_the_same_size(size: int, expected: int) -> None:
    assert tier(size) == expected


def test_enough_files_of_one_tier_are_put_together_in_order() -> None:
    small = [file(f"s{offset}", 10, offset=offset) for offset in reversed(range(ENOUGH))]
    (found,) = bins([*small, file("larger", SMALLEST * 2), file("large", TARGET)], TODAY)
    assert [each.path for each in found] == [f"s{offset}" for offset in range(ENOUGH)]
    assert bins(small[1:], TODAY) == []


def test_when_a_day_is_over_everything_small_in_it_is_put_together() -> None:
    (found,) = bins([file("a", 10, YESTERDAY), file("b", SMALLEST * 2, YESTERDAY, offset=1), file("c", 10)], TODAY)
    assert [each.path for each in found] == ["a", "b"]
    assert bins([file("alone", 10, YESTERDAY)], TODAY) == []


def test_a_bin_is_not_much_larger_than_a_file_should_be() -> None:
    halves = [file(f"h{offset}", TARGET // 2, YESTERDAY, offset=offset) for offset in range(4)]
    assert [[each.path for each in found] for found in bins(halves, TODAY)] == [["h0", "h1"], ["h2", "h3"]]


def test_days_expire_by_age_and_the_oldest_by_size() -> None:
    files = [file(day, 10, day) for day in ("2026-11-14", YESTERDAY, "2026-11-16")]
    assert expired(files, None, None) == []
    assert expired(files, date(2026, 11, 15), None) == files[:1]
    assert expired(files, None, 20) == files[:1]
    assert expired(files, None, 19) == files[:2]
    assert expired(files, date(2026, 11, 15), 10) == files[:2]


def test_what_does_not_count_is_removed_after_a_grace(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    table.commit(Change(add=written(table, "batch=1", [{"key": "a"}])))
    dead = written(table, "batch=2", [{"key": "a"}])[0].path
    hour = timedelta(hours=1)
    assert sweep(table, hour, NOW) == 0
    assert sweep(table, hour, NOW + hour / 2) == 0
    assert table.folder.exists(dead)
    assert sweep(table, hour, NOW + hour) == 1
    assert not table.folder.exists("batch=2")
    assert len(table.folder.files("batch=1")) == 1
    assert sweep(table, hour, NOW + 9 * hour) == 0
