"""Periodic maintenance with a fake lake; tests/spark/test_lake_ingest.py runs it with Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.wait import until
from zenspark.errors import LakeError
from zenspark.lake.maintenance_config import MaintenanceConfig
from zenspark.spark.ingest import maintenance_schedule
from zenspark.spark.ingest.maintenance import Retention, RetentionRule
from zenspark.spark.ingest.maintenance_schedule import (
    PeriodicMaintenance,
    TableMaintenance,
    make_retention,
    to_key_expr,
)
from zenspark.spark.ingest.public_table import PublishResult


class Context:
    """As much of Spark as the threads themselves use."""

    def __init__(self) -> None:
        self.sparkContext: Any = self
        self.cancelled: list[str] = []
        self.on_cancel: Callable[[], None] = self.cancelled.clear

    def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:
        assert interruptOnCancel

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)
        self.on_cancel()


class Leases:
    """A lease that is held, or not."""

    def __init__(self, maintains: bool = True, refusals: int = 1_000_000) -> None:
        self.maintains = maintains
        self.refusals = refusals
        """How many more attempts find it held by another process."""

    def maintain_now(self) -> bool:
        self.refusals -= 1
        self.maintains = self.maintains or self.refusals == -1
        return self.maintains


class Tables:
    """A fake lake that records calls, and fails the first time."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.rounds = threading.Semaphore(0)
        self.compacted = threading.Semaphore(0)
        self.retention: Retention | None = None
        self.publishing = 0.0
        """Reported duration of a write of the public tables."""
        self.location: Any = self
        self.address = "lake"
        self.path_problem: str | None = None
        """Error of the storage path check."""
        self.unrefreshed = 0
        """How many more checks find derived tables that are not refreshed."""

    def is_refreshed(self) -> bool:
        self.unrefreshed -= 1
        return self.unrefreshed < 0

    def check(self) -> None:
        if self.path_problem is not None:
            raise LakeError("s3://b/lake", self.path_problem)

    def observe(self, journals: object, reader: str) -> None:
        self.calls.append("observe")

    def refresh(self, spark: object) -> None:
        self.calls.append("refresh")
        self.rounds.release()
        if self.calls.count("refresh") == 1:
            raise LakeError("latest", "not now")

    def publish(self, spark: object) -> PublishResult:
        self.calls.append("publish")
        return PublishResult(self.publishing, 1)

    def compact(self, spark: object) -> int:
        self.calls.append("compact")
        return 3

    def expire(self, retention: Retention, spark: object) -> int:
        self.retention = retention
        self.calls.append("expire")
        return 2

    def set_history(self, history: timedelta) -> None:
        self.calls.append("set_history")

    def vacuum(self, retention: timedelta | None = None, *, full: bool = False) -> int:
        self.calls.append(f"vacuum {retention} {full}")
        return 1

    def checkpoint(self) -> None:
        self.calls.append("checkpoint")
        self.compacted.release()


def maintenance(lake: Any, spark: Any, config: MaintenanceConfig, maintains: bool = True) -> TableMaintenance:  # noqa: ANN401 - fakes
    leases: Any = Leases(maintains)
    return TableMaintenance(spark, lake, [], "me", config, leases)


def test_failed_run_is_retried_and_finish_refreshes() -> None:
    lake, spark = Tables(), Context()
    found = maintenance(lake, spark, MaintenanceConfig(refresh_interval=0.001, compact_interval=1000.0))
    found.start()
    for _ in range(3):
        assert lake.rounds.acquire(timeout=30)
    found.stop()
    assert found.problem is None
    assert lake.calls[:5] == ["observe", "refresh", "observe", "refresh", "publish"]
    lake.calls[:] = ["refresh"]  # the first refresh fails
    found.finish()
    assert (lake.calls[1:], found.problem) == (["observe", "refresh", "publish"], None)


def test_finish_takes_over_maintenance_when_the_other_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two pipelines that ended one after the other, none refreshed the tables with the last rows of the second."""
    monkeypatch.setattr(maintenance_schedule, "HANDOVER_POLL_INTERVAL_SECONDS", 0.0)
    lake = Tables()
    lake.calls.append("refresh")  # so that none fails
    lake.unrefreshed = 100
    leases: Any = Leases(maintains=False, refusals=3)
    TableMaintenance(Context(), lake, [], "me", MaintenanceConfig(), leases).finish()  # type: ignore[arg-type]
    assert lake.calls[1:] == ["observe", "refresh", "publish"]


def test_handover_when_the_other_process_refreshes_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance_schedule, "HANDOVER_POLL_INTERVAL_SECONDS", 0.0)
    lake = Tables()
    lake.unrefreshed = 3
    leases: Any = Leases(maintains=False, refusals=100)
    TableMaintenance(Context(), lake, [], "me", MaintenanceConfig(), leases).finish()  # type: ignore[arg-type]
    assert lake.calls == ["observe"]


def test_end_of_a_maintenance_thread_is_logged_as_its_end(caplog: pytest.LogCaptureFixture) -> None:
    class EndedJava(Context):
        def setJobGroup(self, group: str, description: str, interruptOnCancel: bool) -> None:
            raise LakeError("Spark", "Java has ended")

    maintained = PeriodicMaintenance(EndedJava(), "lake", "refresh", 0.0, lambda: "done")  # type: ignore[arg-type]
    maintained.start()
    until(lambda: maintained.problem is not None)
    maintained.stop()
    assert caplog.messages == ["lake: table maintenance ended: refresh: Spark: Java has ended"]


def test_error_is_reported_in_one_line() -> None:
    lake = Tables()
    found = maintenance(lake, Context(), MaintenanceConfig())
    found.finish()
    assert found.problem == "refresh: latest: not now"
    refresh, compaction = found.runs
    assert (refresh.task, refresh.result, refresh.is_failed) == ("refresh", "latest: not now", True)
    assert refresh.time is not None
    assert (compaction.task, compaction.time, compaction.result) == ("compaction", None, None)
    found.finish()
    assert found.problem is None
    assert (found.runs[0].result, found.runs[0].is_failed) == (
        "derived tables refreshed, 1 rows written to public tables",
        False,
    )


def test_next_run_is_reported_between_runs_and_not_while_running() -> None:
    lake = Tables()
    found = maintenance(lake, Context(), MaintenanceConfig(refresh_interval=1000.0, compact_interval=0.001))
    found.start()
    for _ in range(2):
        assert lake.compacted.acquire(timeout=30)
    assert until(lambda: found.runs[0].next is not None)
    found.stop()
    compaction = found.runs[1]
    assert compaction.result == "3 files fewer, 2 expired, 1 deleted from disk"  # the first run deletes 2
    assert compaction.seconds is not None
    running: list[float | None] = []

    def work() -> str:
        running.append(task.last_run.next)
        return "done"

    task = PeriodicMaintenance(Context(), "lake", "refresh", 0.0, work)  # type: ignore[arg-type]
    task.run_once()
    assert (running, task.last_run.result) == ([None], "done")


def test_slow_publishing_is_rate_limited_and_finish_always_publishes() -> None:
    lake = Tables()
    lake.calls.append("refresh")  # so that none fails
    lake.publishing = 1000.0
    found = maintenance(lake, Context(), MaintenanceConfig())
    for _ in range(3):
        found._refresh()
    assert lake.calls.count("publish") == 1
    found.finish()
    assert lake.calls[-1] == "publish"


def test_storage_path_error_replaces_its_consequence() -> None:
    lake = Tables()
    lake.path_problem = "http://127.0.0.1:9 cannot be reached"
    found = maintenance(lake, Context(), MaintenanceConfig())
    found.finish()
    assert found.problem == "refresh: s3://b/lake: http://127.0.0.1:9 cannot be reached"


def test_compaction_is_done_beside_refreshes() -> None:
    lake = Tables()
    found = maintenance(
        lake, Context(), MaintenanceConfig(refresh_interval=1000.0, compact_interval=0.001, retain_bytes=5)
    )
    found.start()
    for _ in range(2):
        assert lake.compacted.acquire(timeout=30)
    found.stop()
    assert lake.calls[:11] == [
        *("compact", "expire", "set_history", "vacuum None False", "vacuum 1:00:00 True", "checkpoint"),
        *("compact", "expire", "set_history", "vacuum None False", "checkpoint"),
    ]
    assert lake.retention == Retention(None, 5)


def test_one_of_several_processes_maintains_the_tables() -> None:
    lake = Tables()
    found = maintenance(lake, Context(), MaintenanceConfig(), maintains=False)
    found.finish()
    found._compact()
    assert lake.calls == ["observe"]
    assert found.runs[0].result == "another process maintains the tables"


def test_running_jobs_are_cancelled_on_stop_without_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance_schedule, "JOIN_TIMEOUT_SECONDS", 0.0)
    spark, began, cancelled = Context(), threading.Event(), threading.Event()
    spark.on_cancel = cancelled.set

    def work() -> str:
        began.set()
        assert cancelled.wait(30)
        raise LakeError("latest", "cancelled")

    task = PeriodicMaintenance(spark, "lake", "refresh", 0.0, work)  # type: ignore[arg-type]
    task.start()
    assert began.wait(30)
    task.stop()
    assert (task.problem, spark.cancelled[0]) == (None, "zenspark-refresh")


def test_rules_are_key_expressions_or_prefixes() -> None:
    config = MaintenanceConfig(retain_age=60.0, retain={"fleet/*/camera/**": 7.0, "poses": None})
    assert make_retention(config) == Retention(
        timedelta(seconds=60),
        None,
        (RetentionRule("fleet/*/camera/**", timedelta(seconds=7)), RetentionRule("poses/**", None)),
    )
    assert [to_key_expr(text) for text in ("a", "a/b/", "a/*")] == ["a/**", "a/b/**", "a/*"]
