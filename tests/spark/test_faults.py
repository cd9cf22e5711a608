"""Faults of ingestion while messages are recorded: recording continues, and in the end every row is there once.

One `zenspark up` goes through all of it, with its lake and its journal on disks of their own that can be filled and
made read-only, and with a clock that can be stepped.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

import zenspark
from tests.interop.reference import ours, unused
from tests.s3 import serving
from tests.s3_proxy import running_s3_proxy
from tests.shifted_clock import ShiftedClock, shifted_clock
from tests.spark.crash_load import wait_for
from tests.spark.poison import poison
from tests.spark.test_up import Up, samples, up
from zenspark.journal import Journal
from zenspark.journal.segment import SegmentIndex
from zenspark.spark.lake import Lake

pytestmark = pytest.mark.spark

DISK_BYTES = 24 << 20
INTERVAL_SECONDS = 0.005
STOPPED_SECONDS = float(os.environ.get("ZENSPARK_STOPPED_SECONDS", "3"))
"""How long the driver is stopped."""
HOUR_SECONDS, DAY_SECONDS = 3600, 86_400


@contextlib.contextmanager
def disk(path: Path) -> Iterator[bool]:
    """A small disk at a directory; whether there could be one."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
    try:
        is_there = subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        is_there = False
    try:
        yield is_there
    finally:
        if is_there:
            subprocess.run(["umount", "-l", str(path)], check=True)


@contextlib.contextmanager
def publishing(session: zenspark.Session) -> Iterator[Callable[[], int]]:
    """Numbers that are published all the time; how many there were."""
    is_over = threading.Event()
    count = 0

    def publish() -> None:
        nonlocal count
        while not is_over.wait(INTERVAL_SECONDS):
            session.put(f"up/{count % 10}", str(count), congestion_control=zenspark.CongestionControl.BLOCK)
            count += 1

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        yield lambda: count
    finally:
        is_over.set()
        publisher.join()


class Pipeline:
    """A running `up`: its processes, its journal and its lake."""

    def __init__(self, running: Up, session: zenspark.Session, journal: Path, lake: Lake) -> None:
        self.running = running
        self.session = session
        self.journal = journal
        self.lake = lake

    def problem(self) -> str:
        """Return the problem in its status."""
        (reply,) = self.session.get("@/*/router/zenspark/status")
        assert reply.ok is not None
        return str(json.loads(reply.ok.payload.to_bytes())["problem"])

    def ingest_process(self) -> psutil.Process:
        """The process that drives Spark."""
        (found,) = [
            child
            for child in psutil.Process(self.running.process.pid).children()
            if "zenspark.spark.ingest.process" in child.cmdline()
        ]
        return found

    def java(self) -> psutil.Process:
        return next(child for child in self.ingest_process().children(recursive=True) if child.name() == "java")

    def ingested_rows(self) -> int:
        return sum(self.lake.ingested().values())

    def wait_for_ingestion(self) -> None:
        """Wait until rows recorded from now on are ingested."""
        self.wait_for_recording()
        target = Journal(self.journal).latest()
        wait_for(lambda: self.ingested_rows() >= target, "nothing is ingested")

    def wait_for_recording(self) -> None:
        """Wait until more is recorded."""
        before = Journal(self.journal).latest()
        wait_for(lambda: Journal(self.journal).latest() > before + 10, "nothing is recorded")

    def fails(self, text: str) -> None:
        """Wait until the status shows why ingestion fails, and check that recording continues."""
        problems: list[str] = []

        def is_reported() -> bool:
            problems.append(self.problem())
            return text in problems[-1]

        try:
            wait_for(is_reported, f"not reported: {text}")
        except AssertionError as error:
            raise AssertionError(f"{error}; {set(problems)}; {self.running.lines}") from None
        self.wait_for_recording()


def test_recording_continues_during_ingestion_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, journal, lake = unused(), tmp_path / "disk-1" / "journal", tmp_path / "disk-2" / "lake"
    flags = ("--journal", str(journal), "--trigger", "200ms", "--refresh-interval", "1s", "--block-timeout", "never")
    with contextlib.ExitStack() as stack:
        disks = [stack.enter_context(disk(place.parent)) for place in (journal, lake)]
        clock = stack.enter_context(shifted_clock(tmp_path))
        with monkeypatch.context() as environment:
            for name, value in clock.environ.items():
                environment.setenv(name, value)
            running = stack.enter_context(up(endpoint, lake, *flags))
        running.wait_for("listens on")
        with zenspark.open(ours(mode="client", connect__endpoints=[endpoint])) as session:
            pipeline = Pipeline(running, session, journal, Lake(lake))
            with publishing(session) as count:
                pipeline.wait_for_ingestion()
                kill_java(pipeline)
                kill_process(pipeline)
                if all(disks):
                    make_read_only(pipeline)
                    fill_disk(pipeline)
                    fill_disk_of_journal(pipeline)
                stop_for_a_while(pipeline)
                step_clock(pipeline, clock)
                restore = poison_a_block(pipeline)
                pipeline.wait_for_ingestion()
            wait_for(lambda: Journal(journal).latest() == count(), "not all of it is recorded")
        os.kill(running.process.pid, signal.SIGTERM)
        assert running.ended() == 0, "\n".join(running.lines)
        assert not [line for line in running.lines if "Traceback" in line or "\tat " in line]
        (aside,) = Lake(lake).quarantine()
        restore()
        assert Lake(lake).retry_quarantine() == aside.num_rows
        rows = samples(lake)
        assert [int(row["payload"]) for row in rows] == list(range(count()))
        assert [row["offset"] for row in rows] == list(range(count()))


def kill_java(pipeline: Pipeline) -> None:
    pipeline.java().kill()
    pipeline.fails("Spark's Java process has ended")
    pipeline.wait_for_ingestion()


def kill_process(pipeline: Pipeline) -> None:
    pipeline.ingest_process().kill()
    pipeline.fails("ingest process was killed by signal 9")
    pipeline.wait_for_ingestion()


def make_read_only(pipeline: Pipeline) -> None:
    disk = str(Path(pipeline.lake.location.address).parent)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    pipeline.fails("Read-only file system")
    subprocess.run(["mount", "-o", f"remount,rw,size={DISK_BYTES}", disk], check=True)
    pipeline.wait_for_ingestion()


@contextlib.contextmanager
def full(disk: Path) -> Iterator[None]:
    """A disk without a free byte, as long as the context lasts."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)
    try:
        yield
    finally:
        ballast.unlink()


def fill_disk(pipeline: Pipeline) -> None:
    with full(Path(pipeline.lake.location.address).parent):
        pipeline.fails("No space left on device")
    pipeline.wait_for_ingestion()


def fill_disk_of_journal(pipeline: Pipeline) -> None:
    """Publishers wait: nothing more is acknowledged, and nothing is lost."""
    with full(pipeline.journal.parent):
        wait_for(lambda: "the disk is full" in "\n".join(pipeline.running.lines), "the full disk is not reported")
    pipeline.wait_for_ingestion()


def stop_for_a_while(pipeline: Pipeline) -> None:
    process = pipeline.ingest_process()
    process.suspend()
    before = pipeline.ingested_rows()
    until = time.monotonic() + STOPPED_SECONDS
    while time.monotonic() < until:
        pipeline.wait_for_recording()
    assert pipeline.ingested_rows() <= before + 1000  # a batch that was just being committed
    process.resume()
    pipeline.wait_for_ingestion()


def step_clock(pipeline: Pipeline, clock: ShiftedClock) -> None:
    for seconds in (-HOUR_SECONDS, DAY_SECONDS, 0):
        clock.set(seconds)
        pipeline.wait_for_ingestion()


def poison_a_block(pipeline: Pipeline) -> Callable[[], None]:
    """Damage a block before it is ingested. Returns a function that restores it."""
    process = pipeline.ingest_process()
    process.suspend()
    pipeline.wait_for_recording()
    with SegmentIndex(pipeline.journal, 0) as index:
        number = index.count - 1
    restore = poison(pipeline.journal, number)
    process.resume()
    wait_for(lambda: bool(pipeline.lake.quarantine()), "nothing is put aside")
    return restore


@pytest.mark.nightly
def test_recording_continues_while_s3_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, journal = unused(), tmp_path / "journal"
    flags = ("--journal", str(journal), "--trigger", "200ms", "--refresh-interval", "1s")
    with serving() as server, running_s3_proxy(server.endpoint) as proxy, contextlib.ExitStack() as stack:
        lake = f"s3://{server.bucket()}/lake"
        for name, value in (server.environ | {"AWS_ENDPOINT_URL": proxy.endpoint}).items():
            monkeypatch.setenv(name, value)
        proxy.refuses = True
        running = stack.enter_context(up(endpoint, lake, *flags))
        running.wait_for("listens on")
        session = stack.enter_context(zenspark.open(ours(mode="client", connect__endpoints=[endpoint])))
        pipeline = Pipeline(running, session, journal, Lake(lake, server.options))
        with publishing(session) as count:
            pipeline.fails(f"{proxy.endpoint} refuses the credentials")
            proxy.refuses = False
            pipeline.wait_for_ingestion()
            proxy.close()
            pipeline.fails("cannot be reached")
            proxy.open()
            pipeline.wait_for_ingestion()
        wait_for(lambda: Journal(journal).latest() == count(), "not all of it is recorded")
        os.kill(running.process.pid, signal.SIGTERM)
        assert running.ended() == 0, "\n".join(running.lines)
        assert not [line for line in running.lines if "Traceback" in line or "\tat " in line]
        rows = pipeline.lake.dataset("samples").to_table(columns=["payload", "offset"]).sort_by("offset").to_pylist()
        assert [(int(row["payload"]), row["offset"]) for row in rows] == [(n, n) for n in range(count())]
