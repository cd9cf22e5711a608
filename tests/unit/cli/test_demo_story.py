from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from tests.unit.lake.tables import written
from zenspark.api.ext.serialization import Float32, z_serialize
from zenspark.cli.demo_story import (
    Demo,
    _format_cell,
    find_command,
    format_next_steps,
    format_samples_title,
    format_value,
    make_table,
    read_snapshot,
)
from zenspark.cli.screen import Screen
from zenspark.errors import LakeError, UsageError
from zenspark.lake.delta_table import Transaction
from zenspark.lake.lake import Lake


class NodeWithoutListeners:
    """What a demo reads of a job at first; this one listens nowhere."""

    @property
    def session(self) -> NodeWithoutListeners:
        return self

    @property
    def info(self) -> NodeWithoutListeners:
        return self

    def locators(self) -> list[str]:
        return []


def test_a_fleet_needs_a_node_that_listens() -> None:
    with pytest.raises(UsageError, match="--listen"):
        Demo(NodeWithoutListeners(), Screen())  # type: ignore[arg-type]  # all it uses of a job here


def test_cells_are_formatted_by_their_column() -> None:
    time = datetime(2026, 11, 16, 3, 4, 5, 678_900, UTC)
    row = {"payload": b"{}", "encoding": "application/json", "timestamp": time, "minute": time, "none": None}
    assert _format_cell(row, "payload") == "{}"
    assert _format_cell(row, "timestamp") == "03:04:05"
    assert _format_cell(row, "minute") == "03:04"
    assert _format_cell(row, "none") == ""
    assert _format_cell({"latency": 12.7}, "latency") == "13"
    assert _format_cell({"count": 5}, "count") == "5"


def test_a_narrow_screen_cuts_the_value_and_nothing_else() -> None:
    row = {"key": "fleet/ant/battery", "payload": b'{"x": 10.91, "y": 6.0, "heading": 180, "speed": 0.9}'}
    rows = [row | {"encoding": "application/json", "timestamp": datetime(2026, 11, 16, 17, 31, 20, tzinfo=UTC)}]
    for width in (60, 80, 200):
        shown = io.StringIO()
        Console(file=shown, width=width).print(make_table(rows))
        line = shown.getvalue().splitlines()[1]
        assert line.startswith("fleet/ant/battery  {")
        assert line.rstrip().endswith("17:31:20")
        assert ("…" in line) == (width < 200)


def test_values_are_decoded() -> None:
    assert format_value(b"\x00\x01", "image/jpeg") == "JPEG picture, 2 bytes"
    assert format_value(z_serialize(Float32(99.5)).to_bytes(), "zenoh/serialized;float32") == "99.50"


def test_title_counts_rows_of_this_run_separately() -> None:
    title = "samples: every message, as it was published"
    assert format_samples_title(1333, 0) == f"{title} (1333 rows)"
    assert format_samples_title(2000, 1333) == f"{title} (2000 rows, 667 of this run)"
    assert format_samples_title(1000, 1333) == f"{title} (1000 rows)"  # earlier ones have expired


def test_next_steps_fit_into_80_columns() -> None:
    steps = format_next_steps("tcp/127.0.0.1:7447", "build/lake", "http://127.0.0.1:8000/")
    lines = [line for step in steps for line in step[1:]]
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for word in ("import zenoh", "zenspark sub", "curl 'http://127.0.0.1:8000/fleet/", "duckdb", "zenspark sql"):
        assert word in text
    assert not any("curl" in line for step in format_next_steps("tcp/x:1", "lake", None) for line in step)


def test_next_steps_mark_duckdb_as_not_installed_by_zenspark() -> None:
    titles = [step[0] for step in format_next_steps("tcp/127.0.0.1:7447", "lake", None)]
    (duckdb,) = [title for title in titles if title.startswith("DuckDB")]
    assert "not installed by zenspark" in duckdb


def test_command_outside_of_path_is_shown_with_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "zenspark").write_text("")
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    assert find_command() == "bin/zenspark"
    monkeypatch.chdir("/")
    assert find_command() == f"{tmp_path}/bin/zenspark".removeprefix("/")
    steps = format_next_steps("tcp/127.0.0.1:7447", "lake", None, "bin/zenspark")
    assert "bin/zenspark sub " in str(steps)
    (tmp_path / "bin" / "zenspark").unlink()
    assert find_command() == "zenspark"


@pytest.mark.slow
def test_a_snapshot_has_only_rows_that_the_derived_tables_have(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    with pytest.raises(LakeError):
        read_snapshot(lake)
    assert not (tmp_path / "lake").exists()
    lake.create()
    rows = [{"key": "a", "recorder": "r", "offset": offset} for offset in range(3)]
    samples = lake.table("samples")
    samples.commit(Transaction(add=written(samples, "x", rows), app_versions={"offset:r": 3}))
    for name in ("latest", "traffic"):
        table = lake.table(name)
        table.commit(Transaction(app_versions={"offset:r": 2}))
    found = read_snapshot(lake)
    assert found.rows == 2
    assert [row["key"] for row in found.samples] == ["a", "a"]
    assert (found.latest, found.traffic) == ([], [])
