"""Columns for Spark, and files for its tasks where it cannot read by itself."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from tests.unit.lake.tables import file, samples_at, written
from zenspark.lake.network_tables import NETWORK_TABLE_SPECS
from zenspark.lake.specs import JOURNAL_SCHEMA, SAMPLES
from zenspark.spark.ingest.read_files import (
    group_by_first_partition,
    make_file_reader,
    spark_columns,
    spark_schema,
    split_by_size,
    write_file_log,
)


def test_columns_have_the_types_that_spark_gives_them() -> None:
    types = dict(spark_columns(SAMPLES.schema))
    assert list(types) == SAMPLES.schema.names
    assert {types[name] for name in ("offset", "timestamp_ntp64", "source_sn")} == {"bigint"}
    assert (types["received_at"], types["payload"], types["day"]) == ("timestamp", "binary", "date")
    assert all(field.nullable for field in spark_schema(JOURNAL_SCHEMA))


def test_files_are_grouped_by_day_and_oldest_days_are_one_group() -> None:
    days = [datetime.date(2026, 1, 1) + datetime.timedelta(days=number) for number in range(40)]
    files = [file(f"{day}/{name}", day=str(day)) for day in reversed(days) for name in "ab"]
    found = group_by_first_partition(SAMPLES, files)
    assert [value for value, _ in found] == [*(str(day) for day in days[8:]), None]
    assert [len(own) for _, own in found] == [2] * 32 + [16]
    assert [value for value, _ in group_by_first_partition(SAMPLES, files[:2])] == ["2026-02-09"]
    assert group_by_first_partition(NETWORK_TABLE_SPECS["sessions"], files) == [(None, files)]


def test_files_are_split_into_tasks_of_similar_size() -> None:
    files = [file(name, size=10) for name in "abcdef"]
    assert [len(share) for share in split_by_size(files, 2)] == [4, 2]
    assert [len(share) for share in split_by_size(files, 100)] == [1] * 6
    large = [file(name, size=200 << 20) for name in "ab"]
    assert [len(share) for share in split_by_size(large, 1)] == [1, 1]


def test_a_task_gives_the_rows_of_its_files_with_their_partitions(tmp_path: Path) -> None:
    table = samples_at(tmp_path)
    rows: list[dict[str, object]] = [{"key": "a:b/1", "offset": 1}, {"key": "a:b/2", "offset": 2}]
    files = [*written(table, "one", rows[:1]), *written(table, "two", rows[1:])]
    read = make_file_reader(table.location, SAMPLES, [[], files])
    found = pa.Table.from_batches(read(iter([pa.record_batch({"id": [0, 1]})])))
    assert found.schema == SAMPLES.schema
    day = datetime.date(2026, 11, 16)
    expected = [{"key": row["key"], "offset": row["offset"], "day": day, "prefix": "a:b"} for row in rows]
    assert found.select(["key", "offset", "day", "prefix"]).to_pylist() == expected


def test_file_log_has_the_format_of_spark_metadata(tmp_path: Path) -> None:
    table = samples_at(tmp_path / "my lake")
    files = written(table, "one", [{"key": "a:b/1"}])
    write_file_log(tmp_path, table.location, files)
    first, entry = (tmp_path / "_spark_metadata" / "0").read_text().splitlines()
    action = json.loads(entry)
    assert " " not in action["path"]
    assert first == "v1"
    assert (action["size"], action["action"], action["isDir"]) == (files[0].size, "add", False)
    assert unquote(urlsplit(action["path"]).path) == f"{table.location.address}/{files[0].path}"
