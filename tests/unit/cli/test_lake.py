"""`zenspark lake`: what it shows, and what it does without Spark."""

from __future__ import annotations

import json
import tarfile
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from tests.unit.lake.tables import written
from tests.unit.spark.ingest.test_upgrade import ARCHIVE
from zenspark.cli import lake as command
from zenspark.cli import main
from zenspark.lake.delta_table import Transaction
from zenspark.lake.lake import TABLE_SPECS
from zenspark.spark.lake import Lake


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert main(["lake", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    made.create()
    table = made.table("samples")
    table.commit(
        Transaction(add=written(table, "x", [{"key": "a", "recorder": "r", "offset": 0}]), app_versions={"offset:r": 1})
    )
    return made


def test_status_shows_tables_and_offsets(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    first, *lines = run(capsys, "status", lake.location.address)
    assert first.endswith("lake: format version 2")
    assert [line.split()[:4] for line in lines if "samples" in line] == [["samples", "1", "rows", "1"]]
    assert lines[-1].strip() == "recorder r: ingested up to offset 1"


@pytest.mark.slow
def test_an_old_lake_is_upgraded_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    (first, second) = run(capsys, "upgrade", tmp_path / "lake")
    assert first.startswith("format version 1 is now 2: ")
    assert second.startswith("latest, gaps and traffic follow")
    assert run(capsys, "upgrade", tmp_path / "lake")[0].endswith("has format version 2: nothing to do")


def test_vacuum_removes_what_no_snapshot_needs(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    table = lake.table("samples")
    table.commit(Transaction(remove=table.files))
    assert run(capsys, "vacuum", lake.location.address) == ["0 files removed"]
    assert run(capsys, "vacuum", "--retain", "0s", lake.location.address) == ["1 file removed"]


def test_every_table_of_a_lake_can_be_exported() -> None:
    assert set(command.TABLES) == set(TABLE_SPECS)


def test_nothing_in_quarantine(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "quarantine", lake.location.address) == ["quarantine is empty"]
    assert run(capsys, "retry", lake.location.address) == ["0 rows ingested", "quarantine is empty"]


def test_rules_are_read(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert command._parse_rule("a=b/**=7d").age == timedelta(days=7)
    assert command._parse_rule("a/*=forever").age is None
    assert main(["lake", "expire", lake.location.address]) == 2
    assert main(["lake", "expire", lake.location.address, "--rule", "x"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "zenspark lake: nothing to remove: give --age, --bytes or --rule",
        "zenspark lake: --rule: expected KEYEXPR=DURATION, found 'x'",
    ]


def test_a_place_without_a_lake_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lake", "status", str(tmp_path / "none")]) == 2
    assert "there is no lake here" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_info_is_json_for_scripts(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = run(capsys, "info", lake.location.address, "--json")
    document = json.loads(line)
    assert document["recorders"] == {"r": 1}
    assert document["tables"][0] == {"name": "samples", "rows": 1, "files": 1} | document["tables"][0]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_a_table_is_exported(format: str, lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / f"rows.{format}"
    place = lake.location.address
    assert run(capsys, "export", place, target, "-k", "*") == [f"1 row exported to {target}"]
    with duckdb.connect() as connection:
        assert connection.execute(f"select key from '{target}'").fetchall() == [("a",)]
    nothing = ("--force", "--to", "1971-01-01T00:00:00Z")
    assert run(capsys, "export", place, target, *nothing) == [f"0 rows exported to {target}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["x.csv", "--table", "traffic", "-k", "a"], "has no column key"),
        (["x.csv", "--table", "gaps", "--from", "2026-01-01T00:00:00Z"], "has no column received_at"),
        (["x.csv", "--from", "17"], "expected a time"),
        (["x.xls"], "expected a name that ends in"),
    ],
)
def test_invalid_export_arguments_are_a_one_line_error(
    arguments: list[str],
    problem: str,
    lake: Lake,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["lake", "export", lake.location.address, *arguments]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
