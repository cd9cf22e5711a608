"""Statements and commands one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lake_samples import numbered
from tests.lake_tables import put_in
from zenspark.cli.result_table import MAX_PRINTED_ROWS
from zenspark.cli.sql_session import Part, Quit, SqlSession, check_one_result, locate_error, run_safely
from zenspark.errors import UsageError
from zenspark.lake.lake import Lake
from zenspark.sql import Engine


@pytest.fixture
def session(tmp_path: Path) -> SqlSession:
    lake = Lake(tmp_path / "lake")
    put_in(lake, numbered([{"key": key, "kind": "PUT"} for key in ("a", "b", "b")], 0, "r"))
    return SqlSession(Engine(lake))


@pytest.mark.slow
def test_complete_statements_are_run_and_the_remainder_is_returned(
    session: SqlSession, capsys: pytest.CaptureFixture[str]
) -> None:
    assert session.feed("select ';' as a; select 2 as b; -- note\n select") == " -- note\n select"[1:]
    assert capsys.readouterr().out == "a\n─\n;\n1 row\nb\n─\n2\n1 row\n"
    assert session.feed("  ;; -- nothing") == ""


@pytest.mark.slow
def test_describe_command_lists_tables_and_columns(session: SqlSession, capsys: pytest.CaptureFixture[str]) -> None:
    session.feed("\\d\n")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:2] == ["samples", "3"]
    assert lines[3].split()[:2] == ["latest", "2"]
    session.feed("\\d gaps;")
    assert capsys.readouterr().out.splitlines()[2].split() == ["source_zid", "varchar"]
    with pytest.raises(UsageError, match="there is no table gasp: did you mean gaps"):
        session.feed("\\d gasp")


@pytest.mark.slow
def test_cards_and_timing_commands_change_the_output(session: SqlSession, capsys: pytest.CaptureFixture[str]) -> None:
    session.feed("\\x\nselect 1 as n;\n\\x off\nselect 1 as n;\n\\x\n\\x auto\n\\timing\nselect 2 as n;")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "cards: on"
    assert lines[2] == "n  1"
    assert lines[4:7] == ["cards: off", "n", "─"]
    assert lines[9:12] == ["cards: on", "cards: auto", "timing: on"]
    assert lines[-1].endswith(" s")
    with pytest.raises(UsageError, match="takes on, off or auto"):
        session.feed("\\x maybe")


def test_unknown_command_is_rejected_with_a_suggestion(session: SqlSession) -> None:
    with pytest.raises(UsageError, match=r"there is no command \\timin: did you mean \\timing\?"):
        session.feed("\\timin")
    with pytest.raises(UsageError, match="shows them all"):
        session.feed("\\zzzzz")


def test_quit_ends_a_script(session: SqlSession, capsys: pytest.CaptureFixture[str]) -> None:
    session.run_script("\\?\n\\q\nselect 1;")
    assert capsys.readouterr().out.splitlines()[-1].startswith("A statement ends")
    with pytest.raises(Quit):
        session.feed("\\q")
    with pytest.raises(UsageError, match="the statement is empty"):
        session.run_script(" -- nothing")


def test_at_a_prompt_errors_are_printed(session: SqlSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_safely(session, "selct 1; select 2;") == ""
    assert capsys.readouterr().err.startswith("error: syntax error")


def test_a_table_has_a_limited_number_of_rows(session: SqlSession, capsys: pytest.CaptureFixture[str]) -> None:
    session.run_query(f"select * from range({MAX_PRINTED_ROWS + 1})")
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"the first {MAX_PRINTED_ROWS} rows; --format csv gives all"
    assert lines[-2] == f"{MAX_PRINTED_ROWS} rows"


@pytest.mark.parametrize("script", ["", "select 1", "\\timing\nselect 1; -- one\n;", "select 1;\n\\q\nselect 2;"])
def test_script_with_at_most_one_result_is_accepted(script: str) -> None:
    check_one_result(script)


@pytest.mark.parametrize("script", ["select 1; select 2", "\\d\nselect 1;", "select 1;\n\\x\nselect 2"])
def test_script_with_several_results_is_rejected(script: str) -> None:
    with pytest.raises(UsageError, match="takes one statement, found 2"):
        check_one_result(script)


def test_errors_of_both_engines_have_the_line_of_the_file() -> None:
    script = "select 1;\nselect 2; select\nx y z"
    part = Part(script.index("select\n"), "select\nx y z")
    assert locate_error("wrong", part, script, "a.sql") == "a.sql:2: wrong"
    expected = "a.sql:3: wrong (position 5); hint"
    assert locate_error("wrong (line 2, position 5); hint", part, script, "a.sql") == expected
    assert locate_error("wrong. (line 1, pos 0)", part, script, "a.sql") == "a.sql:2: wrong. (pos 10)"
