"""The prompt of `zenspark sql`, also in a real terminal (tmux)."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from tests.lake_samples import numbered
from tests.lake_tables import put_in
from tests.tmux import TmuxTerminal, zenspark_on_terminal
from zenspark.cli.sql_prompt import is_complete, make_completer, open_history, state_directory
from zenspark.lake.lake import Lake
from zenspark.sql import Engine


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("\\d", True),
        ("quit", True),
        ("select 1", False),
        ("select 1;", True),
        ("select ';", False),
        ("select 1; -- done", True),
        ("select 1; select", False),
        ("select 1 -- ;", False),
    ],
)
def test_enter_runs_what_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prompt") / "lake"
    put_in(Lake(path), numbered([{"key": key, "kind": "PUT"} for key in ("a", "b")], 0, "r"))
    return path


def test_tables_columns_functions_and_words_are_completed(place: Path) -> None:
    completer = make_completer(Engine(Lake(place)).tables())

    def after(text: str) -> list[str]:
        return [found.text for found in completer.get_completions(Document(text), CompleteEvent())]

    assert "samples" in after("select * from sam")
    assert "received_at" in after("select rec")
    assert "zenoh_key_match" in after("select zenoh_k")
    assert "where" in after("select 1 WH")


def test_the_history_is_in_the_state_directory_of_the_user(tmp_path: Path) -> None:
    assert state_directory({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/zenspark")
    assert state_directory({"HOME": "/h"}) == Path("/h/.local/state/zenspark")
    assert state_directory({"LOCALAPPDATA": "/w", "HOME": "/h"}) == Path("/w/zenspark")
    open_history({"XDG_STATE_HOME": str(tmp_path)}).store_string("select 1;")
    file = tmp_path / "zenspark" / "sql_history"
    assert "select 1;" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (tmp_path / "file").touch()
    open_history({"XDG_STATE_HOME": str(tmp_path / "file")}).store_string("select 1;")


# --- in a terminal ----------------------------------------------------------------------------------------------------


@pytest.fixture
def terminal(place: Path, tmp_path: Path) -> Iterator[TmuxTerminal]:
    environment = {
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TERM": "screen-256color",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    arguments = ("sql", "--lake", str(place))
    with zenspark_on_terminal(*arguments, width=80, height=50, scrollback=True, environment=environment) as shown:
        yield shown


@pytest.mark.slow
def test_prompt_runs_statements_with_completion_interrupt_and_history(terminal: TmuxTerminal) -> None:
    terminal.wait_for("lake>")
    terminal.type("select key,", "Enter")
    terminal.type("kind from latest order by key;", "Enter")
    screen = terminal.wait_for("2 rows")
    assert "   -> kind from latest" in screen
    terminal.type("select * from latest;", "Enter")  # two wide rows: cards
    terminal.wait_for("── row 2 ─")
    terminal.type("selct 1;", "Enter")
    terminal.wait_for('error: syntax error at or near "selct" (line 1, position 1)')
    terminal.type("\\d", "Enter")
    terminal.wait_for(lambda screen: "declarations     0" in screen)
    terminal.type("select count(*) as n from sam", "Tab")
    terminal.wait_for("from samples")
    terminal.type(";", "Enter")
    terminal.wait_for(lambda screen: "n\n─\n2\n1 row" in screen)
    terminal.type("select 'half")
    terminal.wait_for("lake> select 'half")
    terminal.type("C-c")
    terminal.type("select 'again' as word;", "Enter")
    terminal.wait_for(lambda screen: "again\n1 row" in screen)
    terminal.type("Up", "Enter")  # the last query again
    terminal.wait_for(lambda screen: screen.count("again\n1 row") == 2)
    terminal.type("\\q", "Enter")
    terminal.wait_for("EXIT CODE 0")


@pytest.mark.slow
def test_control_d_ends_the_prompt_and_the_history_is_saved(terminal: TmuxTerminal, tmp_path: Path) -> None:
    terminal.wait_for("lake>")
    terminal.type("select 5 as n;", "Enter")
    terminal.wait_for("1 row\nlake>")  # a Control-D before the prompt would be the terminal's, not the prompt's
    terminal.type("C-d")
    terminal.wait_for("EXIT CODE 0")
    assert "+select 5 as n;" in (tmp_path / "state" / "zenspark" / "sql_history").read_text()
