"""What the command line of a recorder means, and how it ends. `tests/interop` runs it beside eclipse-zenoh."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.api.sessions import config
from zenspark.api.open import open as open_session
from zenspark.cli import main, record
from zenspark.journal import Journal, Policy, State, Status

TIMEOUT_SECONDS = 30.0
QUIET = ["--no-multicast-scouting", "-l", "tcp/127.0.0.1:0"]


def policy_from_flags(*arguments: str) -> Policy:
    return record.parse_policy(record.parser().parse_args(arguments))


@pytest.mark.slow
def test_every_field_of_the_policy_is_a_flag() -> None:
    assert policy_from_flags() == Policy()
    policy = policy_from_flags(
        *("--flush-interval", "50ms", "--flush-rows", "10", "--flush-bytes", "1MiB", "--fsync", "flush"),
        *("--segment-bytes", "64MiB", "--segment-age", "5m", "--retain-age", "7d", "--retain-bytes", "10GB"),
        *("--retain-read-age", "1h", "--retain-read-bytes", "0", "--reader-expiry", "30d"),
        *("--block-timeout", "1s"),
        *("--trim-unread", "--compression", "zstd"),
    )
    assert policy == Policy(
        flush_interval=0.05,
        flush_rows=10,
        flush_bytes=1 << 20,
        fsync="flush",
        segment_bytes=64 << 20,
        segment_age=300.0,
        retain_age=7 * 86400.0,
        retain_bytes=10 * 10**9,
        retain_read_age=3600.0,
        retain_read_bytes=0,
        reader_expiry=30 * 86400.0,
        block_timeout=1.0,
        trim_unread=True,
        compression="zstd",
    )
    defaults = Policy()
    for field in msgspec.structs.fields(Policy):
        assert getattr(policy, field.name) != getattr(defaults, field.name), field.name
    assert policy_from_flags("--fsync", "10s").fsync == 10.0
    assert policy_from_flags("--fsync", "never").fsync == "never"
    assert policy_from_flags("--reader-expiry", "never").reader_expiry is None
    assert policy_from_flags("--block-timeout", "never").block_timeout is None


def test_flag_help_has_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--reader-expiry DURATION|never detach readers" in text
    for default in ("0.1s", "65536", "1h", "7d", "no limit"):
        assert f"(default: {default})" in text


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--flush-rows", "many"], "--flush-rows: expected a number, found 'many'"),
        (["--fsync", "always"], "--fsync: expected a duration"),
        (["--retain-age", "0"], "retain_age: expected more than 0"),
        (["--retain-age", "never"], "--retain-age: expected a duration"),
        (["--compression", "gzip"], "compression: expected none, lz4 or zstd"),
        (["--key", "a//b"], "a//b"),
        (["--cfg", "mode"], "--cfg: expected KEY:VALUE"),
        (["-e", "nonsense"], "expected an endpoint"),
        (["--for", "5parsecs"], "--for: expected a duration"),
    ],
)
def test_usage_error_is_one_line_and_nothing_is_written(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["record", "--journal", str(tmp_path / "j"), *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("zenspark record: ")
    assert line in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "j").exists()


CONNECT = ["-e", "tcp/127.0.0.1:1"]
PEER_WITHOUT_LISTENER = [("mode", "peer"), ("listen/endpoints", [])]


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        ([], [("mode", "peer")]),
        (CONNECT, [("mode", "client")]),
        ([*CONNECT, "-e", "tcp/127.0.0.1:2"], PEER_WITHOUT_LISTENER),
        ([*CONNECT, "-m", "peer"], []),
        ([*CONNECT, "-l", "tcp/127.0.0.1:0"], [("mode", "peer")]),
        ([*CONNECT, "--cfg", "mode:'router'"], []),
        ([*CONNECT, "--cfg", "listen/endpoints:['tcp/127.0.0.1:0']"], [("mode", "peer")]),
    ],
)
def test_a_recorder_that_only_connects_is_a_client(flags: list[str], settings: list[tuple[str, object]]) -> None:
    assert record._build_settings(record.parser().parse_args(flags)) == settings


def test_a_directory_that_is_no_journal_is_rejected(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "letter").touch()
    assert main(["record", "--journal", str(tmp_path), *QUIET]) == 2
    assert "files in it that are no journal" in capsys.readouterr().err


class Recording:
    """`zenspark record` in a process of its own."""

    def __init__(self, path: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "zenspark", "record", "--journal", str(path), *QUIET, *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        self.facts: dict[str, str] = {}
        while "journal" not in self.facts:
            line = self.process.stdout.readline()
            assert line, "it ended"
            self.facts[line[:12].strip()] = line[12:].strip()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self, number: int | None = None) -> str:
        if number is not None:
            self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=TIMEOUT_SECONDS)
        assert self.process.returncode == 0
        return str(output)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_record_writes_received_rows_on_a_signal_and_continues_at_the_next_offset(tmp_path: Path, number: int) -> None:
    for turn in range(2):
        with Recording(tmp_path / "j", "--key", "a/**", "--key", "a/b", "--flush-interval", "1h") as recording:
            assert recording.facts["records"] == "a/**"
            assert recording.facts["journal"].endswith(f"at offset {turn * 10}")
            with open_session(config("client", connect=[recording.facts["listens on"]])) as session:
                for count in range(10):
                    session.put("a/b", f"{turn}{count}")
                assert list(session.get("nobody/replies", timeout=1.0)) == []  # behind what was published
            output = recording.end(number)
        assert "recorded 10 rows (" in output
        assert f"up to offset {turn * 10 + 10}" in output
    rows = [row for batch in Journal(tmp_path / "j").read(0, 20) for row in batch.column("payload").to_pylist()]
    assert rows == [f"{turn}{count}".encode() for turn in range(2) for count in range(10)]


@pytest.mark.slow
def test_record_ends_after_the_for_duration(tmp_path: Path) -> None:
    with Recording(tmp_path / "j", "--for", "200ms", "--no-observe") as recording:
        assert recording.facts["records"] == "**"
        assert "recorded 0 rows (0 B)" in recording.end()
    assert not (tmp_path / "j" / "sessions").exists()


def status(**changes: Any) -> Status:  # noqa: ANN401
    known: dict[str, Any] = {"state": State.RECORDING, "rows": 10, "bytes": 2000, "rate": 1234.0, "offset": 30}
    known |= {"backlog": 0, "lost": 0, "error": None, "cut": None}
    return Status(**known | changes)


def test_the_status_is_one_line() -> None:
    assert line() == "connected 1 of 1 | recording | 1.23 k rows/s | 10 rows | 2 kB | offset 30"
    waiting = line(state=State.WAITING, error="j: the disk is full", warning="low disk space")
    assert waiting.startswith("j: the disk is full | connected 1 of 1 | waiting for space | 1.23 k rows/s")
    low = line(lost=7, warning="low disk space: 1 MB of 20 MB left")
    assert low.startswith("low disk space: 1 MB of 20 MB left | ")
    assert low.endswith(" | offset 30 | 7 lost")


def line(**changes: Any) -> str:  # noqa: ANN401
    parts = record.status_parts(status(**changes), "connected 1 of 1")
    return " | ".join(part if isinstance(part, str) else part[0] for part in parts)


@pytest.mark.slow
def test_record_without_its_required_connection_creates_no_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zenspark.cli.node_flags.raise_interrupt_on_signals", lambda: None)
    where = ["-e", "tcp/127.0.0.1:1", *QUIET, "--require-connection", "--connect-timeout", "100ms"]
    assert main(["record", "--journal", str(tmp_path / "j"), *where]) == 4
    assert "tcp/127.0.0.1:1" in capsys.readouterr().err
    assert not (tmp_path / "j").exists()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"lost": 3, "error": "j: the disk is full"},
            "lost 3 received rows: j: the disk is full",
        ),
        ({"lost": 3}, "lost 3 received rows"),
        (
            {"lost": 3, "dropped": {"ab": 2, "cd": 1}},
            "lost 3 received rows: 2 from ab, 1 from cd",
        ),
    ],
)
def test_lost_rows_are_reported(changes: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    record._print_summary(status(**changes), "j", 0.1)
    assert capsys.readouterr().err == f"zenspark record: {line}\n"
