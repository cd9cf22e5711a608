"""What the command line of a replay means. `tests/interop` runs it beside eclipse-zenoh."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import zenspark.api.open
from tests.interop.reference import unused
from tests.unit.api.sessions import config, listening
from tests.unit.journal.rows import counted
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.cli import main, replay
from zenspark.config.config import Config
from zenspark.journal import JournalWriter
from zenspark.journal.flush_barrier import FlushBarrier
from zenspark.journal.key_remap import KeyRemap, RemapRule
from zenspark.journal.replay import Replay, ReplayProgress
from zenspark.key import KeyExpr


def replay_from_flags(*arguments: str) -> Replay:
    return replay._replay(replay.parser().parse_args(["source", *arguments]))


def test_replay_flags_become_replay_settings() -> None:
    assert replay_from_flags() == Replay(remapping=KeyRemap([], [], ""))
    assert replay_from_flags(
        *("--speed", "max", "--key", "a/**/**", "--map", "a=b", "--prefix", "p", "--restamp", "--may-drop")
    ) == Replay(
        speed=None, remapping=KeyRemap([KeyExpr("a/**")], [RemapRule("a", "b")], "p"), restamp=True, may_drop=True
    )
    assert replay_from_flags("--speed", "2.5").speed == 2.5


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--speed", "fast"], "--speed: expected max or a number more than 0, found 'fast'"),
        (["--speed", "0"], "--speed: expected max or a number more than 0"),
        (["--map", "a"], "expected OLD=NEW, found 'a'"),
        (["--from", "yesterday"], "--from: expected an offset or a time"),
        (["--to", "x"], "--to: expected an offset or a time"),
        (["--connect-timeout", "soon"], "--connect-timeout: expected a duration"),
        ([], "there is no such journal"),
    ],
)
def test_usage_error_is_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["replay", str(tmp_path / "nothing"), *arguments]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1


def test_a_replay_to_a_subscriber(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zenspark.cli.node_flags.raise_interrupt_on_signals", lambda: None)
    with JournalWriter(tmp_path / "j") as writer:
        writer.append(counted(0, 20))
    with listening("peer") as node, node.declare_subscriber("re/**") as subscriber:
        (locator,) = node.info.locators()
        where = ["-m", "client", "-e", locator, "--no-multicast-scouting"]
        arguments = [str(tmp_path / "j"), *where, "--speed", "max", "--prefix", "re", "--wait", "--from", "5"]
        assert main(["replay", *arguments]) == 0
        found = [subscriber.recv(TIMEOUT_SECONDS) for _ in range(15)]
    assert [str(sample.key_expr) for sample in found] == [f"re/k/{number}" for number in range(5, 20)]
    assert "published 15 rows in" in capsys.readouterr().out


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Twenty rows, to be replayed in a process whose signals are left alone."""
    monkeypatch.setattr("zenspark.cli.node_flags.raise_interrupt_on_signals", lambda: None)
    with JournalWriter(tmp_path / "j") as writer:
        writer.append(counted(0, 20))
    return str(tmp_path / "j")


@pytest.mark.parametrize("mode", ["client", "peer"])
def test_an_endpoint_that_cannot_be_reached_fails_the_command(
    mode: str, journal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["-m", mode, "-l", "tcp/127.0.0.1:0"][: 2 if mode == "client" else 4]
    arguments = [journal, *where, "-e", "tcp/127.0.0.1:1", "--no-multicast-scouting", "--connect-timeout", "0"]
    assert main(["replay", *arguments, "--speed", "max"]) == 4
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1].startswith(
        "zenspark replay: tcp/127.0.0.1:1: could not be reached within 0s: "
    )
    assert "published" not in captured.out


@pytest.mark.slow
def test_an_endpoint_is_tried_until_it_is_there(journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    locator = unused()
    arguments = [journal, "-m", "client", "-e", f"{locator}#retry_period_init_ms=20", "--no-multicast-scouting"]
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(main(["replay", *arguments, "--speed", "max", "--wait"])))
    thread.start()
    with (
        zenspark.api.open.open(config("router", [locator])) as node,
        node.declare_subscriber("k/**") as subscriber,
    ):
        found = [subscriber.recv(TIMEOUT_SECONDS) for _ in range(20)]
        thread.join(TIMEOUT_SECONDS)
    assert codes == [0]
    assert len(found) == 20


@pytest.mark.parametrize("mode", ["client", "peer"])
def test_rows_without_a_subscriber_are_counted(mode: str, journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    with listening("router") as node, node.declare_subscriber("k/1$*") as subscriber:
        (locator,) = node.info.locators()
        where = ["-m", mode, "-e", locator, "--no-multicast-scouting", "--cfg", "listen/endpoints:[]"]
        assert main(["replay", journal, *where, "--speed", "max", "--wait"]) == 0
        assert str(subscriber.recv(TIMEOUT_SECONDS).key_expr) == "k/1"
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("published")]
    assert line.startswith("published 20 rows in ")
    assert line.endswith("; 9 had no subscriber")


def test_a_connection_that_is_lost_fails_the_command(
    journal: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening("router") as node:
        (locator,) = node.info.locators()

        def count_lost(self: FlushBarrier, timeout: float) -> None:
            node.close()
            until(lambda: self.losses)
            waited(self, timeout)

        waited = FlushBarrier.wait
        monkeypatch.setattr(FlushBarrier, "wait", count_lost)
        where = ["-m", "client", "-e", locator, "--no-multicast-scouting"]
        assert main(["replay", journal, *where, "--speed", "max"]) == 2
    captured = capsys.readouterr()
    assert (
        f"zenspark replay: {locator}: the connection was lost: what was published may not have arrived" in captured.err
    )
    assert "published 20 rows in" in captured.out


@pytest.mark.parametrize(("flags", "is_warned"), [([], True), (["--prefix", "re"], False), (["--map", "k=l"], False)])
def test_a_recording_node_is_warned_of(
    flags: list[str], is_warned: bool, journal: str, caplog: pytest.LogCaptureFixture
) -> None:
    with listening("router") as node, node.declare_subscriber("**"):
        zid = str(node.zid())
        status = f"@/{zid}/router/zenspark/status"
        node.declare_queryable(status, lambda query: query.reply(status, "{}"))
        (locator,) = node.info.locators()
        assert main(["replay", journal, "-e", locator, "--no-multicast-scouting", "--speed", "max", *flags]) == 0
    warning = f"node {zid} records: it may record these rows a second time; --prefix or --map renames them"
    assert [record.message for record in caplog.records].count(warning) == is_warned


@pytest.mark.parametrize(
    ("flags", "mode", "listen"),
    [
        ([], "null", Config().get_json("listen/endpoints")),
        (["-e", "tcp/127.0.0.1:1"], '"client"', Config().get_json("listen/endpoints")),
        (["-e", "tcp/127.0.0.1:1", "-e", "tcp/127.0.0.1:2"], '"peer"', "[]"),
        (["-e", "tcp/127.0.0.1:1", "-m", "peer"], '"peer"', Config().get_json("listen/endpoints")),
        (["-e", "tcp/127.0.0.1:1", "-l", "tcp/127.0.0.1:3"], "null", '["tcp/127.0.0.1:3"]'),
    ],
)
def test_a_node_that_only_connects_does_not_listen(flags: list[str], mode: str, listen: str) -> None:
    built = replay._build_config(replay.parser().parse_args(["source", *flags]))
    assert (built.get_json("mode"), built.get_json("listen/endpoints")) == (mode, listen)


def test_rate_of_the_status_line_is_the_present_one() -> None:
    def rate(rows: int, seconds: float, before: ReplayProgress) -> object:
        parts = replay.status_parts(ReplayProgress(rows, 0, seconds, read=rows), 9000, "connected", before)
        return next(part for part in parts if str(part).endswith("rows/s"))

    assert rate(5000, 10.0, ReplayProgress(0, 0, 0.0)) == "500 rows/s"
    assert rate(5010, 20.0, ReplayProgress(5000, 0, 10.0)) == "1.0 rows/s"
    assert rate(5010, 20.0, ReplayProgress(5010, 0, 20.0)) == "0 rows/s"


def test_the_report_is_one_line() -> None:
    assert replay.format_report(ReplayProgress(0, 0, 0.0)) == "published 0 rows in 0.0 s, 0 rows/s"
    line = replay.format_report(ReplayProgress(4000, 2, 2.0, 7))
    expected = "published 4000 rows in 2.0 s, 2 k rows/s; 7 had no subscriber; 2 were dropped because of congestion"
    assert line == expected
