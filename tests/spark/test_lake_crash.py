"""A driver that is killed while it lands: afterwards the table equals the journal."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.conftest import Recorded
from tests.spark.lakes import everything, expected, plain, rows_from
from zenspark.spark.lake import Lake
from zenspark.spark.lake.landing import Landing

pytestmark = pytest.mark.spark

KILLS = 2
ROWS = 600
BOUND = 240.0


@contextmanager
def landing_process(journal: Path, lake: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Driver and JVM in a group of their own; in the end nothing of it is left."""
    command = [sys.executable, str(Path(__file__).with_name("landing_process.py")), str(journal), str(lake)]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_the_table_equals_the_journal_after_kills_at_any_moment(
    spark: SparkSession, tmp_path: Path, recorded: Recorded
) -> None:
    dice = random.Random(4)
    journal, lake = recorded(ROWS), Lake(tmp_path / "lake")
    for _ in range(KILLS):
        aim = lake.landed().get("robot", 0) + dice.randrange(20, 80)
        deadline = time.monotonic() + BOUND
        with landing_process(journal, tmp_path / "lake") as process:
            while lake.landed().get("robot", 0) < aim:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(dice.random() * 0.1)
    assert 0 < lake.landed()["robot"] < ROWS
    landing = Landing(spark, [journal], lake, trigger=None)
    landing.start()
    assert landing.wait(BOUND)
    landing.stop()
    rows = rows_from(0, ROWS)
    assert everything(lake) == expected(rows)
    assert plain(lake.read(spark, "gaps")) == []
    assert sum(row["messages"] for row in plain(lake.read(spark, "traffic"))) == ROWS
    newest = {row["key"]: row for row in rows}
    kept = {key: row["offset"] for key, row in newest.items() if row["kind"] == "PUT"}
    assert {row["key"]: row["offset"] for row in plain(lake.read(spark, "latest"))} == kept
