"""What is not a query about the lake is refused, however it is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from zenspark.errors import UsageError
from zenspark.lake.lake import Lake
from zenspark.sql import Engine
from zenspark.sql.connection import connect, register_functions, register_tables
from zenspark.sql.statement import parse_statement
from zenspark.sql.tables import plan_scan

STATEMENTS = [
    "create table t (a int)",
    "create table t as select * from samples",
    "create or replace view samples as select 1",
    "create macro m(a) as a",
    "create temp table t as select 1",
    "create sequence s",
    "create secret s (type s3)",
    "create schema s",
    "create type t as enum ('a')",
    "drop table samples",
    "drop view if exists samples",
    "alter table samples rename to x",
    "insert into samples select * from samples",
    "update samples set key = 'a'",
    "delete from samples",
    "truncate samples",
    "merge into samples using latest on true when matched then delete",
    "copy samples to '{out}'",
    "copy (select 1) to '{out}' (format csv)",
    "copy samples from '{secret}'",
    "export database '{out}'",
    "import database '{out}'",
    "attach '{out}'",
    "attach '{out}' as other (read_only)",
    "detach memory",
    "use memory",
    "pragma database_list",
    "pragma enable_profiling",
    "pragma table_info('samples')",
    "call pragma_version()",
    "set threads = 1",
    "set enable_external_access = true",
    "reset enable_external_access",
    "set allowed_directories = ['/']",
    "set variable x = 1",
    "install httpfs",
    "force install httpfs",
    "load httpfs",
    "load '{out}'",
    "begin",
    "commit",
    "rollback",
    "abort",
    "checkpoint",
    "vacuum",
    "analyze",
    "prepare p as select 1",
    "execute p",
    "deallocate p",
    "explain analyze copy samples to '{out}'",
    "explain analyze delete from samples",
    "comment on view samples is 'x'",
    "/* select */ drop view samples",
    "-- select\ncopy samples to '{out}'",
    "with x as (delete from samples returning *) select * from x",
    "with x as (insert into samples select * from samples returning *) select * from x",
    "with x as (update samples set key = 'a' returning *) select * from x",
    "with x as (select 1) delete from samples",
    "with x as (select 1) insert into samples select * from samples",
    "select 1; drop view samples",
    "select 1; copy samples to '{out}'",
    ";;select 1; select 2;",
    "select * from read_csv('{secret}')",
    "select * from read_csv_auto('{secret}')",
    "select * from read_parquet('{secret}')",
    "select * from parquet_scan('{secret}')",
    "select * from parquet_metadata('{secret}')",
    "select * from read_json('{secret}')",
    "select * from read_ndjson('{secret}')",
    "select * from read_text('{secret}')",
    "select * from read_blob('{secret}')",
    "select * from sniff_csv('{secret}')",
    "select * from glob('/*')",
    "select * from '{secret}'",
    'select * from "{secret}"',
    "from '{secret}'",
    "from read_text('{secret}')",
    "select (select content from read_text('{secret}'))",
    "select * from samples where key in (select word from read_csv('{secret}'))",
    "with x as (from read_csv('{secret}')) select * from x",
    "select * from samples, lateral (select * from read_text('{secret}'))",
    "select * from samples union all by name select * from read_csv('{secret}')",
    "select * from query('select * from read_text(''{secret}'')')",
    "select * from query_table('{secret}')",
    "select * from query_table(['samples'])",
    "describe select * from '{secret}'",
    "summarize '{secret}'",
    "select * from READ_TEXT('{secret}')",
    "select * from main.read_text('{secret}')",
    "select * from system.main.read_text('{secret}')",
    "select * from read_csv('http://127.0.0.1:9/x')",
    "select * from 'http://127.0.0.1:9/x.parquet'",
    "select * from 's3://bucket/x.parquet'",
    "select * from read_parquet('s3://bucket/x')",
    "select * from delta_scan('{secret}')",
    "select * from iceberg_scan('{secret}')",
    "select * from sqlite_scan('{secret}', 't')",
    "select * from arrow_scan(1, 2, 3)",
    "select * from python_map_function(1)",
    "select * from pandas_scan(1)",
    "select * from duckdb_settings()",
    "select * from duckdb_secrets()",
    "select * from duckdb_extensions()",
    "select * from information_schema.tables",
    "select * from memory.main.samples",
    "select * from pg_catalog.pg_settings",
    "select getenv('HOME')",
    "select current_setting('home_directory')",
    "select nextval('s')",
    "select sleep_ms(1000)",
    "select write_log('x')",
    "select getvariable('x')",
    "show databases",
    "show all tables from memory",
    "pivot samples on kind using count(*)",
    "select $1",
    "select $name",
]


@pytest.fixture(scope="module")
def engine_after_rejections(engine: Engine) -> Iterator[Engine]:
    """An engine that runs queries also after all that it has refused."""
    yield engine
    assert engine.query("select count(*) as n from samples")["n"].to_pylist() == [30]


@pytest.mark.slow
@pytest.mark.parametrize("statement", STATEMENTS)
def test_statement_that_is_not_a_read_only_query_is_rejected(
    engine_after_rejections: Engine, secret: Path, tmp_path: Path, statement: str
) -> None:
    text = statement.replace("{secret}", str(secret)).replace("{out}", str(tmp_path / "out"))
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(UsageError) as raised:
        engine_after_rejections.query(text)
    assert "\n" not in str(raised.value)
    assert "xyzzy" not in str(raised.value)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_csv('{secret}')",
        "select * from read_text('{secret}')",
        "select * from read_text('{lake}/samples/../../secret.csv')",
        "select * from glob('/*')",
        "select * from '{secret}'",
        "copy samples to '{out}'",
        "export database '{out}'",
        "attach '{out}'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "set allowed_paths = ['{secret}']",
        "create table t as select 1",
        "create view v as select 1",
        "create macro m(a) as a",
        "drop view samples",
    ],
)
def test_connection_rejects_writes_and_file_access_without_statement_check(
    lake: Lake, secret: Path, tmp_path: Path, statement: str
) -> None:
    """The second and third barrier: no file but those of the tables, and a transaction that only reads."""
    text = statement.format(secret=secret, out=tmp_path / "out", lake=lake.location.address)
    connection = connect()
    try:
        register_functions(connection)
        register_tables(connection, {"samples": plan_scan(lake, "samples")})
        with pytest.raises(duckdb.Error):
            connection.execute(text).fetchall()
    finally:
        connection.close()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("select 1", set()),
        ("select * from samples", {"samples"}),
        ("select * from Samples s join LATEST using (key)", {"samples", "latest"}),
        ("select (select max(minute) from traffic)", {"traffic"}),
        ("with x as (select * from gaps) select * from x", {"gaps", "x"}),
        ("describe sessions", {"sessions"}),
        ("select 'from declarations'", set()),
        ("select * from samples where exists (from latest where latest.key = samples.key)", {"samples", "latest"}),
        ("select key from samples union select key from latest", {"samples", "latest"}),
    ],
)
def test_parsed_statement_has_its_table_names(text: str, tables: set[str]) -> None:
    connection = connect()
    try:
        assert parse_statement(connection, text).tables == tables
    finally:
        connection.close()


@pytest.mark.slow
def test_show_describe_and_summarize_are_allowed(engine: Engine) -> None:
    assert engine.query("show tables")["name"].to_pylist()[:2] == ["samples", "latest"]
    assert engine.query("describe samples")["column_name"].to_pylist()[:2] == ["key", "kind"]
    assert engine.query("summarize select offset from samples")["max"].to_pylist() == ["29"]
