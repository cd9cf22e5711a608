"""What the command line of a replay means. `tests/interop` runs it beside eclipse-zenoh."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.api.sessions import listening
from tests.unit.journal.rows import counted
from tests.waiting import PATIENCE
from zenspark.cli import main, replay
from zenspark.journal import JournalWriter
from zenspark.journal.remapping import Remapping, Rule
from zenspark.journal.replay import Replay, Report
from zenspark.key import KeyExpr


def meant(*arguments: str) -> Replay:
    return replay._replay(replay._parser().parse_args(["source", *arguments]))


def test_flags() -> None:
    assert meant() == Replay(remapping=Remapping([], [], ""))
    assert meant(
        *("--speed", "max", "--key", "a/**/**", "--map", "a=b", "--prefix", "p", "--restamp", "--may-drop")
    ) == Replay(speed=None, remapping=Remapping([KeyExpr("a/**")], [Rule("a", "b")], "p"), restamp=True, may_drop=True)
    assert meant("--speed", "2.5").speed == 2.5


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--speed", "fast"], "--speed: expected max or a number more than 0, found 'fast'"),
        (["--speed", "0"], "--speed: expected max or a number more than 0"),
        (["--map", "a"], "expected OLD=NEW, found 'a'"),
        (["--from", "x"], "expected an offset or a time"),
        ([], "there is no such journal"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["replay", str(tmp_path / "nothing"), *arguments]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1


def test_a_replay_to_a_subscriber(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zenspark.cli.node.end_by_signals", lambda: None)
    with JournalWriter(tmp_path / "j") as writer:
        writer.append(counted(0, 20))
    with listening("peer") as node, node.declare_subscriber("re/**") as subscriber:
        (locator,) = node.info.locators()
        where = ["-m", "client", "-e", locator, "--no-multicast-scouting"]
        arguments = [str(tmp_path / "j"), *where, "--speed", "max", "--prefix", "re", "--wait", "--from", "5"]
        assert main(["replay", *arguments]) == 0
        found = [subscriber.recv(PATIENCE) for _ in range(15)]
    assert [str(sample.key_expr) for sample in found] == [f"re/k/{number}" for number in range(5, 20)]
    assert "published 15 rows in" in capsys.readouterr().out


def test_the_report_is_one_line() -> None:
    assert replay.line_of(Report(0, 0, 0.0)) == "published 0 rows in 0.0 s, 0 rows/s"
    line = replay.line_of(Report(4000, 2, 2.0))
    assert line == "published 4000 rows in 2.0 s, 2 k rows/s; 2 were dropped where a link was full"
