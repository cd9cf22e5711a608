"""Queries and their results; tests/spark/test_sql.py compares results with those of Spark."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from tests.lake_samples import numbered
from tests.lake_tables import put_in
from tests.rows import EPOCH
from zenspark.errors import LakeError, UsageError
from zenspark.lake.lake import Lake
from zenspark.sql import Engine
from zenspark.sql.engine import read_table


def test_tables_are_described(engine: Engine) -> None:
    tables = {table.name: table for table in engine.tables()}
    assert list(tables) == ["samples", "latest", "gaps", "traffic", "sessions", "declarations", "counters"]
    samples = tables["samples"]
    assert (samples.rows, samples.files) == (30, 1)
    assert samples.bytes > 1000
    types = {column.name: column.type for column in samples.columns}
    assert types["key"] == "varchar"
    assert types["payload"] == "blob"
    assert types["received_at"] == "timestamptz"
    assert types["day"] == "date"
    assert tables["latest"].rows is None  # nothing is published: only a query counts them
    assert tables["declarations"].rows == 3


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select count(*) as n from samples", [{"n": 30}]),
        ("select count(*) as n from latest", [{"n": 2}]),
        ("select sum(messages) as n, sum(bytes) as b from traffic", [{"n": 30, "b": 207}]),
        ("select count(*) as n from gaps", [{"n": 0}]),
        ("select count(*) as n from sessions", [{"n": 2}]),
        ("select count(*) as n from SAMPLES;", [{"n": 30}]),
        ("/* a comment */ select 1 as n -- and another", [{"n": 1}]),
        ("with samples as (select 7 as n) select n from samples", [{"n": 7}]),
        ("values (1, 'a')", [{"col0": 1, "col1": "a"}]),
        ("select x from generate_series(1, 2) t(x)", [{"x": 1}, {"x": 2}]),
        ("select prefix, cast(day as varchar) as day from samples limit 1", [{"prefix": "fleet", "day": "2023-11-14"}]),
        ("select offset from samples order by offset desc limit 1 offset 2", [{"offset": 27}]),
        ("select `key`, s.`offset` from samples s where offset = 3", [{"key": "fleet/r0/pose", "offset": 3}]),
    ],
)
def test_query_returns_expected_rows(engine: Engine, query: str, expected: list[dict[str, object]]) -> None:
    assert engine.query(query).to_pylist() == expected


def test_functions_on_keys_payloads_and_times(engine: Engine) -> None:
    query = """select key, zenoh_decode_payload(encoding, payload) as value, zenoh_intersects(key, 'fleet/**') as a,
                         zenoh_includes('fleet/r1/*', key) as b, try_zenoh_key_match(key, 'a//b') as c,
                         zenoh_ntp64_to_timestamp(timestamp_ntp64) as t
                  from latest where zenoh_key_match(key, 'fleet/*/pose') order by key limit 1"""
    (row,) = engine.query(query).to_pylist()
    time = datetime.fromtimestamp(EPOCH // 1_000_000, UTC)
    assert row.pop("t").replace(microsecond=0) == time
    assert row == {"key": "fleet/r0/pose", "value": "value 27", "a": True, "b": False, "c": None}


def test_ntp64_function_accepts_unsigned_signed_and_null(engine: Engine) -> None:
    query = """select zenoh_ntp64_to_timestamp(17179869184000000000) as a,
                         zenoh_ntp64_to_timestamp(-1266874889709551616) as b,
                         zenoh_ntp64_to_timestamp(null) as c, zenoh_key_match(null, 'a') as d"""
    (row,) = engine.query(query).to_pylist()
    assert row["a"] == row["b"] == datetime.fromtimestamp(4_000_000_000, UTC)
    assert (row["c"], row["d"]) == (None, None)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from sampels", "there is no table sampels: did you mean samples?"),
        ("select kee from samples", "there is no column kee: did you mean key?"),
        ("select s.kee from samples s", "there is no column kee: did you mean key?"),
        ("select zenoh_key_mach(key, 'a') from samples", "no function zenoh_key_mach: did you mean zenoh_key_match?"),
        ("selct 1", 'syntax error at or near "selct" (line 1, position 1)'),
        ("select offset, offset frm samples", 'at or near "samples" (line 1, position 27)'),
        ("select 1,\n  2 from from", 'syntax error at or near "from" (line 2, position 10)'),
        ("select key from samples where zenoh_key_match(key, 'a//b')", "key expression 'a//b', position 2"),
        ("select cast('x' as int)", "Could not convert string 'x' to INT32"),
        ("", "the statement is empty"),
        ("select ?", "a query has no parameters"),
    ],
)
def test_an_error_is_one_line(engine: Engine, query: str, expected: str) -> None:
    with pytest.raises(UsageError) as raised:
        engine.query(query)
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)


def test_member_of_a_json_payload_is_extracted(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    rows = [{"key": "lab/oven/state", "kind": "PUT", "payload": b'{"celsius": 181.5}', "encoding": "application/json"}]
    put_in(lake, numbered(rows, 0, "r"))
    query = "select decode(payload)->>'celsius' as a, (decode(payload)->>'celsius')::double as b from samples"
    assert Engine(lake).query(query).to_pylist() == [{"a": "181.5", "b": 181.5}]


def test_sums_and_times_have_the_types_of_spark(engine: Engine) -> None:
    found = engine.query("select sum(offset) as s, max(received_at) as t, avg(offset) as a from samples").schema
    assert [field.type for field in found] == [pa.int64(), pa.timestamp("us", "UTC"), pa.float64()]


def test_nulls_are_ordered_as_in_spark(engine: Engine) -> None:
    rows = "(values (1), (null), (2)) t(x)"
    assert engine.query(f"select x from {rows} order by x")["x"].to_pylist() == [None, 1, 2]
    assert engine.query(f"select x from {rows} order by x desc")["x"].to_pylist() == [2, 1, None]


@pytest.mark.slow
def test_no_more_rows_than_the_limit(engine: Engine) -> None:
    assert engine.query("select * from range(100000)", limit=5).num_rows == 5
    assert engine.query("select * from range(3)", limit=5).num_rows == 3
    assert engine.query("select * from range(3)", limit=0).num_rows == 0


@pytest.mark.slow
def test_a_long_query_is_interrupted(engine: Engine) -> None:
    with pytest.raises(UsageError, match=r"took longer than 0\.3 s"):
        engine.query(
            "select count(*) from range(10000000000) a, range(1000) b where a.range % 7 = b.range", timeout=0.3
        )


def test_a_query_that_needs_too_much_memory_fails(lake: Lake) -> None:
    with pytest.raises(UsageError, match=r"the query failed: .*memory"):
        Engine(lake, memory_limit="20MB").query("select list(range) from range(100000000)")


@pytest.mark.slow
def test_query_sees_rows_committed_before_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([{"key": "a", "kind": "PUT"}], 0, "r"))
    engine = Engine(lake)
    assert engine.query("select key from latest")["key"].to_pylist() == ["a"]
    put_in(lake, numbered([{"key": "b", "kind": "PUT"}], 1, "r"))
    assert engine.query("select key from latest order by key")["key"].to_pylist() == ["a", "b"]
    assert engine.query("select count(*) as n from samples")["n"].to_pylist() == [2]


@pytest.mark.slow
def test_queries_of_several_threads_are_independent(engine: Engine) -> None:
    found: list[int] = []

    def run_query(number: int) -> None:
        found.append(engine.query(f"select count(*) + {number} as n from latest")["n"][0].as_py())

    threads = [threading.Thread(target=run_query, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(2, 10))


def test_a_result_is_read_batch_by_batch(engine: Engine) -> None:
    with engine.open("select * from range(50000)") as reader:
        assert read_table(reader, 3).num_rows == 3


def test_errors_raised_by_the_reader_are_not_wrapped(engine: Engine) -> None:
    with pytest.raises(BrokenPipeError), engine.open("select 1"):
        raise BrokenPipeError


def test_an_error_in_a_later_row_is_one_line(engine: Engine) -> None:
    query = "select case when range < 90000 then '1' else 'x' end::int as n from range(100000)"
    with pytest.raises(UsageError, match="Could not convert string 'x' to INT32"):
        engine.query(query)


def test_query_without_lake_raises_and_creates_nothing(tmp_path: Path) -> None:
    engine = Engine(Lake(tmp_path / "none"))
    with pytest.raises(LakeError, match="there is no lake here"):
        engine.query("select 1")
    assert engine.tables() == []
    assert not (tmp_path / "none").exists()
