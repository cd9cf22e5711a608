"""SQL queries: the embedded engine and Spark return the same rows."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.lake_samples import RandomSamples, numbered
from tests.lake_tables import put_in
from tests.rows import EPOCH
from zenspark.errors import UsageError
from zenspark.lake.delta_table import Transaction
from zenspark.spark.lake import Lake
from zenspark.spark.sql_engine import SparkEngine
from zenspark.sql import Engine
from zenspark.sql.statement import ONLY_QUERIES

pytestmark = pytest.mark.spark

QUERIES = [
    # samples
    "select count(*) as n from samples",
    "select * from samples",
    "select key, count(*) as n from samples group by key order by key",
    "select kind, count(*) as n, sum(octet_length(payload)) as size from samples group by kind",
    "select recorder, min(offset) as first, max(offset) as last from samples group by recorder",
    "select recorder, offset from samples order by recorder, offset limit 7",
    "select recorder, offset from samples order by recorder desc, offset desc limit 7",
    "select day, prefix, count(*) as n from samples group by day, prefix",
    "select distinct encoding, priority, congestion from samples",
    "select avg(source_sn) as average, stddev(source_sn) as deviation from samples where source_zid = 'a'",
    "select source_zid, source_eid, count(distinct source_sn) as n from samples group by source_zid, source_eid",
    "select timestamp, timestamp_ntp64, timestamp_id from samples order by timestamp, offset, recorder",
    "select zenoh_ntp64_to_timestamp(timestamp_ntp64) as t from samples",
    "select date_trunc('minute', received_at) as minute, count(*) as n from samples group by 1",
    "select min(received_at) as first, max(received_at) as last from samples",
    "select count(*) as n from samples where received_at > timestamp '2023-11-14 22:14:00'",
    "select count(*) as n from samples where payload is null and kind = 'DELETE'",
    "select count(*) as n from samples where attachment is not null and express = false",
    "select key from samples where key like 'x/%' group by key having count(*) > 5",
    "select upper(kind) as kind, length(key) as size, substring(key, 1, 2) as start from samples",
    "select case when kind = 'PUT' then 1 else 0 end as put, count(*) as n from samples group by 1",
    "select key, offset, row_number() over (partition by key order by recorder, offset) as place from samples",
    "select key, sum(offset) over (partition by recorder, key) as total from samples",
    "select cast(offset as double) / 3 as third, offset % 3 as rest from samples where recorder = 'robot'",
    # functions
    "select key, zenoh_decode_payload(encoding, payload) as value from samples where encoding = 'text/plain'",
    "select key, encoding, zenoh_decode_payload(encoding, payload) as value from samples",
    "select zenoh_decode_payload('zenoh/bytes', payload) as value, count(*) as n from samples group by 1",
    "select distinct key from samples where zenoh_key_match(key, 'x/*')",
    "select distinct key, zenoh_intersects(key, '*/3') as a, zenoh_includes('**', key) as b from samples",
    "select distinct key, try_zenoh_key_match(key, 'a//b') as a, try_zenoh_includes(key, '/') as b from samples",
    # latest
    "select * from latest",
    "select count(*) as n, count(distinct key) as keys from latest",
    "select key, payload, offset from latest where zenoh_key_match(key, 'y/**') order by key",
    "select l.key, count(s.key) as n from latest l left join samples s on l.key = s.key group by l.key",
    "with late as (select key, received_at from latest) select count(*) as n from late where received_at is not null",
    "select key from samples except select key from latest",
    "select key from latest where key not in (select key from samples where kind = 'DELETE')",
    # gaps
    "select source_zid, source_eid, kind, first_sn, last_sn, count from gaps",
    "select kind, sum(count) as numbers, count(*) as n from gaps group by kind order by kind",
    "select count(*) as n from gaps where noticed_at is null",
    # traffic
    "select prefix, minute, messages, bytes, latency_min_us, latency_max_us from traffic",
    "select prefix, minute, messages_per_second, bytes_per_second, latency_avg_us from traffic",
    "select sum(messages) as messages, sum(bytes) as bytes from traffic",
    "select prefix, max(latency_max_us) as latency from traffic group by prefix order by latency desc, prefix",
    # sessions, declarations, counters
    "select * from sessions",
    "select event, whatami, count(*) as n from sessions group by event, whatami",
    "select d.key, s.event from declarations d join sessions s on d.zid = s.zid",
    "select kind, key, event from declarations order by kind desc, key, event",
    "select count(*) as n from counters",
    # without a table
    "select 1 as one, 'a' as text, true as yes, null as nothing, 1.5 as half",
    "select * from (values (1, 'a'), (2, null)) t(n, text) order by text",
]


def commit(lake: Lake, name: str, rows: list[dict[str, object]]) -> None:
    """Adds rows to a table of the network."""
    table = lake.table(name)
    made = pa.Table.from_pylist(rows, schema=table.spec.schema)
    table.commit(Transaction(add=table.write(made, "events")))


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with rows that are published, rows that are only refreshed, and rows that are pending."""
    lake, samples = Lake(tmp_path_factory.mktemp("sql") / "lake"), RandomSamples(3)
    lake.create()
    put_in(lake, samples.batch(200))
    lake.refresh(spark)
    lake.publish(spark)
    put_in(lake, samples.batch(100))
    lake.refresh(spark)
    put_in(lake, samples.batch(100))
    events = [
        {"time": EPOCH + number, "zid": f"{number % 2:x}", "recorder": "robot", "offset": number} for number in range(4)
    ]
    kinds = ("subscriber", "queryable", None, "token")
    commit(lake, "sessions", [row | {"event": "opened", "whatami": "router"} for row in events])
    commit(
        lake,
        "declarations",
        [row | {"event": "declared", "kind": kind, "key": "a/**"} for row, kind in zip(events, kinds, strict=True)],
    )
    return lake


@pytest.fixture(scope="module")
def with_spark(spark: SparkSession, lake: Lake) -> SparkEngine:
    return SparkEngine(spark, lake)


def comparable(rows: pa.Table, *, ordered: bool) -> list[tuple[object, ...]]:
    """Rows as tuples; sums of floating-point numbers depend on their order."""

    def plain(value: object) -> object:
        return float(f"{value:.9g}") if isinstance(value, float) and math.isfinite(value) else value

    found = [tuple(map(plain, row)) for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)]
    return found if ordered else sorted(found, key=repr)


@pytest.mark.parametrize("query", QUERIES)
def test_both_engines_return_the_same_rows(with_spark: SparkEngine, lake: Lake, query: str) -> None:
    ours, theirs = Engine(lake).query(query), with_spark.query(query)
    assert ours.column_names == theirs.column_names
    ordered = "order by" in query and "over (" not in query
    assert comparable(ours, ordered=ordered) == comparable(theirs, ordered=ordered)


def test_there_are_enough_queries_about_every_table(lake: Lake) -> None:
    assert len(QUERIES) >= 40
    for name in lake.tables():
        assert any(f" {name}" in query for query in QUERIES)


def test_published_tables_return_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, RandomSamples(5).batch(100))
    lake.refresh(spark)
    lake.publish(spark)
    rows = {table.name: table.rows for table in Engine(lake).tables()}
    for name in ("latest", "gaps", "traffic"):
        ours, theirs = (engine.query(f"select * from {name}") for engine in (Engine(lake), SparkEngine(spark, lake)))
        assert rows[name] == ours.num_rows  # read from the published files
        assert comparable(ours, ordered=False) == comparable(theirs, ordered=False)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from sampels", "there is no table sampels: did you mean samples?"),
        ("select kee from samples", "there is no column kee: did you mean key?"),
        ("selct 1", "Syntax error at or near 'selct'"),
        ("select raise_error('no') from samples", "the query failed: "),
        ("select key from samples where zenoh_key_match(key, 'a//b')", "key expression 'a//b', position 2"),
        ("drop table samples", ONLY_QUERIES),
        ("create table t as select 1", ONLY_QUERIES),
        ("insert into samples select * from samples", ONLY_QUERIES),
        ("with x as (select 1) insert into samples select * from x", ONLY_QUERIES),
        ("set spark.sql.ansi.enabled = false", ONLY_QUERIES),
        ("add jar '/x.jar'", ONLY_QUERIES),
    ],
)
def test_an_error_of_spark_is_one_line(with_spark: SparkEngine, query: str, expected: str) -> None:
    with pytest.raises(UsageError) as raised:
        with_spark.query(query)
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "\tat " not in str(raised.value)


def test_spark_describes_tables(with_spark: SparkEngine) -> None:
    assert with_spark.query("describe samples")["col_name"].to_pylist()[:2] == ["key", "kind"]
    assert "samples" in with_spark.query("show tables")["tableName"].to_pylist()
    assert [table.name for table in with_spark.tables()][:2] == ["samples", "latest"]


def test_the_command_with_spark_prints_only_the_result(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([{} for _ in range(30)], 0, "robot"))
    query = "select kind, count(*) as n from samples group by kind order by kind"
    place = ["--lake", lake.location.address, "--format", "csv", "--engine", "spark"]
    command = [sys.executable, "-m", "zenspark", "sql", query, *place]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ended.returncode, ended.stdout) == (0, "kind,n\nDELETE,3\nPUT,27\n")
    assert "ERROR" not in ended.stderr
