"""`zenspark sql`: results and errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.lakes import Ingester, plain, rows_from
from zenspark.cli.sql import errors_as_one_line, run_query
from zenspark.errors import UsageError
from zenspark.spark.lake import Lake

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("sql") / "lake")
    Ingester(spark, lake).ingest(rows_from(0, 30))
    return lake


def test_a_query_sees_the_tables_and_the_functions(spark: SparkSession, lake: Lake) -> None:
    query = """select key, zenoh_decode_payload(encoding, payload) as value from latest
               where zenoh_key_match(key, 'fleet/*/pose') order by key limit 2"""
    assert plain(run_query(spark, lake, query)) == [
        {"key": "fleet/r0/pose", "value": "value 28"},
        {"key": "fleet/r2/pose", "value": "value 23"},
    ]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select * from sampels", "there is no table sampels: did you mean samples?"),
        ("select kee from samples", "there is no column kee; there are key, "),
        ("selct 1", "Syntax error at or near 'selct'"),
        ("select raise_error('no') from samples", "the query failed: "),
    ],
)
def test_usage_error_is_one_line(spark: SparkSession, lake: Lake, query: str, said: str) -> None:
    with pytest.raises(UsageError) as raised, errors_as_one_line():
        run_query(spark, lake, query).collect()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_command_prints_the_answer_and_nothing_else(lake: Lake) -> None:
    query = "select kind, count(*) as n from samples group by kind order by kind"
    command = [sys.executable, "-m", "zenspark", "sql", query, "--lake", lake.location.address, "--format", "csv"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=Path(lake.location.address), check=False)
    assert (ended.returncode, ended.stdout) == (0, "kind,n\nDELETE,3\nPUT,27\n")
    assert "ERROR" not in ended.stderr
