"""How a state follows `samples`: in steps, once per row, and anew; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import Field, write_deltalake
from deltalake.schema import PrimitiveType
from pyspark.sql import SparkSession

from tests.lake_model import Row
from tests.lake_samples import RandomSamples, numbered
from tests.lake_tables import assert_published, put_in
from tests.rows import EPOCH
from tests.unit.spark.ingest.workers import no_spark
from zenspark.lake import levels
from zenspark.lake.delta_table import Transaction
from zenspark.lake.ingested_offsets import list_recorders
from zenspark.lake.parquet_files import DataFile
from zenspark.lake.pending_rows import (
    PROPAGATED_DELETES_APP_ID,
    REBUILD_COUNT_APP_ID,
    SAMPLES_VERSION_APP_ID,
    STATE_VERSION_APP_ID,
    OffsetRanges,
)
from zenspark.lake.quarantine import QUARANTINED, RETRIED, QuarantinedBlock
from zenspark.lake.specs import JOURNAL_SCHEMA, SAMPLES
from zenspark.spark.ingest import derived
from zenspark.spark.ingest.derived import (
    MAX_DRIVER_ROWS,
    TOMBSTONE_TTL,
    DerivedTable,
    _fits_driver,
)
from zenspark.spark.lake import Lake

A_DAY = 86_400_000_000


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    with no_spark() as session:
        yield session


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def messages(lake: Lake) -> int:
    """How many messages the state of `traffic` has counted."""
    state = lake.state_table("traffic")
    rows = [pq.read_table(state.location.open(file.path)) for file in state.files]
    return sum(sum(table["messages"].to_pylist()) for table in rows)


def refresh(lake: Lake, spark: SparkSession, name: str = "traffic") -> bool:
    return lake.derived(name).refresh(spark)


def test_refresh_counts_every_row_once(lake: Lake, spark: SparkSession) -> None:
    put_in(lake, numbered([{}] * 10, 0, "r"))
    assert refresh(lake, spark)
    assert not refresh(lake, spark)
    put_in(lake, numbered([{}] * 5, 10, "r") + numbered([{}] * 7, 0, "s"))
    assert refresh(lake, spark)
    assert messages(lake) == 22
    assert lake.state_table("traffic").app_version(SAMPLES_VERSION_APP_ID) == lake.table("samples").version


@pytest.mark.slow
def test_refresh_reads_only_newer_files(lake: Lake, spark: SparkSession) -> None:
    put_in(lake, numbered([{}] * 10, 0, "r"))
    refresh(lake, spark)
    put_in(lake, numbered([{}] * 5, 10, "r"))
    looked: list[str] = []
    may_have_rows_in = OffsetRanges.may_have_rows_in

    def noting(extent: OffsetRanges, file: DataFile) -> bool:
        looked.append(file.path)
        return may_have_rows_in(extent, file)

    with patch.object(OffsetRanges, "may_have_rows_in", noting):
        refresh(lake, spark)
    assert len(looked) == 1
    assert messages(lake) == 15


@pytest.mark.slow
def test_backlog_is_refreshed_in_steps_that_survive_a_failure(lake: Lake, spark: SparkSession) -> None:
    rows = RandomSamples(1).batch(100)
    put_in(lake, rows[:60])
    put_in(lake, rows[60:])
    with patch.object(derived, "MAX_ROWS_PER_REFRESH", 7):
        for name in ("latest", "gaps", "traffic"):
            of = lake.derived(name)
            assert of._refresh_step(spark)
            assert of.state.app_version(SAMPLES_VERSION_APP_ID) is None
            assert refresh(lake, spark, name)
    assert messages(lake) == 100
    lake.publish(spark)
    assert_published(lake, rows)


def quarantine_app_id(start: int, end: int) -> str:
    """The mark of rows in quarantine."""
    fields: dict[str, object] = {"path": "", "segment": 0, "reason": "", "version": "", "time": "", "has_bytes": False}
    return QuarantinedBlock(recorder="r", start=start, end=end, **fields).app_id  # type: ignore[arg-type]


@pytest.mark.slow
def test_rows_retried_from_quarantine_are_counted_once(lake: Lake, spark: SparkSession) -> None:
    rows = numbered([{"key": f"k/{at}"} for at in range(20)], 0, "r")
    put_in(lake, rows[:5] + rows[8:12], {quarantine_app_id(5, 8): QUARANTINED})
    lake.refresh(spark)
    lake.publish(spark)
    assert_published(lake, rows[:5] + rows[8:12])
    put_in(lake, rows[12:15] + rows[18:], {quarantine_app_id(15, 18): QUARANTINED})
    put_in(lake, rows[5:8], {quarantine_app_id(5, 8): RETRIED}, reached=False)
    put_in(lake, rows[15:18], {quarantine_app_id(15, 18): RETRIED}, reached=False)  # before the others were taken in
    lake.table("samples").to_deltalake().optimize.compact()
    batches, _ = lake.newest()
    assert sorted(key for batch in batches for key in batch["key"].to_pylist()) == sorted(row["key"] for row in rows)
    for _ in range(2):
        lake.refresh(spark)
        lake.publish(spark)
        assert_published(lake, rows)
    lake.rebuild(spark, "traffic")
    assert_published(lake, rows)


@pytest.mark.slow
def test_rows_compacted_by_another_tool_are_counted_once(lake: Lake, spark: SparkSession) -> None:
    put_in(lake, numbered([{}] * 10, 0, "r") + numbered([{}] * 10, 0, "s"))
    refresh(lake, spark)
    put_in(lake, numbered([{}] * 10, 10, "r"))
    lake.table("samples").to_deltalake().optimize.compact()
    lake.table("samples").to_deltalake().optimize.z_order(["key"])
    refresh(lake, spark)
    put_in(lake, numbered([{}] * 10, 10, "s"))
    refresh(lake, spark)
    assert messages(lake) == 40


@pytest.mark.slow
def test_rows_that_another_tool_inserted_are_ignored(lake: Lake, spark: SparkSession) -> None:
    put_in(lake, numbered([{}] * 10, 0, "r"))
    foreign: Row = {"key": "fleet/foreign", "received_at": EPOCH, "day": 19675, "prefix": "fleet"}
    rows = pa.Table.from_pylist([foreign | {"recorder": name} for name in (None, "x")], schema=SAMPLES.schema)
    write_deltalake(lake.table("samples").to_deltalake(), rows, mode="append")
    for name in ("latest", "gaps", "traffic"):
        refresh(lake, spark, name)
    lake.publish(spark)
    assert_published(lake, numbered([{}] * 10, 0, "r"))


@pytest.mark.slow
def test_refresh_accepts_a_column_added_by_another_tool(lake: Lake, spark: SparkSession) -> None:
    put_in(lake, numbered([{}] * 10, 0, "r"))
    lake.refresh(spark)
    lake.publish(spark)
    for name in ("samples", "latest", "gaps", "traffic"):
        lake.table(name).to_deltalake().alter.add_columns([Field("extra", PrimitiveType("string"))])
    put_in(lake, numbered([{}] * 10, 10, "r"))
    lake.refresh(spark)
    lake.publish(spark)
    assert lake.table("latest").to_deltalake().to_pyarrow_table(columns=["extra"]).num_rows > 0
    assert messages(lake) == 20


@pytest.mark.slow
def test_a_merge_leaves_the_content_as_it_is(lake: Lake, spark: SparkSession) -> None:
    samples = RandomSamples(2)
    with patch.object(levels, "MIN_FILES_TO_MERGE", 4):
        for _ in range(6):
            put_in(lake, samples.batch(20))
            lake.refresh(spark)
            lake.publish(spark)
        lake.refresh(spark)
    assert len(lake.state_table("traffic").files) <= 4
    assert messages(lake) == 120
    lake.rebuild(spark, "gaps")
    lake.location.remove("latest")
    again = Lake(lake.location.address)
    again.publish(spark)
    assert_published(again, samples.rows)


def test_files_not_in_the_public_table_are_not_merged(lake: Lake, spark: SparkSession) -> None:
    put_in(lake, numbered([{}], 0, "r"))
    refresh(lake, spark)
    with patch.object(levels, "MIN_FILES_TO_MERGE", 1):
        assert not lake.derived("traffic").merge(spark, None)
        assert not lake.derived("traffic").merge(spark, 0)
        lake.public_table_writer("traffic").write(spark)
        assert lake.derived("traffic").merge(spark, lake.table("traffic").app_version(STATE_VERSION_APP_ID))


@pytest.mark.slow
def test_rebuild_uses_only_rows_still_in_samples(lake: Lake, spark: SparkSession) -> None:
    rows = numbered([{"key": "a"}, {"key": "b"}], 0, "r")
    put_in(lake, rows[:1])
    lake.refresh(spark)
    samples = lake.table("samples")
    samples.commit(Transaction(remove=samples.files))  # as retention does
    put_in(lake, rows[1:])
    lake.refresh(spark)
    lake.publish(spark)
    assert_published(lake, rows)
    for name in ("latest", "gaps", "traffic"):
        lake.rebuild(spark, name)
    assert_published(lake, rows[1:])
    assert lake.state_table("latest").app_version(REBUILD_COUNT_APP_ID) == 1
    assert not refresh(lake, spark)


@pytest.mark.slow
def test_full_merge_drops_tombstones_older_than_their_ttl(lake: Lake, spark: SparkSession) -> None:
    assert TOMBSTONE_TTL.days == 1

    def delete(key: str, at: int) -> Row:
        return {"key": key, "kind": "DELETE", "payload": None, "received_at": at, "timestamp_ntp64": 5}

    rows = numbered(
        [delete("late", EPOCH), delete("old", EPOCH - A_DAY - 1), delete("old/*", EPOCH - A_DAY - 1)], 0, "r"
    )
    put_in(lake, rows + numbered([delete("behind", EPOCH - 9 * A_DAY)], 0, "backlog"))
    lake.refresh(spark)
    lake.publish(spark)
    with patch.object(levels, "MIN_FILES_TO_MERGE", 1):
        lake.refresh(spark)
    batches, _ = lake.newest()
    assert sorted(key for batch in batches for key in batch["key"].to_pylist()) == ["behind", "late"]


@pytest.mark.slow
def test_marks_of_a_state_are_no_recorders(lake: Lake, spark: SparkSession) -> None:
    put_in(lake, numbered([{}], 0, "r"))
    lake.refresh(spark)
    lake.publish(spark)
    assert list_recorders(lake.state_table("latest")) == list_recorders(lake.table("latest")) == ["r"]
    assert lake.state_table("latest").app_version(PROPAGATED_DELETES_APP_ID) == lake.table("samples").version
    assert lake.state_table("traffic").app_version(PROPAGATED_DELETES_APP_ID) is None


@pytest.mark.slow
def test_newest_candidates_are_readable_without_spark(lake: Lake, spark: SparkSession) -> None:
    put_in(lake, numbered([{"key": "a"}, {"key": "b"}], 0, "r"))
    lake.refresh(spark)
    put_in(lake, numbered([{"key": "b"}], 2, "r"))
    batches, offsets = lake.newest()
    found = [row for batch in batches for row in batch.to_pylist()]
    assert sorted((row["key"], row["offset"]) for row in found) == [("a", 0), ("b", 1), ("b", 2)]
    assert all(list(row) == JOURNAL_SCHEMA.names for row in found)
    assert offsets == {"r": 3}


def test_few_rows_are_refreshed_by_the_driver() -> None:
    assert _fits_driver([[DataFile("f", 1 << 40, MAX_DRIVER_ROWS, {})]])
    assert not _fits_driver([[DataFile("f", 1, MAX_DRIVER_ROWS, {})], [DataFile("g", 1, 1, {})]])
    assert not _fits_driver([[DataFile("f", 1 << 40, 0, {})]])  # without a count of its rows


def test_a_state_is_opened_before_samples(lake: Lake) -> None:
    opened: list[str] = []
    with (
        patch.object(Lake, "_table", lambda self, place, spec: opened.append(place)),
        patch.object(Lake, "version", "2"),
    ):
        assert isinstance(lake.derived("latest"), DerivedTable)
    assert opened == ["_state/latest", "samples"]
