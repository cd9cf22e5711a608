"""Arguments and output of `zenspark sql`; tests/spark/test_sql.py compares the engines."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.lake_samples import numbered
from tests.lake_tables import put_in
from zenspark.cli import main
from zenspark.cli.sql import parser
from zenspark.lake.lake import Lake

QUERY = "select key, count(*) as n from samples group by key order by key"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("sql") / "lake"
    put_in(Lake(path), numbered([{"key": key, "kind": "PUT"} for key in ("a", "a", "b")], 0, "r"))
    return str(path)


def test_where_there_is_no_lake_nothing_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "select 1", "--lake", str(tmp_path / "none")]) == 2
    assert "there is no lake here; zenspark up makes one" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_pipe_gets_a_table(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", QUERY, "--lake", place]) == 0
    assert capsys.readouterr().out == "key  n\n───  ─\na    2\nb    1\n2 rows\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("csv", "key,n\na,2\nb,1\n"),
        ("json", '[\n{"key": "a", "n": 2},\n{"key": "b", "n": 1}\n]\n'),
        ("jsonl", '{"key": "a", "n": 2}\n{"key": "b", "n": 1}\n'),
    ],
)
def test_format_flag_selects_csv_json_or_jsonl(
    place: str, capsys: pytest.CaptureFixture[str], name: str, wanted: str
) -> None:
    assert main(["sql", QUERY, "--lake", place, "--format", name]) == 0
    assert capsys.readouterr().out == wanted


@pytest.mark.slow
def test_statements_of_a_file(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "queries.sql"
    script.write_text("-- two statements\nselect 1 as a;\nselect 'x;y' as b;\n")
    assert main(["sql", "-f", str(script), "--lake", place, "--format", "csv"]) == 0
    assert capsys.readouterr().out == "a\n1\nb\nx;y\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("select 1 as a;\n\n-- wrong\nselct 2;", ':4: syntax error at or near "selct" (position 1)'),
        ("select 1 as a; select\n  2 3 4;", ':2: syntax error at or near "3" (position 5)'),
        (
            "select 1 as a;\n\n/* two\nlines */ select * from sampels",
            ":4: there is no table sampels: did you mean samples?",
        ),
        ("select 1 as a;\n\\timin\n", ":2: there is no command \\timin: did you mean \\timing?"),
    ],
)
def test_an_error_in_a_script_has_its_file_and_line(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str, expected: str
) -> None:
    path = tmp_path / "bad.sql"
    path.write_text(script)
    assert main(["sql", "-f", str(path), "--lake", place, "--format", "csv"]) == 2
    assert capsys.readouterr() == ("a\n1\n", f"zenspark sql: {path}{expected}\n")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["-f", "-"]])
def test_an_error_on_standard_input_has_its_line(
    place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("select 1 as a;\nselct 2"))
    assert main(["sql", *arguments, "--lake", place, "--format", "csv"]) == 2
    expected = 'zenspark sql: standard input:2: syntax error at or near "selct" (position 1)\n'
    assert capsys.readouterr() == ("a\n1\n", expected)


@pytest.mark.parametrize("arguments", [[], ["-f", "-"], ["select 1; select 2"]])
def test_a_parquet_file_has_one_result(
    place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("select 1; select 2"))
    monkeypatch.setattr("zenspark.cli.sql._open_engine", None)  # no engine is started for it
    assert main(["sql", *arguments, "--lake", place, "--format", "parquet"]) == 2
    expected = "zenspark sql: --format parquet takes one statement, found 2: a file has one result\n"
    assert capsys.readouterr() == ("", expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["select 1", "-f", "x"], "expected a query or --file, found both"),
        (["--watch", "1"], "--watch needs a query"),
        (["select 1", "--watch", "0"], "expected a number of seconds above 0"),
        (["select 1", "--watch", "soon"], "expected a number of seconds above 0"),
        (["select 1", "--engine", "embedded", "--master", "local"], "--master is for Spark"),
        (["select 1", "--watch", "1", "--format", "parquet"], "--watch cannot write Parquet"),
        (["-f", "nowhere.sql"], "nowhere.sql: No such file or directory"),
        (["selct 1"], 'syntax error at or near "selct" (line 1, position 1)'),
        (["select * from sampels"], "there is no table sampels: did you mean samples?"),
        (["select kee from samples"], "there is no column kee: did you mean key?"),
        (["drop table samples"], "only read-only SQL is allowed"),
        ([""], "the statement is empty"),
    ],
)
def test_an_error_is_one_line(
    place: str, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert main(["sql", *arguments, "--lake", place]) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def run(place: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "zenspark", "sql", "--lake", place, *arguments]
    return subprocess.run(command, input=given.encode(), capture_output=True, check=False, cwd=Path(place).parent)


@pytest.mark.slow
def test_the_program_needs_no_spark_and_no_pandas(place: str) -> None:
    code = (
        "import sys; sys.argv = ['zenspark', 'sql']; from zenspark.cli import main;"
        f"main(['sql', {QUERY!r}, '--lake', {place!r}]);"
        f"main(['sql', 'select key from latest', '--lake', {place!r}]);"
        "print({name for name in ('pyspark', 'pandas', 'py4j') if name in sys.modules})"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    assert ended.stdout.splitlines()[-1] == "set()"


@pytest.mark.slow
def test_statements_on_standard_input(place: str) -> None:
    ended = run(place, "--format", "jsonl", given="select 1 as a;\n\\timing\nselect 2\n  as b")
    assert ended.returncode == 0, ended.stderr
    assert [json.loads(line) for line in ended.stdout.decode().splitlines()] == [{"a": 1}, {"b": 2}]
    assert ended.stderr.decode().splitlines()[0] == "timing: on"


@pytest.mark.slow
def test_an_error_in_a_script_ends_it(place: str) -> None:
    ended = run(place, "--format", "csv", given="select 1 as a; selct 2; select 3 as c;")
    assert (ended.returncode, ended.stdout) == (2, b"a\n1\n")
    expected = b'zenspark sql: standard input:1: syntax error at or near "selct" (position 16)\n'
    assert ended.stderr == expected


@pytest.mark.slow
def test_results_are_printed_before_the_error_of_a_later_statement(place: str) -> None:
    command = [sys.executable, "-m", "zenspark", "sql", "--lake", place, "--format", "csv", "select 1 as a; selct 2"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert ended.stdout.startswith(b"a\n1\nzenspark sql: syntax error")


@pytest.mark.slow
def test_parquet_in_a_pipe(place: str, tmp_path: Path) -> None:
    ended = run(place, "select * from samples", "--format", "parquet")
    assert ended.returncode == 0, ended.stderr
    (tmp_path / "result.parquet").write_bytes(ended.stdout)
    (count,) = duckdb.execute(f"select count(*) from '{tmp_path / 'result.parquet'}'").fetchall()[0]
    assert count == 3


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("query", ["select 7 as n", "select 7 as n; select max(range) from range(1000000000000)"])
def test_watch_runs_until_it_is_interrupted(place: str, query: str, number: signal.Signals) -> None:
    """Also while a query that takes hours is within the engine."""
    command = [sys.executable, "-m", "zenspark", "sql", query, "--lake", place, "--watch", "0.01"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
    try:
        assert process.stdout is not None
        wanted = 1 if ";" in query else 3
        while wanted:
            line = process.stdout.readline()
            assert line, "it ended"
            wanted -= line == b"7\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, errors) == (0, b"")


def test_help_names_the_tables() -> None:
    assert "samples, latest, gaps, traffic" in parser().format_help()
