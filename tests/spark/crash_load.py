"""What the tests of crashes share: load on a journal, processes to kill, and the comparison of table and journal."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
from pyspark.sql import SparkSession

from tests.rows import samples
from zenspark.journal import Journal, JournalWriter, Policy
from zenspark.spark.lake import Lake

TIMEOUT_SECONDS = 180.0
"""Seconds for what takes a few on a machine that has nothing else to do."""
ROWS = 500
"""In a block of the load."""
TEMPLATE = samples(0, ROWS)
COLUMNS = [*TEMPLATE.schema.names, "recorder", "offset"]


def numbered(first: int) -> pa.RecordBatch:
    """Rows of the load, each with its number: made from the same rows again and again, which costs next to nothing."""
    counts = pa.array(range(first, first + ROWS), pa.int64())
    return TEMPLATE.set_column(TEMPLATE.schema.get_field_index("source_sn"), TEMPLATE.schema.field("source_sn"), counts)


def fill(path: Path, rows: int) -> None:
    """A journal of so many rows."""
    with JournalWriter(path, recorder="robot") as writer:
        while writer.end < rows:
            writer.append(numbered(writer.end))


@contextlib.contextmanager
def load(path: Path) -> Iterator[None]:
    """Rows come into a journal all the time."""
    is_over = threading.Event()

    def feed() -> None:
        with JournalWriter(path, Policy(segment_bytes=1 << 20), recorder="robot") as writer:
            while not is_over.wait(0.1):
                writer.append(numbered(writer.end))
                writer.flush()

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        is_over.set()
        feeder.join()


@contextlib.contextmanager
def job(journal: Path, lake: Path, master: str) -> Iterator[psutil.Popen]:
    """An ingest query in a separate process; whatever it started ends with it."""
    command = [sys.executable, "-m", "tests.spark.job", str(journal), str(lake), master]
    process = psutil.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ingesting\n"
        yield process
        finish(process)
    finally:
        kill(process)


def finish(process: psutil.Popen) -> int | None:
    """Let a job ingest the rest and end, unless it has ended already. Returns its exit code."""
    if process.returncode is None:
        process.communicate(timeout=TIMEOUT_SECONDS)
    code: int | None = process.returncode
    return code


def kill(process: psutil.Popen) -> None:
    """As kill -9 would, with all its children: a driver that is killed takes its JVM with it, but not at once."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = [process, *process.children(recursive=True)]
        for each in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
    process.communicate()


def executors(process: psutil.Popen) -> list[psutil.Process]:
    """The JVMs in which a job's tasks run."""
    found = []
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("CoarseGrainedExecutorBackend" in word for word in child.cmdline()):
                found.append(child)
    return found


def ingested_rows(lake: Path) -> int:
    """Up to which offset the table has the rows of the load."""
    return Lake(lake).ingested().get("robot", 0) if (lake / "samples" / "_delta_log").exists() else 0


def wait_for(condition: object, what: str) -> None:
    """Wait until something is so, but not for ever."""
    assert callable(condition)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def assert_equal(journal: Path, lake: Path) -> int:
    """The table has the rows of the journal, each once, and nothing else; how many."""
    source = Journal(journal)
    rows = pa.Table.from_batches(source.read(source.earliest(), source.latest()))
    table = Lake(lake).dataset("samples").to_table(columns=COLUMNS).sort_by("offset")
    assert table.num_rows == rows.num_rows
    for name in COLUMNS:
        kind = rows.schema.field(name).type
        assert table.column(name).cast(kind).combine_chunks() == rows.column(name).combine_chunks(), name
    return len(rows)


def assert_derived_tables(spark: SparkSession, lake: Path) -> None:
    """The derived tables are what follows from the samples."""
    found = Lake(lake)
    columns = ["key", "kind", "timestamp_ntp64", "offset"]
    rows = (
        found.dataset("samples")
        .to_table(columns=columns)
        .sort_by([("timestamp_ntp64", "ascending"), ("offset", "ascending")])
    )
    newest = dict(
        zip(
            rows["key"].to_pylist(), zip(rows["kind"].to_pylist(), rows["offset"].to_pylist(), strict=True), strict=True
        )
    )
    kept = {key: offset for key, (kind, offset) in newest.items() if kind == "PUT"}
    assert {row.key: row.offset for row in found.read(spark, "latest").select("key", "offset").collect()} == kept
    assert found.read(spark, "gaps").collect() == []
    assert sum(row.messages for row in found.read(spark, "traffic").select("messages").collect()) == rows.num_rows
