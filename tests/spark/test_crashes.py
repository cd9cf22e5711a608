"""Crashes of the driver and of executors under load: afterwards the table equals the journal, row by row."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.spark.crashing import assert_equal, executors, finish, job, kill, landed, load, wait_for
from zenspark.journal import Journal

pytestmark = pytest.mark.spark

TIMES = 20


def test_the_driver_is_killed_again_and_again(tmp_path: Path) -> None:
    journal, lake = tmp_path / "journal", tmp_path / "lake"
    moments = random.Random(20)
    with load(journal):
        wait_for(lambda: (journal / "journal.json").exists(), "no journal")
        for _ in range(TIMES):
            before = landed(lake)
            with job(journal, lake, "local[2]") as process:
                wait_for(lambda: landed(lake) > before, "nothing lands")  # noqa: B023
                time.sleep(moments.uniform(0, 1))
                kill(process)
    with job(journal, lake, "local[2]") as process:
        assert finish(process) == 0
    assert assert_equal(journal, lake) == Journal(journal).latest()


def test_executors_are_killed_again_and_again(tmp_path: Path) -> None:
    journal, lake = tmp_path / "journal", tmp_path / "lake"
    moments = random.Random(21)
    with load(journal):
        wait_for(lambda: (journal / "journal.json").exists(), "no journal")
        with job(journal, lake, "local-cluster[2,1,512]") as process:
            for _ in range(TIMES):
                before = landed(lake)
                wait_for(lambda: landed(lake) > before and executors(process), "nothing lands")  # noqa: B023
                time.sleep(moments.uniform(0, 0.5))
                moments.choice(executors(process)).kill()
            assert finish(process) == 0
    with job(journal, lake, "local[2]") as process:
        assert finish(process) == 0
    assert assert_equal(journal, lake) == Journal(journal).latest()
