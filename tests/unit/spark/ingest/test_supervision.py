"""When an ingest process is started, its query restarted, or killed: with numbers for times, and no process."""

from __future__ import annotations

from zenspark.spark.ingest.process_protocol import Alive, Drained, Failed, ProgressReport, SqlResult, Started, Waiting
from zenspark.spark.ingest.supervision import (
    MAX_FAILURES_PER_PROCESS,
    REPORT_TIMEOUT_SECONDS,
    IngestState,
    IngestTotals,
    ProcessAction,
    Supervision,
)


def running(now: float = 0.0) -> Supervision:
    """Supervision of a process that ingests."""
    supervision = Supervision(now)
    assert supervision.due(now) is ProcessAction.SPAWN
    supervision.spawned(now)
    supervision.receive(Started(), now)
    supervision.receive(ProgressReport(), now)
    assert supervision.state is IngestState.INGESTING
    return supervision


def waits(supervision: Supervision, now: float, times: int) -> list[float]:
    """How long it waits after each of so many failures."""
    found = []
    for _ in range(times):
        supervision.receive(Failed("no space"), now)
        found.append(supervision.next_due() - now)
        now = supervision.next_due()
        if supervision.due(now) is ProcessAction.KILL:
            supervision.killed(now)
            supervision.exited(-9, now)
            assert supervision.due(now) is ProcessAction.SPAWN
            supervision.spawned(now)
        supervision.query_restarted()
    return found


def test_process_starts_at_once_and_ingests() -> None:
    supervision = running()
    assert supervision.due(1.0) is None
    assert supervision.cause is None


def test_a_failure_is_tried_again_with_waits_that_double_up_to_a_minute_for_ever() -> None:
    assert waits(running(), 0.0, 9) == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_committed_batch_resets_the_backoff() -> None:
    supervision = running()
    assert waits(supervision, 0.0, 4) == [1, 2, 4, 8]
    supervision.receive(ProgressReport(batches=0), 20.0)
    assert supervision.cause == "no space"  # no batch is committed yet
    supervision.receive(ProgressReport(batches=1), 21.0)
    assert supervision.cause is None
    assert waits(supervision, 30.0, 2) == [1, 2]


def test_query_restarts_in_a_living_process() -> None:
    supervision = running()
    supervision.receive(Failed("no space"), 10.0)
    assert (supervision.state, supervision.due(10.5), supervision.retry_in(10.5)) == (IngestState.FAILED, None, 0.5)
    assert supervision.due(11.0) is ProcessAction.RESTART_QUERY
    supervision.query_restarted()
    assert (supervision.state, supervision.cause, supervision.due(12.0)) == (IngestState.STARTING, "no space", None)


def test_after_many_failures_another_process_is_tried() -> None:
    supervision, now = running(), 0.0
    actions = []
    for _ in range(MAX_FAILURES_PER_PROCESS):
        supervision.receive(Failed("no space"), now)
        now = supervision.next_due()
        actions.append(supervision.due(now))
        supervision.query_restarted()
    assert actions == [ProcessAction.RESTART_QUERY] * (MAX_FAILURES_PER_PROCESS - 1) + [ProcessAction.KILL]


def test_a_process_that_ends_is_replaced_after_a_while() -> None:
    supervision = running()
    supervision.exited(-9, 5.0)
    assert (supervision.state, supervision.cause) == (IngestState.FAILED, "ingest process was killed by signal 9")
    assert supervision.due(5.5) is None
    assert supervision.due(6.0) is ProcessAction.SPAWN
    supervision.spawned(6.0)
    supervision.exited(1, 7.0)
    assert supervision.cause == "ingest process ended with code 1"


def test_a_failure_that_was_reported_is_the_cause_and_not_the_end_of_the_process() -> None:
    supervision = running()
    supervision.receive(Failed("Spark's Java process has ended"), 5.0)
    supervision.exited(1, 5.1)
    assert supervision.cause == "Spark's Java process has ended"
    assert supervision.next_due() == 6.0


def test_a_process_that_cannot_be_started_is_tried_again() -> None:
    supervision = Supervision(0.0)
    supervision.could_not_spawn("Cannot allocate memory", 0.0)
    assert supervision.cause == "ingest process could not be started: Cannot allocate memory"
    assert (supervision.due(0.5), supervision.due(1.0)) == (None, ProcessAction.SPAWN)


def test_process_without_reports_is_killed() -> None:
    supervision = running()
    supervision.receive(Alive(), REPORT_TIMEOUT_SECONDS - 1)
    assert supervision.due(REPORT_TIMEOUT_SECONDS) is None
    late = 2 * REPORT_TIMEOUT_SECONDS
    assert supervision.due(late) is ProcessAction.KILL
    supervision.killed(late)
    assert supervision.due(late + 100) is None  # it will end
    supervision.exited(-9, late + 100)
    assert supervision.cause == "ingest process killed: no report for 301 s"
    assert supervision.due(late + 100) is ProcessAction.SPAWN


def test_waiting_for_another_process_is_no_failure() -> None:
    supervision = running()
    supervision.receive(Waiting("recorder robot is being ingested by pid 7"), 1.0)
    assert (supervision.state, supervision.due(2.0)) == (IngestState.WAITING, None)
    supervision.receive(ProgressReport(), 3.0)
    assert (supervision.state, supervision.cause) == (IngestState.INGESTING, None)


def test_the_end_is_the_end() -> None:
    supervision = running()
    supervision.receive(Drained("no time to refresh"), 1.0)
    supervision.receive(SqlResult(1), 1.0)
    supervision.exited(0, 2.0)
    assert (supervision.state, supervision.due(1e9)) == (IngestState.ENDED, None)
    assert supervision.maintenance == "no time to refresh"


def test_the_end_of_a_pipeline_does_not_wait_for_the_next_try() -> None:
    supervision = running()
    waits(supervision, 0.0, 6)
    supervision.receive(Failed("no space"), 100.0)
    supervision.retry_now(101.0)
    assert supervision.due(101.0) is ProcessAction.RESTART_QUERY


def test_rows_are_counted_over_processes_by_their_offsets() -> None:
    totals = IngestTotals()
    assert (totals.rows, totals.bytes) == (0, 0)
    totals.add(
        ProgressReport(committed_offsets={"a": 110, "b": 7}, rows=12, bytes=100, quarantined=3, duplicates=4, lost=2)
    )
    assert (totals.rows, totals.bytes, totals.quarantined, totals.duplicates, totals.lost) == (12, 100, 3, 4, 2)
    totals.end_process()
    totals.add(
        ProgressReport(committed_offsets={"a": 150, "b": 7}, rows=0)
    )  # a batch of 40 rows was committed and not reported
    assert (totals.rows, totals.bytes, totals.quarantined, totals.lost) == (52, 100, 3, 2)
    totals.add(ProgressReport(committed_offsets={"a": 160, "b": 7}, rows=10, bytes=50))
    assert (totals.rows, totals.bytes) == (62, 150)
