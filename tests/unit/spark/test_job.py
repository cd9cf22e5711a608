from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.reference import eventually, ours
from zenspark.errors import LakeError
from zenspark.journal import Journal
from zenspark.spark.job import Job, JobEnded
from zenspark.spark.lake.landing import Progress as LandingProgress
from zenspark.spark.storage.settings import StorageSettings


class Lands:
    """A landing that does as it is told."""

    def __init__(self, problem: str | None = None, fails: bool = False) -> None:
        self.problem = problem
        self.fails = fails
        self.stopped = 0

    def wait(self, timeout: float) -> bool:
        return self.fails

    def progress(self) -> LandingProgress:
        return LandingProgress(7, 100, 2, 0.5, None, 1.5, 3, self.problem)

    def stop(self, timeout: float = 60.0) -> None:
        self.stopped += 1
        if self.fails:
            raise LakeError("lake", "broken")


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    settings = [
        StorageSettings(name="a", key_exprs=("a/**",), journal=tmp_path / "j", lake=str(tmp_path / "lake")),
        StorageSettings(name="b", key_exprs=("b/**",), journal=tmp_path / "j", lake=str(tmp_path / "lake")),
        StorageSettings(name="c", key_exprs=("c/**",), journal=tmp_path / "k"),
        StorageSettings(
            name="d", key_exprs=("d/**",), journal=tmp_path / "l", lake=str(tmp_path / "other"), record=False
        ),
    ]
    made = Job(ours(mode="peer"), settings)
    yield made
    made.close()


def test_each_lake_gets_the_journals_that_are_recorded_for_it(job: Job, tmp_path: Path) -> None:
    assert job._journals() == {str(tmp_path / "lake"): [tmp_path / "j"]}


def test_it_records_answers_and_drains(job: Job, tmp_path: Path) -> None:
    job.storages.settings = job.storages.settings[2:3]
    job.record()
    job.check()
    for number in range(100):
        job.session.put(f"c/{number % 10}", str(number))
    assert eventually(lambda: len(list(job.session.get("c/*"))) == 10)
    assert job.progress().keys == 10
    job.drain()
    assert Journal(tmp_path / "k").latest() == 100
    assert job.progress().recorded == 100
    with pytest.raises(JobEnded, match="recording"):
        job.check()


def test_progress_sums_up_what_landings_tell(job: Job) -> None:
    job.landings = {Path("one"): Lands(), Path("two"): Lands("the disk is full")}  # type: ignore[dict-item]
    found = job.progress()
    assert (found.landed, found.waiting, found.bytes) == (14, 6, 200)
    assert (found.lag, found.batch_seconds, found.problem) == (1.5, 0.5, "the disk is full")


def test_a_landing_that_ended_ends_the_job_once(job: Job) -> None:
    landing = Lands(fails=True)
    job.landings = {Path("one"): landing}  # type: ignore[dict-item]
    with pytest.raises(JobEnded, match="landing in one"):
        job.check()
    with pytest.raises(LakeError):
        job.drain()
    job.close()
    assert landing.stopped == 2
