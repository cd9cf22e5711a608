"""Crashes of recorder, driver and executors under load: afterwards the tables equal the journal, row by row."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import zenspark
from tests.interop.reference import unused
from tests.spark.crash_load import (
    assert_derived_tables,
    assert_equal,
    executors,
    finish,
    ingested_rows,
    job,
    kill,
    load,
    wait_for,
)
from zenspark.journal import Journal

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

TIMES = int(os.environ.get("ZENSPARK_CRASHES", "1"))
"""How often each is killed: once in `make test`, twenty times in `make crashes`."""


def test_killed_driver_loses_and_doubles_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    journal, lake = tmp_path / "journal", tmp_path / "lake"
    moments = random.Random(20)
    with load(journal):
        wait_for(lambda: (journal / "journal.json").exists(), "no journal")
        for _ in range(TIMES):
            before = ingested_rows(lake)
            with job(journal, lake, "local[2]") as process:
                wait_for(lambda: ingested_rows(lake) > before, "nothing is ingested")  # noqa: B023
                time.sleep(moments.uniform(0, 1))
                kill(process)
    with job(journal, lake, "local[2]") as process:
        assert finish(process) == 0
    assert assert_equal(journal, lake) == Journal(journal).latest()
    assert_derived_tables(spark, lake)


def test_killed_executors_lose_and_double_no_rows(tmp_path: Path) -> None:
    journal, lake = tmp_path / "journal", tmp_path / "lake"
    moments = random.Random(21)
    with load(journal):
        wait_for(lambda: (journal / "journal.json").exists(), "no journal")
        with job(journal, lake, "local-cluster[2,1,512]") as process:
            for _ in range(TIMES):
                before = ingested_rows(lake)
                wait_for(lambda: ingested_rows(lake) > before and executors(process), "nothing is ingested")  # noqa: B023
                time.sleep(moments.uniform(0, 0.5))
                moments.choice(executors(process)).kill()
            assert finish(process) == 0
    with job(journal, lake, "local[2]") as process:
        assert finish(process) == 0
    assert assert_equal(journal, lake) == Journal(journal).latest()


@contextlib.contextmanager
def running_publisher() -> Iterator[str]:
    """A node that publishes numbers all the time, and where it is."""
    place = unused()
    config = zenspark.Config.from_json5(
        f'{{mode: "router", listen: {{endpoints: ["{place}"]}}, scouting: {{multicast: {{enabled: false}}}}}}'
    )
    is_over = threading.Event()

    def publish() -> None:
        for number in itertools.count():
            if is_over.wait(0.001):
                return
            session.put(f"load/{number % 7}", str(number))

    with zenspark.open(config) as session:
        talker = threading.Thread(target=publish)
        talker.start()
        try:
            yield place
        finally:
            is_over.set()
            talker.join()


@contextlib.contextmanager
def recorder(journal: Path, place: str) -> Iterator[subprocess.Popen[bytes]]:
    """`zenspark record` in a process of its own, killed at the end."""
    where = ["--journal", str(journal), "-m", "client", "-e", place, "--no-multicast-scouting"]
    process = subprocess.Popen([sys.executable, "-m", "zenspark", "record", *where], stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_killed_recorder_keeps_acknowledged_rows(tmp_path: Path) -> None:
    """What was acknowledged before it died is there afterwards, and is ingested."""
    journal, lake = tmp_path / "journal", tmp_path / "lake"
    moments = random.Random(22)
    acknowledged: list[pa.Table] = []
    with running_publisher() as place, contextlib.ExitStack() as stack:
        for round_ in range(TIMES):
            before = sum(map(len, acknowledged))
            with recorder(journal, place):
                wait_for(lambda: acknowledged_in(journal) > before, "nothing is recorded")  # noqa: B023
                if not round_:
                    process = stack.enter_context(job(journal, lake, "local[2]"))
                time.sleep(moments.uniform(0, 0.3))
                acknowledged.append(rows_of(journal, before))
        assert rows_of(journal, 0).slice(0, sum(map(len, acknowledged))) == pa.concat_tables(acknowledged)
        with recorder(journal, place):  # whatever the last crash left at the end is cut away
            wait_for(lambda: acknowledged_in(journal) > sum(map(len, acknowledged)), "nothing is recorded")
        assert finish(process) == 0
    assert assert_equal(journal, lake) == Journal(journal).latest()


def acknowledged_in(journal: Path) -> int:
    return Journal(journal).latest() if (journal / "journal.json").exists() else 0


def rows_of(journal: Path, start: int) -> pa.Table:
    source = Journal(journal)
    return pa.Table.from_batches(source.read(start, source.latest()))
