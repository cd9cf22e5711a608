"""The thread that does what is due; tests/spark/test_lake_landing.py runs it with Spark."""

import threading
from typing import Any

from zenspark.errors import LakeError
from zenspark.spark.lake.upkeep import JOBS, Care, Upkeep


class Context:
    """As much of Spark as the thread itself uses."""

    def __init__(self) -> None:
        self.sparkContext: Any = self
        self.cancelled: list[str] = []

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:
        assert interruptOnCancel

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)


class Tables:
    """As much of a lake: it says what is called, and fails the first time."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.rounds = threading.Semaphore(0)

    def observe(self, journals: object, reader: str) -> None:
        self.calls.append("observe")

    def fold(self, spark: object) -> None:
        self.calls.append("fold")
        self.rounds.release()
        if self.calls.count("fold") == 1:
            raise LakeError("latest", "not now")

    def compact(self, spark: object) -> None:
        self.calls.append("compact")

    def retain(self, age: object, most: object) -> None:
        self.calls.append("retain")

    def sweep(self, grace: object) -> None:
        self.calls.append("sweep")


def test_what_fails_is_tried_again_and_the_last_is_brought_in_at_the_end() -> None:
    lake: Any = Tables()
    spark: Any = Context()
    upkeep = Upkeep(spark, lake, [], "me", Care(fold_every=0.001, compact_every=0.0))
    upkeep.start()
    for _ in range(3):
        assert lake.rounds.acquire(timeout=30)
    upkeep.stop(fold=True)
    assert upkeep.problem is None
    assert lake.calls[:7] == ["observe", "fold", "observe", "fold", "compact", "retain", "sweep"]
    assert lake.calls[-2:] == ["observe", "fold"]
    assert set(spark.cancelled) <= {JOBS}
