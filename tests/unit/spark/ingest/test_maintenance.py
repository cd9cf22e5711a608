"""Which files are put together, and what expires."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.lake.tables import file, samples_at, written
from zenspark.lake.delta_table import Transaction
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.specs import SAMPLES
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.ingest import maintenance
from zenspark.spark.ingest.maintenance import (
    COMPACTED_FILE_BYTES,
    EXPIRED_TAG,
    MIN_FILES_TO_COMPACT,
    MIN_TIER_BYTES,
    TIER_FACTOR,
    Compaction,
    Retention,
    RetentionRule,
    compact_group,
    compaction_groups,
    expire,
    key_order,
    pack_tasks,
    size_tier,
    split_expired,
    with_extra_columns,
)

TODAY = date(2026, 11, 16)
YESTERDAY = "2026-11-15"
NOW = datetime(2026, 11, 16, tzinfo=UTC)
MIB = 1 << 20
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, 0),
        (MIN_TIER_BYTES, 0),
        (MIN_TIER_BYTES + 1, 1),
        (MIN_TIER_BYTES * TIER_FACTOR, 1),
        (MIN_TIER_BYTES * TIER_FACTOR + 1, 2),
    ],
)
def test_size_tier_grows_by_the_tier_factor(size: int, expected: int) -> None:
    assert size_tier(size) == expected


def test_enough_files_of_one_tier_are_compacted_in_order() -> None:
    small = [file(f"s{number:02}", 10) for number in reversed(range(MIN_FILES_TO_COMPACT))]
    (found,) = compaction_groups([*small, file("more", MIN_TIER_BYTES * 2), file("large", COMPACTED_FILE_BYTES)], False)
    assert [each.path for each in found] == [f"s{number:02}" for number in range(MIN_FILES_TO_COMPACT)]
    assert compaction_groups(small[1:], False) == []


@pytest.mark.parametrize("size", [9, 10, 20, 40, 63])
def test_files_of_any_size_are_compacted_up_to_the_target_size(size: int) -> None:
    files = [file(f"f{number:03}", size * MIB) for number in range(100)]
    groups = compaction_groups(files, False)
    assert sum(len(group) for group in groups) >= 90
    assert all(sum(each.size for each in group) <= COMPACTED_FILE_BYTES for group in groups)


def test_small_groups_share_a_task_and_large_groups_have_their_own() -> None:
    small = [[file(f"s{number}", 10), file(f"t{number}", 10)] for number in range(600)]
    large = [[file(f"l{number}", COMPACTED_FILE_BYTES // 2), file(f"m{number}", 10)] for number in range(3)]
    assert [len(share) for share in pack_tasks(small)] == [256, 256, 88]
    assert [len(share) for share in pack_tasks(large)] == [1, 1, 1]
    assert pack_tasks([]) == []


def test_small_files_of_a_finished_day_are_compacted() -> None:
    (found,) = compaction_groups([file("a", 10), file("b", MIN_TIER_BYTES * 2)], True)
    assert [each.path for each in found] == ["a", "b"]
    assert compaction_groups([file("alone", 10)], True) == []


@pytest.mark.slow
def test_a_row_is_rewritten_once_per_tier() -> None:
    """Simulated: files of one second each for a day; how often each byte is written again."""
    live: list[DataFile] = []
    rewritten = 0
    for second in range(6_000):
        live.append(file(f"{second:05}", 100_000))
        if second % 60 == 0:
            for group in compaction_groups(live, False):
                size = sum(each.size for each in group)
                rewritten += size
                live = [each for each in live if each not in group] + [file(f"c{second}-{group[0].path}", size)]
    assert rewritten <= 5 * 6_000 * 100_000
    assert len(live) < 200


def test_unchanged_partitions_are_skipped_until_the_day_is_over(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    for _ in range(2):
        table.commit(Transaction(add=written(table, "x", [{"key": "a"}])))
    compaction = Compaction()
    assert compaction.groups(table, TODAY) == []
    assert len(compaction._seen) == 1
    assert compaction.groups(table.update(), TODAY) == []
    assert len(compaction.groups(table, TODAY + DAY)[0]) == 2


def test_compacted_file_is_sorted_by_key_and_keeps_all_rows(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    one = written(table, "a", [{"key": "b", "offset": 1}, {"key": "a", "offset": 2}])
    two = written(table, "b", [{"key": "b", "offset": 3}, {"key": "a", "offset": 4}])
    table.commit(Transaction(add=[*one, *two]))
    (added,) = compact_group(table.location, with_extra_columns(table), table.files)
    rows = pq.ParquetFile(tmp_path / "t" / added.path).read()
    assert (rows["key"].to_pylist(), rows["offset"].to_pylist()) == (["a", "a", "b", "b"], [2, 4, 1, 3])
    table.commit(Transaction(add=[added], remove=table.files, is_optimize=True))
    assert table.to_deltalake().to_pyarrow_dataset().count_rows() == 4


PIECE_BYTES = 16 << 20
FILE_ROWS, PAYLOAD_BYTES = 4_000, 1_000


def compaction_peak(path: Path, files: list[DataFile]) -> int:
    """The most bytes that Arrow has at once in this process, which compacts files in pieces of `PIECE_BYTES`."""
    with patch.object(maintenance, "SORT_BYTES", PIECE_BYTES):
        compact_group(StoragePath.at(path), SAMPLES, files)
    return int(pa.default_memory_pool().max_memory())


@pytest.mark.slow
def test_memory_of_a_compaction_does_not_grow_with_its_files(tmp_path: Path) -> None:
    table = samples_at(tmp_path)
    rows: list[dict[str, object]] = [
        {"key": f"a/{each % 7}", "payload": bytes(PAYLOAD_BYTES)} for each in range(FILE_ROWS)
    ]
    files = [file for label in range(40) for file in written(table, str(label), rows)]
    few, many = (in_new_process(compaction_peak, tmp_path, files[:count]) for count in (10, 40))
    assert PIECE_BYTES < many <= few * 1.05
    assert many < 2.5 * PIECE_BYTES, "a piece, and its largest column once more while it is put together"


def in_new_process(function: Callable[..., int], *arguments: object) -> int:
    """What a function gives in a process that has done nothing before."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def test_rows_without_a_key_come_first() -> None:
    order = key_order(pa.array(["b", None, "a"]).dictionary_encode())
    assert order is not None
    assert order.tolist() == [1, 2, 0]
    assert key_order(pa.array([None, "a", "a", "b"]).dictionary_encode()) is None


# --- retention


def test_days_expire_by_age_and_the_oldest_by_size() -> None:
    files = [file(day, 10, day) for day in ("2026-11-14", YESTERDAY, "2026-11-16")]
    assert split_expired(files, Retention(), NOW) == ([], [])
    assert split_expired(files, Retention(age=DAY), NOW) == (files[:1], [])
    assert split_expired(files, Retention(max_bytes=20), NOW) == (files[:1], [])
    assert split_expired(files, Retention(max_bytes=19), NOW) == (files[:2], [])
    assert split_expired(files, Retention(age=DAY, max_bytes=10), NOW) == (files[:2], [])


def test_retention_by_bytes_expires_oldest_files_of_a_day_first() -> None:
    times = [datetime(2026, 11, 16, hour, tzinfo=UTC) for hour in (3, 1, 2)]
    files = [file(f"at{at.hour}", 10, received_at=at) for at in times]
    whole, partly = split_expired(files, Retention(max_bytes=15), NOW)
    assert ([each.path for each in whole], partly) == (["at1", "at2"], [])


@pytest.mark.slow
def test_retention_rules_by_key_override_the_default_age(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    keys = ["fleet/a/pose", "fleet/a/camera", "fleet/b/log", "fleet/b/camera"]
    rows: list[dict[str, object]] = [{"key": key, "recorder": "r", "offset": number} for number, key in enumerate(keys)]
    table.commit(Transaction(add=written(table, "old", rows, "2026-11-01"), app_versions={"offset:r": 4}))
    table.commit(Transaction(add=written(table, "new", rows, "2026-11-15")))
    retention = Retention(
        age=timedelta(days=60), rules=(RetentionRule("fleet/*/pose", None), RetentionRule("**/camera", 7 * DAY))
    )
    assert expire(None, table, [{"r": 4}], retention, NOW) == 1
    found = table.to_deltalake().to_pyarrow_dataset().to_table(columns=["key", "day"]).to_pylist()
    old = sorted(row["key"] for row in found if row["day"] == date(2026, 11, 1))
    assert (old, len(found)) == (["fleet/a/pose", "fleet/b/log"], 6)
    assert [file.tags.get(EXPIRED_TAG) is not None for file in table.files if "2026-11-01" in file.path] == [True]
    assert expire(None, table, [{"r": 4}], retention, NOW) == 0  # once is enough
    assert expire(None, table, [{"r": 4}], retention, NOW + 60 * DAY) == 2
    left = table.to_deltalake().to_pyarrow_dataset().to_table(columns=["key"])["key"].to_pylist()
    assert left == ["fleet/a/pose", "fleet/a/pose"]


def test_rows_that_are_not_refreshed_do_not_expire(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "t")
    table.commit(Transaction(add=written(table, "x", [{"key": "a", "recorder": "r", "offset": 0}], "2026-01-01")))
    assert expire(None, table, [{"r": 0}], Retention(age=DAY), NOW) == 0
    assert expire(None, table, [{"r": 1}], Retention(age=DAY), NOW) == 1
    assert table.files == []


def test_files_of_several_recorders_compacted_by_another_tool_expire(tmp_path: Path) -> None:
    """Their statistics do not have the offset of each recorder; they stayed for ever."""
    table = samples_at(tmp_path / "t")
    for recorder, offset in (("a", 3), ("b", 100)):
        row = {"key": "k", "recorder": recorder, "offset": offset}
        table.commit(Transaction(add=written(table, recorder, [row], "2026-01-01")))
    table.to_deltalake().optimize.compact()
    assert len(table.update().files) == 1
    assert expire(None, table, [{"a": 4, "b": 100}], Retention(age=DAY), NOW) == 0
    assert expire(None, table, [{"a": 4, "b": 101}], Retention(age=DAY), NOW) == 1
    assert table.files == []


def test_retention_without_limits_is_empty() -> None:
    assert Retention(rules=(RetentionRule("**", None),)).is_empty
    assert not Retention(max_bytes=1).is_empty
