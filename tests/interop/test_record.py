"""`zenspark record` and `zenspark replay` as processes beside eclipse-zenoh: what was sent is found, row by row."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.reference import eventually, unused
from tests.unit.api.sessions import address, listening
from zenspark.journal import Journal, JournalWriter, Policy, Recorder, State, segment

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

TIMEOUT_SECONDS = 30.0
ROWS = 20_000
Theirs = Any
"""eclipse-zenoh has no types that could be checked here."""
PRIORITIES = ["REAL_TIME", "INTERACTIVE_HIGH", "INTERACTIVE_LOW", "DATA_HIGH", "DATA", "DATA_LOW", "BACKGROUND"]


@contextlib.contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    whole = [sys.executable, "-m", "zenspark", *arguments, "--no-multicast-scouting"]
    process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def recording(path: Path, mode: str, *keys: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A recorder, and where it listens."""
    arguments = [argument for key in keys for argument in ("--key", key)]
    with command("record", "--journal", str(path), "-m", mode, "-l", "tcp/127.0.0.1:0", *arguments) as process:
        assert process.stdout is not None
        locator = ""
        while not (line := process.stdout.readline()).startswith("  journal"):
            assert line, "it ended"
            locator = line.split()[-1] if "listens on" in line else locator
        yield process, locator


def ended(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0
    return str(output)


@contextlib.contextmanager
def theirs(mode: str, listen: str | None = None, connect: str | None = None) -> Iterator[Theirs]:
    config = zenoh.Config()
    settings = {
        "mode": mode,
        "listen/endpoints": [listen] if listen else [],
        "connect/endpoints": [connect] if connect else [],
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
        "timestamping/enabled": False,
    }
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    with zenoh.open(config) as session:
        yield session


def publish(session: Theirs, count: int) -> list[dict[str, Any]]:
    """Puts of every kind; what rows they should become."""
    source = session.declare_publisher("other").id
    expected = []
    for number in range(count):
        priority = PRIORITIES[number % len(PRIORITIES)]
        key, payload = f"fleet/{number % 97}/state", f"value {number}".encode()
        stamp = session.new_timestamp() if number % 3 == 0 else None
        attachment = f"note {number}".encode() if number % 4 == 0 else None
        encoding = "application/json;v1" if number % 5 == 0 else "zenoh/bytes"
        info = zenoh.SourceInfo(source, number) if number % 2 == 0 else None
        quality = {
            "priority": getattr(zenoh.Priority, priority),
            "congestion_control": zenoh.CongestionControl.BLOCK,
            "express": False,
        }
        extras = {"timestamp": stamp, "attachment": attachment, "source_info": info}
        if number % 50 == 49:
            session.delete(key, **quality, **extras)
            payload, encoding = None, "zenoh/bytes"  # type: ignore[assignment]
        else:
            session.put(key, payload, encoding=zenoh.Encoding(encoding), **quality, **extras)
        expected.append(
            {
                "key": key,
                "kind": "DELETE" if payload is None else "PUT",
                "payload": payload,
                "encoding": encoding,
                "timestamp_id": str(stamp.get_id()) if stamp else None,
                "timestamp_ntp64": None if stamp is None else int(str(stamp).split("/")[0]),
                "attachment": attachment,
                "source_zid": str(source.zid) if info else None,
                "source_eid": source.eid if info else None,
                "source_sn": number if info else None,
                "priority": priority,
                "congestion": "BLOCK",
                "express": False,
                "reliable": True,
                "via": str(session.zid()),
            }
        )
    return expected


def by_priority(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Zenoh keeps the order of what has the same priority; others may overtake."""
    return {name: [row for row in rows if row["priority"] == name] for name in PRIORITIES}


@pytest.mark.parametrize("mode", ["peer", "router"])
def test_recorded_rows_equal_eclipse_zenoh_publications(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "j"
    with recording(path, mode, "fleet/**", "fleet/*/state", "*/1/*") as (process, locator):
        with theirs("client", connect=locator) as session:
            expected = publish(session, ROWS)
            journal = Journal(path)
            assert eventually(lambda: journal.latest() == ROWS), journal.latest()
        output = ended(process)
    assert f"recorded {ROWS} rows" in output
    found = [row for batch in journal.read(0, journal.latest()) for row in batch.to_pylist()]
    assert [row["offset"] for row in found] == list(range(ROWS))
    names = list(expected[0])
    if mode == "router":  # which stamps what is not
        own = [row for row in found if row["kind"] == "PUT" and row["timestamp_id"] != row["via"]]
        assert len({row["timestamp_id"] for row in own}) == 1
        assert all(row["timestamp"] is not None for row in own)
        names = [name for name in names if name not in ("timestamp_id", "timestamp_ntp64")]
    assert by_priority(_only(found, names)) == by_priority(_only(expected, names))


def _only(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in names} for row in rows]


def test_eclipse_zenoh_sessions_and_declarations_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with recording(path, "router", "a") as (process, locator):
        with theirs("client", connect=locator) as session:
            zid = str(session.zid())
            kept = [session.declare_subscriber("s/*"), session.declare_queryable("q")]
            assert eventually(lambda: Journal(path / "declarations").latest() == len(kept))
        assert eventually(lambda: Journal(path / "declarations").latest() == 4)
        assert eventually(lambda: Journal(path / "sessions").latest() == 2)
        ended(process)
    rows = {
        name: [row for batch in Journal(path / name).read(0, end) for row in batch.to_pylist()]
        for name, end in (("sessions", 2), ("declarations", 4))
    }
    assert [(row["event"], row["zid"], row["whatami"]) for row in rows["sessions"]] == [
        ("OPENED", zid, "client"),
        ("CLOSED", zid, "client"),
    ]
    assert {(row["event"], row["kind"], row["key"], row["zid"]) for row in rows["declarations"]} == {
        (event, kind, key, zid)
        for event in ("DECLARED", "UNDECLARED")
        for kind, key in (("subscriber", "s/*"), ("queryable", "q"))
    }


# --- a full disk ------------------------------------------------------------------------------------------------------


SENT = 40_000
"""Samples of 1 kB: more than all buffers between a publisher and a recorder hold."""


class Disk:
    """Fails as a full disk does, for the files of journals in this process, while it is set to full."""

    def __init__(self) -> None:
        self.is_full = False
        self._real = segment._write_all

    def write(self, file: int, data: memoryview) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._real(file, data)


def record_through_outage(path: Path, fill: Callable[[], None], free: Callable[[], object]) -> None:
    """A publisher that blocks sends throughout; what it sent is recorded or counted, and its link stays.

    By default eclipse-zenoh resets a link on which a message waits for 5 s.
    """
    with (
        listening("peer") as node,
        JournalWriter(path, Policy(flush_rows=256, flush_interval=0.01, fsync="never")) as writer,
        theirs("client", connect=address(node)) as session,
    ):
        recorder = Recorder(node, ["a"], writer).start()
        zid = str(session.zid())
        publisher = session.declare_publisher("a", congestion_control=zenoh.CongestionControl.BLOCK)
        assert eventually(lambda: publisher.matching_status.matching)
        for number in range(SENT):
            publisher.put(b"%08d" % number + bytes(1000))
            if number == 0:  # modules that the first block needs are imported while nothing waits
                assert eventually(lambda: recorder.status().rows == 1), recorder.status()
            if number == 1000:
                fill()
        assert eventually(lambda: recorder.status().dropped.get(zid, 0) > 0), recorder.status()
        assert recorder.status().state is State.DISCARDING
        free()
        assert eventually(lambda: recorder.status().state is State.RECORDING)
        publisher.put(b"%08d" % SENT)
        assert eventually(lambda: recorder.status().rows + recorder.status().lost == SENT + 1), recorder.status()
        status = recorder.stop()
    assert status.dropped == {zid: status.lost}
    found = [int(value[:8]) for batch in Journal(path).read(0, status.rows) for value in batch["payload"].to_pylist()]
    assert found == sorted(set(found))
    assert (found[0], found[-1], len(found)) == (0, SENT, SENT + 1 - status.lost)
    events = [event for batch in _all(path / "sessions") for event in batch["event"].to_pylist()]
    assert events == ["OPENED", "CLOSED"]
    counters = [row for batch in _all(path / "counters") for row in batch.to_pylist()]
    newest = {(row["name"], row["zid"], row["reason"]): row["value"] for row in counters}
    assert newest["received", None, None] == SENT + 1
    assert newest["recorded", None, None] == status.rows
    assert newest["dropped", zid, "journal full"] == status.lost
    assert newest["received", zid, None] >= SENT + 1
    assert not [name for name in newest if name[0] == "lost"]


def _all(path: Path) -> Iterator[Any]:
    journal = Journal(path)
    return journal.read(journal.earliest(), journal.latest())


def test_full_disk_counts_lost_rows_and_keeps_the_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    monkeypatch.setattr(segment, "_write_all", disk.write)
    record_through_outage(
        tmp_path / "j", lambda: setattr(disk, "is_full", True), lambda: setattr(disk, "is_full", False)
    )


def record_on_small_disk(path: Path) -> None:
    """On a file system that another file fills."""
    ballast = path / "ballast"

    def fill() -> None:
        with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(1 << 16)):
                pass

    record_through_outage(path / "j", fill, ballast.unlink)
    print("done", flush=True)


def test_filled_tmpfs_counts_lost_rows_and_keeps_the_link(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    own = [unshare or "unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = 'mount -t tmpfs -o size=100m none "$0"'
    if unshare is None or subprocess.run([*own, mount, str(tmp_path)], capture_output=True, check=False).returncode:
        pytest.skip("no file system of one's own may be mounted here")
    script = f"from pathlib import Path; from {__name__} import *; record_on_small_disk(Path({str(tmp_path)!r}))"
    command = [*own, f'{mount} && exec "$@"', str(tmp_path), sys.executable, "-c", script]
    run = subprocess.run(
        command, capture_output=True, text=True, cwd=Path.cwd(), check=False, timeout=5 * TIMEOUT_SECONDS
    )
    assert run.stdout == "done\n", run.stdout + run.stderr


# --- replay -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("through_parquet", [False, True], ids=["journal", "parquet"])
def test_eclipse_zenoh_subscriber_receives_replayed_rows(tmp_path: Path, through_parquet: bool) -> None:
    path = tmp_path / "j"
    with recording(path, "peer", "fleet/**") as (process, locator):
        with theirs("client", connect=locator) as session:
            publish(session, 1000)
            assert eventually(lambda: Journal(path).latest() == 1000)
        ended(process)
    rows = [row for batch in Journal(path).read(0, 1000) for row in batch.to_pylist()]
    source = path
    if through_parquet:
        import pyarrow as pa
        import pyarrow.parquet as pq

        source = tmp_path / "rows.parquet"
        pq.write_table(pa.Table.from_batches(Journal(path).read(0, 1000)), source)
    received: queue.Queue[Theirs] = queue.Queue()
    locator = unused()
    with theirs("peer", listen=locator) as session:
        subscriber = session.declare_subscriber("again/**", received.put)
        where = ["-m", "client", "-e", locator, "--map", "fleet=again/fleet", "--speed", "max", "--wait"]
        with command("replay", str(source), *where) as process:
            output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
            assert process.returncode == 0
        assert "published 1000 rows" in output
        found = [_row(received.get(timeout=TIMEOUT_SECONDS)) for _ in range(1000)]
        subscriber.undeclare()
    names = list(found[0])
    expected = [{name: row[name] for name in names} | {"key": f"again/{row['key']}"} for row in rows]
    assert by_priority(found) == by_priority(expected)


def _row(sample: Theirs) -> dict[str, Any]:
    """What a sample of theirs would be as a row."""
    is_put = sample.kind == zenoh.SampleKind.PUT
    stamp, info = sample.timestamp, sample.source_info
    return {
        "key": str(sample.key_expr),
        "kind": "PUT" if is_put else "DELETE",
        "payload": sample.payload.to_bytes() if is_put else None,
        "encoding": str(sample.encoding),
        "timestamp_id": str(stamp.get_id()) if stamp else None,
        "attachment": sample.attachment.to_bytes() if sample.attachment is not None else None,
        "source_sn": info.source_sn if info is not None else None,
        "priority": str(sample.priority).split(".")[-1],
    }
