import re
import threading

import pytest

from tests.unit.cli.terminals import use_terminal
from zenspark.cli import status_line
from zenspark.cli.status_line import CLEAR, StatusLine, stamp_parts, write_line


def test_a_terminal_shows_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    with StatusLine() as line:
        line.show("1 row", "connected 1 of 1")
        line.show("2 rows")
        line.end("3 rows in all")
    assert terminal.getvalue() == f"1 row | connected 1 of 1{CLEAR}2 rows{CLEAR}3 rows in all\n"


def test_lines_are_written_above_the_status_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    with StatusLine() as line:
        line.show("status")
        write_line("a log line", terminal)
    write_line("after")
    assert terminal.getvalue() == f"status{CLEAR}a log line\nstatus{CLEAR}after\n"


def test_writers_of_many_threads_never_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    with StatusLine() as line:

        def write(name: str) -> None:
            for number in range(50):
                write_line(f"{name}{number}")
                line.show(f"status of {name}")

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    written = [each.rpartition(CLEAR)[2] for each in terminal.getvalue().split("\n")]
    assert sorted(each for each in written if each) == sorted(
        f"{name}{number}" for name in "abcd" for number in range(50)
    )


def test_status_line_is_cut_to_the_terminal_width(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "12")
    line = StatusLine()
    line.show("0123456789", "abcdefghi")
    line.end()
    assert terminal.getvalue() == f"0123456789…{CLEAR}"


def test_parts_have_styles_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    line = StatusLine()
    line.show(("connected 0 of 1", "red"))
    line.end()
    assert "\x1b[31mconnected 0 of 1\x1b[0m" in terminal.getvalue()


def test_status_without_a_terminal_is_printed_at_the_log_interval(capsys: pytest.CaptureFixture[str]) -> None:
    line = StatusLine(log_seconds=3600.0)
    line.show(("first", "red"), "part")
    line.show("too soon")
    line.end("end")
    assert capsys.readouterr().out == "first | part\nend\n"
    with StatusLine() as silent:
        silent.show("nothing")
    assert capsys.readouterr().out == ""


def test_a_quiet_command_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    with StatusLine(log_seconds=0.0, is_enabled=False) as line:
        line.show("status")
    assert terminal.getvalue() == ""


def test_ended_status_lines_are_unregistered(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    outer = StatusLine()
    with StatusLine():
        pass
    outer.end()
    assert status_line._open_lines == []


def test_lines_of_a_log_have_date_and_time() -> None:
    first, second = stamp_parts([("connected 0 of 1", "red"), "5 rows"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d connected 0 of 1", first[0])
    assert (first[1], second) == ("red", "5 rows")
    assert stamp_parts(["5 rows"])[0][0].endswith(" 5 rows")
