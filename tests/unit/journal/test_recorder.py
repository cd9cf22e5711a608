"""Recording of a session: each sample once, in order, and outages of the disk."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.api.sessions import connected, listening
from tests.unit.journal.rows import payloads, read
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.errors import JournalError, JournalFull, UsageError
from zenspark.journal import Journal, JournalWriter, Policy, Recorder, State, segment
from zenspark.journal.recorder import drop_included
from zenspark.types.enums import CongestionControl

QUICK = Policy(flush_interval=0.01, fsync="never")


@pytest.fixture
def node() -> Iterator[Session]:
    with listening("peer") as session:
        yield session


@pytest.fixture
def publisher(node: Session) -> Iterator[Session]:
    with connected("client", node) as session:
        yield session


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[JournalWriter]:
    with JournalWriter(tmp_path / "j", QUICK) as opened:
        yield opened


def found(writer: JournalWriter) -> list[tuple[str, bytes]]:
    table = read(Journal(writer.path))
    return list(zip(table["key"].to_pylist(), table["payload"].to_pylist(), strict=True))


def test_samples_of_peers_and_of_the_own_session_are_recorded(
    node: Session, publisher: Session, writer: JournalWriter
) -> None:
    with Recorder(node, ["a/**"], writer, observe=False) as recorder:
        assert recorder.is_running
        for number in range(100):
            publisher.put("a/b", b"%d" % number)
        publisher.put("b", b"not wanted")
        until(lambda: recorder.status().rows == 100)
        node.put("a/own", b"own")
        node.delete("a/own")
        until(lambda: recorder.status().rows == 102)
    assert not recorder.is_running
    assert found(writer) == [
        *(("a/b", b"%d" % number) for number in range(100)),
        ("a/own", b"own"),
        ("a/own", None),
    ]


def test_without_keys_all_samples_are_recorded(node: Session, writer: JournalWriter) -> None:
    with Recorder(node, [], writer, observe=False) as recorder:
        node.put("any/key", b"1")
        until(lambda: recorder.status().rows == 1)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["a", "a"], ["a"]),
        (["a/b", "a/*", "a/**"], ["a/**"]),
        (["*/x", "a/*"], ["*/x", "a/*"]),
        (["a/**/**", "b"], ["a/**", "b"]),
        ([], []),
    ],
)
def test_included_key_expressions_are_dropped(given: list[str], kept: list[str]) -> None:
    assert [str(key) for key in drop_included(given)] == kept


def test_key_matching_several_expressions_is_recorded_once(
    node: Session, publisher: Session, writer: JournalWriter
) -> None:
    keys = ["*/x", "a/*", "*/*/**", "c"]
    with Recorder(node, keys, writer, observe=False) as recorder:
        sent = [("a/x", b"1"), ("b/x", b"2"), ("a/y", b"3"), ("a/b/c", b"4"), ("c", b"5"), ("a/*", b"6")]
        for who in (publisher, node):
            for key, payload in sent:
                who.put(key, payload)
        until(lambda: recorder.status().rows >= 2 * len(sent))
    assert sorted(found(writer)) == sorted(2 * sent)


def test_stop_flushes_received_samples(node: Session, publisher: Session, tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "j", Policy(flush_interval=1000.0)) as writer:
        recorder = Recorder(node, ["a"], writer, observe=False).start()
        for number in range(50):
            publisher.put("a", b"%d" % number)
        until(lambda: recorder.status().backlog or recorder._writer.end or recorder._thread.is_alive())
        node.put("a", b"last")
        status = recorder.stop()
        assert (status.state, status.lost, status.error) == (State.STOPPED, 0, None)
        assert status.rows == writer.acknowledged == writer.end
        assert b"last" in payloads(Journal(tmp_path / "j"))
        assert recorder.stop().rows == status.rows


def test_second_start_is_rejected(node: Session, writer: JournalWriter) -> None:
    recorder = Recorder(node, ["a"], writer, observe=False)
    assert recorder.status().state is State.READY
    assert recorder.status().rate == 0.0
    recorder.start()
    with pytest.raises(UsageError, match="started before"):
        recorder.start()
    recorder.stop()


def test_recorder_ends_when_its_session_is_closed(writer: JournalWriter) -> None:
    with listening("peer") as session:
        recorder = Recorder(session, ["a"], writer, observe=False).start()
        session.put("a", b"1")
    until(lambda: not recorder.is_running)
    assert recorder.status().state is State.STOPPED
    assert recorder.stop().rows == 1


def test_unexpected_errors_are_in_the_status(
    node: Session, writer: JournalWriter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    recorder = Recorder(node, ["a"], writer, observe=False).start()
    monkeypatch.setattr(writer, "append_chunks", refuse)
    node.put("a", b"1")
    until(lambda: not recorder.is_running)
    assert recorder.status().error == "an unexpected error: see the log"
    assert "a mistake of ours" in caplog.text
    recorder.stop()


@pytest.mark.slow
def test_recording_pauses_without_space_and_resumes(
    node: Session, publisher: Session, writer: JournalWriter, caplog: pytest.LogCaptureFixture
) -> None:
    room = iter([False, False, True])

    def append(chunks: object) -> int:
        if not next(room, True):
            raise JournalFull("j", "no room")
        return real(chunks)  # type: ignore[arg-type]

    real = writer.append_chunks
    writer.append_chunks = append  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING), Recorder(node, ["a"], writer, observe=False) as recorder:
        publisher.put("a", b"1")
        until(lambda: recorder.status().state is State.WAITING)
        assert recorder.status().error == "j: no room"
        until(lambda: recorder.status().rows == 1)
        until(lambda: recorder.status().state is State.RECORDING)
        assert recorder.status().error is None
    assert caplog.text.count(f"{writer.path}: recording paused: j: no room") == 1
    assert "recording resumed at offset" in caplog.text


def test_stop_times_out_without_space(node: Session, writer: JournalWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise JournalError("j", "nothing works")

    monkeypatch.setattr("zenspark.journal.recorder.RECORDER_STOP_TIMEOUT_SECONDS", 0.0)
    monkeypatch.setattr("zenspark.journal.outage.WRITE_RETRY_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(writer, "append_chunks", refuse)
    recorder = Recorder(node, ["a"], writer, observe=False).start()
    node.put("a", b"1")
    until(lambda: recorder.status().state is State.WAITING)
    status = recorder.stop()
    assert (status.rows, status.lost, status.dropped) == (0, 1, {str(node.zid()): 1})


def test_unwritten_rows_are_counted_as_lost(node: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise JournalFull("j", "no room")

    monkeypatch.setattr("zenspark.journal.recorder.RECORDER_STOP_TIMEOUT_SECONDS", 0.0)
    monkeypatch.setattr("zenspark.journal.outage.WRITE_RETRY_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr("zenspark.journal.segment.SegmentWriter.append", refuse)
    writer = JournalWriter(tmp_path / "j", QUICK)
    recorder = Recorder(node, ["a"], writer, observe=False).start()
    node.put("a", b"1")
    until(lambda: recorder.status().state is State.WAITING)
    status = recorder.stop()
    assert (status.rows, status.lost, status.error) == (0, 1, "j: no room")
    with pytest.raises(JournalFull):
        writer.close()


# --- a journal that cannot be written ---------------------------------------------------------------------------------


class Disk:
    """A disk that can be switched to full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self._real = segment._write_all
        monkeypatch.setattr(segment, "_write_all", self._write)

    def _write(self, file: int, data: memoryview) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._real(file, data)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.mark.slow
def test_long_outage_discards_rows_and_counts_them_by_neighbour(
    node: Session, tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    """Every sample sent is recorded or counted as dropped; rows the writer had accepted are recorded first."""
    policy = Policy(flush_interval=0.01, flush_rows=50, fsync="never", block_timeout=0.05)
    block = CongestionControl.BLOCK
    with (
        JournalWriter(tmp_path / "j", policy) as writer,
        connected("client", node) as one,
        connected("client", node) as other,
        Recorder(node, ["a"], writer, observe=False) as recorder,
    ):
        one.put("a", b"first", congestion_control=block)
        until(lambda: recorder.status().rows == 1)
        disk.is_full = True
        one.put("a", b"taken", congestion_control=block)
        until(lambda: recorder.status().state is State.DISCARDING)
        assert "the disk is full" in (recorder.status().error or "")
        sent = 2
        while not all(recorder.status().dropped.get(str(who.zid())) for who in (one, other, node)):
            for who in (one, other, node):
                who.put("a", b"%d" % sent, congestion_control=block)
                sent += 1
        disk.is_full = False
        until(lambda: recorder.status().state is State.RECORDING)
        one.put("a", b"last", congestion_control=block)
        sent += 1
        until(lambda: recorder.status().rows + recorder.status().lost == sent)
        status = recorder.status()
        assert status.error is None
        assert status.lost == sum(status.dropped.values())
        assert set(status.dropped) == {str(who.zid()) for who in (one, other, node)}
    rows = payloads(Journal(tmp_path / "j"))
    assert rows[:2] == [b"first", b"taken"]
    assert rows[-1] == b"last"
    assert len(set(rows)) == len(rows) == status.rows
    lines = [record.getMessage() for record in caplog.records if record.name == "zenspark.journal"]
    assert lines[0].startswith(f"{tmp_path / 'j'}: recording paused: ")
    assert lines[1].startswith(f"{tmp_path / 'j'}: recording discards received rows after ")
    (resumed,) = [line for line in lines if line.startswith(f"{tmp_path / 'j'}: recording resumed at offset")]
    assert resumed.endswith(f": lost {status.lost} received rows")
    reason = "the journal could not be written for a while"
    assert lines[-1] == f"{tmp_path / 'j'}: lost {status.lost} received rows: {reason}"


def test_stop_while_discarding_retries_the_write(
    node: Session, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zenspark.journal.recorder.RECORDER_STOP_TIMEOUT_SECONDS", 0.0)
    with JournalWriter(tmp_path / "j", Policy(flush_interval=0.01, block_timeout=0.0)) as writer:
        recorder = Recorder(node, ["a"], writer, observe=False).start()
        disk.is_full = True
        node.put("a", b"1")
        until(lambda: recorder.status().state is State.DISCARDING)
        status = recorder.stop()
        assert (status.rows, status.lost, status.dropped) == (0, 1, {})
        disk.is_full = False
    assert payloads(Journal(tmp_path / "j")) == [b"1"]


@pytest.mark.slow
def test_low_disk_space_is_in_the_status(node: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: (10**9, 10**9 - 1000, 1000))
    with JournalWriter(tmp_path / "j", QUICK) as writer, Recorder(node, ["a"], writer, observe=False) as recorder:
        until(lambda: recorder.status().warning == "low disk space: 1 kB of 1 GB left")
        assert recorder.status().state is State.RECORDING


# --- the rate ---------------------------------------------------------------------------------------------------------


def test_rate_is_averaged_over_the_window(
    node: Session, writer: JournalWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(node, ["a"], writer, observe=False)
    acknowledged = 0
    monkeypatch.setattr(JournalWriter, "acknowledged", property(lambda _: acknowledged))
    recorder._history.append((100.0, 0))
    rates = []
    for second in range(1, 31):
        acknowledged += 1000 if second <= 10 else 0
        recorder._run_periodic_checks(100.0 + second)
        rates.append(recorder._rate(100.0 + second))
    assert rates[:10] == [1000.0] * 10
    assert rates[10:15] == [800.0, 600.0, 400.0, 200.0, 0.0]
    assert set(rates[15:]) == {0.0}


@pytest.mark.slow
def test_rate_is_0_after_a_window_without_rows(
    node: Session, writer: JournalWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zenspark.journal.recorder.RATE_WINDOW_SECONDS", 0.05)
    monkeypatch.setattr("zenspark.journal.recorder.RATE_SAMPLE_INTERVAL_SECONDS", 0.01)
    with Recorder(node, ["a"], writer, observe=False) as recorder:
        for _ in range(100):
            node.put("a", b"1")
        until(lambda: recorder.status().rows == 100)
        until(lambda: recorder.status().rate == 0.0)


FULL = """
import sys, threading
from pathlib import Path
from tests.unit.api.sessions import connected, listening
from tests.wait import until
from tests.unit.journal.rows import payloads
from zenspark.types.enums import CongestionControl
from zenspark.journal import Journal, JournalWriter, Policy, Recorder, State

path = Path(sys.argv[1])
if sys.argv[2] == "disk":
    ballast = path / "ballast"
    ballast.write_bytes(bytes(int(sys.argv[3])))
    free_space = ballast.unlink
else:
    import resource
    limit = lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    limit(1 << 20)
    free_space = lambda: limit(resource.RLIM_INFINITY)

rows = 6000
with listening("peer") as node, connected("client", node) as publisher:
    policy = Policy(flush_rows=64, flush_interval=0.01, fsync="never", block_timeout=None)
    with JournalWriter(path / "j", policy) as writer:
        recorder = Recorder(node, ["a"], writer, observe=False).start()
        sent = []
        def publish():
            declared = publisher.declare_publisher("a", congestion_control=CongestionControl.BLOCK)
            for number in range(rows):
                declared.put(b"%d" % number + bytes(1000))
                sent.append(number)
        thread = threading.Thread(target=publish)
        thread.start()
        until(lambda: recorder.status().state is State.WAITING)
        status = recorder.status()
        assert "the disk is full" in status.error, status
        size = (path / "j" / ("0" * 20 + ".segment")).stat().st_size
        journal = Journal(path / "j")
        assert len(payloads(journal)) == journal.latest() == status.rows < rows
        free_space()
        thread.join()
        until(lambda: recorder.status().rows == rows)
        assert recorder.stop().error is None
    found = [int(payload.rstrip(bytes(1))) for payload in payloads(Journal(path / "j"))]
    assert found == list(range(rows))
print("done", flush=True)
"""


def run_full(command: list[str]) -> None:
    run = subprocess.run(
        command, capture_output=True, text=True, cwd=Path.cwd(), check=False, timeout=4 * TIMEOUT_SECONDS
    )
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no limits of this kind")
def test_file_size_limit_pauses_recording(tmp_path: Path) -> None:
    run_full([sys.executable, "-c", FULL, str(tmp_path), "limit"])


@pytest.mark.slow
def test_full_disk_pauses_recording_until_space_is_freed(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    own = [unshare or "unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = 'mount -t tmpfs -o size=8m none "$0"'
    if unshare is None or subprocess.run([*own, mount, str(tmp_path)], capture_output=True, check=False).returncode:
        pytest.skip("no file system of one's own may be mounted here")
    run_full(
        [*own, f'{mount} && exec "$@"', str(tmp_path), sys.executable, "-c", FULL, str(tmp_path), "disk", "6000000"]
    )
