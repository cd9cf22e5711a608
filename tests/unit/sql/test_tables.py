"""How a connection reads the tables of a lake."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.lake_samples import numbered
from tests.lake_tables import put_in
from tests.s3 import serving
from zenspark.lake.lake import Lake
from zenspark.sql import Engine
from zenspark.sql.tables import ArrowScan, FileScan, plan_arrow_scan, plan_scan, quote, type_name


def test_files_of_zenspark_are_read_by_the_engine(lake: Lake) -> None:
    scan = plan_scan(lake, "samples")
    assert isinstance(scan, FileScan)
    assert [Path(path).exists() for path in scan.paths] == [True]
    assert isinstance(plan_scan(lake, "latest"), ArrowScan)
    assert isinstance(plan_scan(lake, "counters"), ArrowScan)  # it has no file


@pytest.mark.slow
def test_file_scan_and_arrow_scan_return_the_same_rows(lake: Lake) -> None:
    scan = plan_arrow_scan(lake, "samples")
    assert isinstance(scan, ArrowScan)
    columns = lake.table("samples").spec.schema.names
    read = Engine(lake).query("select * from samples order by recorder, offset").to_pylist()
    assert scan.rows.to_table(columns).sort_by([("recorder", "ascending"), ("offset", "ascending")]).to_pylist() == read


@pytest.mark.slow
def test_files_of_other_tools_may_lack_columns(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([{"key": "a/b", "kind": "PUT"}], 0, "r"))
    samples = lake.table("samples")
    row = (
        lake.dataset("samples")
        .to_table()
        .select(["key", "kind", "received_at", "express", "reliable", "day", "prefix"])
    )
    write_deltalake(samples.location.address, row, mode="append", schema_mode="merge")
    assert isinstance(plan_scan(lake, "samples"), ArrowScan)
    found = Engine(lake).query("select key, recorder, prefix from samples order by recorder").to_pylist()
    assert found == [
        {"key": "a/b", "recorder": None, "prefix": "a"},
        {"key": "a/b", "recorder": "r", "prefix": "a"},
    ]


@pytest.mark.slow
def test_lake_path_with_glob_characters_is_read(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake[1]*")
    put_in(lake, numbered([{"key": "a"}], 0, "r"))
    assert isinstance(plan_scan(lake, "samples"), ArrowScan)
    assert Engine(lake).query("select key from samples")["key"].to_pylist() == ["a"]


@pytest.mark.slow
def test_tables_on_s3_are_queried() -> None:
    with serving() as server:
        lake = Lake(f"s3://{server.bucket()}/lake", server.options)
        put_in(lake, numbered([{"key": "a/b", "kind": "PUT"}, {"key": "a/c", "kind": "PUT"}], 0, "r"))
        engine = Engine(lake)
        assert isinstance(plan_scan(lake, "samples"), ArrowScan)
        assert engine.query("select prefix, count(*) as n from samples group by prefix").to_pylist() == [
            {"prefix": "a", "n": 2}
        ]
        assert engine.query("select key from latest order by key")["key"].to_pylist() == ["a/b", "a/c"]


def test_texts_are_quoted_and_sql_types_are_named() -> None:
    assert quote("it's") == "'it''s'"
    assert [type_name(kind) for kind in (pa.string(), pa.timestamp("us", "UTC"))] == ["varchar", "timestamptz"]
