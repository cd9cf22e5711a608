"""Status lines of `record`, `router` and `replay` on a terminal, while a router of eclipse-zenoh leaves and returns."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.interop.reference import reference, unused
from tests.tmux import TmuxTerminal, zenspark_on_terminal
from tests.unit.journal.rows import counted
from zenspark.journal import JournalWriter

pytest.importorskip("zenoh")
pytestmark = pytest.mark.interop


def terminal(*arguments: str) -> AbstractContextManager[TmuxTerminal]:
    return zenspark_on_terminal(*arguments, width=80, height=50, scrollback=True)


def test_record_status_line_shows_lost_and_restored_router(tmp_path: Path) -> None:
    endpoint = unused()
    connect = ["-m", "peer", "-l", "tcp/127.0.0.1:0", "-e", f"{endpoint}#retry_period_max_ms=200"]
    with terminal("record", "--journal", str(tmp_path / "j"), *connect, "--no-multicast-scouting") as shown:
        shown.wait_for("connected 0 of 1")
        screen = shown.wait_for("WARNING zenspark.cli: not connected to")
        assert "refused" in " ".join(screen.split())
        with reference(mode="router", listen__endpoints=[endpoint]):
            shown.wait_for("connected 1 of 1")
        shown.wait_for("lost:")
        shown.wait_for("connected 0 of 1")
        with reference(mode="router", listen__endpoints=[endpoint]):
            shown.wait_for("restored")
            shown.wait_for("connected 1 of 1")
            shown.type("C-c")
            screen = shown.wait_for("EXIT CODE 0")
    # no log line runs into the status line
    for line in screen.splitlines():
        assert not (" | " in line and "WARNING" in line), line


def test_a_router_shows_its_sessions() -> None:
    endpoint = unused()
    with terminal("router", "-l", endpoint, "--no-multicast-scouting") as shown:
        shown.wait_for("0 sessions")
        with reference(mode="client", connect__endpoints=[endpoint]):
            shown.wait_for("1 session |")
        shown.type("C-c")
        shown.wait_for("EXIT CODE 0")


def test_replay_status_line_shows_progress_and_missing_subscriber(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j") as writer:
        writer.append(counted(0, 20))  # a second for each row
    flags = ["-l", "tcp/127.0.0.1:0", "--no-multicast-scouting", "--speed", "5"]
    with terminal("replay", str(tmp_path / "j"), *flags) as shown:
        screen = shown.wait_for("left")
        assert "% of 20 rows" in screen
        screen = " ".join(shown.wait_for("EXIT CODE 1").split())
        assert "no subscriber matched any of the rows" in screen
