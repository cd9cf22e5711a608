"""When an ingest process is started, its query restarted, or killed: with numbers for times, and no process."""

from __future__ import annotations

from zenspark.spark.ingest.process_protocol import Drained, Failed, IngestHeartbeat, ProgressReport, Started, Waiting
from zenspark.spark.ingest.supervisor_state import (
    MAX_FAILURES_PER_PROCESS,
    REPORT_TIMEOUT_SECONDS,
    IngestState,
    IngestTotals,
    ProcessAction,
    SupervisorState,
)


def running(now: float = 0.0) -> SupervisorState:
    """State of the supervisor of a process that ingests."""
    state = SupervisorState(now)
    assert state.due(now) is ProcessAction.SPAWN
    state.on_spawned(now)
    state.receive(Started(), now)
    state.receive(ProgressReport(), now)
    assert state.ingest_state is IngestState.INGESTING
    return state


def waits(state: SupervisorState, now: float, times: int) -> list[float]:
    """How long it waits after each of so many failures."""
    found = []
    for _ in range(times):
        state.receive(Failed("no space"), now)
        found.append(state.next_due() - now)
        now = state.next_due()
        if state.due(now) is ProcessAction.KILL:
            state.on_killed(now)
            state.on_exited(-9, now)
            assert state.due(now) is ProcessAction.SPAWN
            state.on_spawned(now)
        state.on_query_restarted()
    return found


def test_process_starts_at_once_and_ingests() -> None:
    state = running()
    assert state.due(1.0) is None
    assert state.cause is None


def test_retry_backoff_doubles_up_to_a_minute() -> None:
    assert waits(running(), 0.0, 9) == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_committed_batch_resets_the_backoff() -> None:
    state = running()
    assert waits(state, 0.0, 4) == [1, 2, 4, 8]
    state.receive(ProgressReport(batches=0), 20.0)
    assert state.cause == "no space"  # no batch is committed yet
    state.receive(ProgressReport(batches=1), 21.0)
    assert state.cause is None
    assert waits(state, 30.0, 2) == [1, 2]


def test_query_restarts_in_a_living_process() -> None:
    state = running()
    state.receive(Failed("no space"), 10.0)
    assert (state.ingest_state, state.due(10.5), state.retry_in(10.5)) == (IngestState.FAILED, None, 0.5)
    assert state.due(11.0) is ProcessAction.RESTART_QUERY
    state.on_query_restarted()
    assert (state.ingest_state, state.cause, state.due(12.0)) == (IngestState.STARTING, "no space", None)


def test_process_is_killed_after_max_failures() -> None:
    state, now = running(), 0.0
    actions = []
    for _ in range(MAX_FAILURES_PER_PROCESS):
        state.receive(Failed("no space"), now)
        now = state.next_due()
        actions.append(state.due(now))
        state.on_query_restarted()
    assert actions == [ProcessAction.RESTART_QUERY] * (MAX_FAILURES_PER_PROCESS - 1) + [ProcessAction.KILL]


def test_exited_process_is_respawned_after_the_backoff() -> None:
    state = running()
    state.on_exited(-9, 5.0)
    assert (state.ingest_state, state.cause) == (IngestState.FAILED, "ingest process was killed by signal 9")
    assert state.due(5.5) is None
    assert state.due(6.0) is ProcessAction.SPAWN
    state.on_spawned(6.0)
    state.on_exited(1, 7.0)
    assert state.cause == "ingest process ended with code 1"


def test_reported_failure_takes_precedence_over_process_exit() -> None:
    state = running()
    state.receive(Failed("Spark's Java process has ended"), 5.0)
    state.on_exited(1, 5.1)
    assert state.cause == "Spark's Java process has ended"
    assert state.next_due() == 6.0


def test_failed_spawn_is_retried() -> None:
    state = SupervisorState(0.0)
    state.on_spawn_failed("Cannot allocate memory", 0.0)
    assert state.cause == "ingest process could not be started: Cannot allocate memory"
    assert (state.due(0.5), state.due(1.0)) == (None, ProcessAction.SPAWN)


def test_process_without_reports_is_killed() -> None:
    state = running()
    state.receive(IngestHeartbeat(), REPORT_TIMEOUT_SECONDS - 1)
    assert state.due(REPORT_TIMEOUT_SECONDS) is None
    late = 2 * REPORT_TIMEOUT_SECONDS
    assert state.due(late) is ProcessAction.KILL
    state.on_killed(late)
    assert state.due(late + 100) is None  # it will end
    state.on_exited(-9, late + 100)
    assert state.cause == "ingest process killed: no report for 301 s"
    assert state.due(late + 100) is ProcessAction.SPAWN


def test_waiting_for_another_process_is_no_failure() -> None:
    state = running()
    state.receive(Waiting("recorder robot is being ingested by pid 7"), 1.0)
    assert (state.ingest_state, state.due(2.0)) == (IngestState.WAITING, None)
    state.receive(ProgressReport(), 3.0)
    assert (state.ingest_state, state.cause) == (IngestState.INGESTING, None)


def test_drained_process_is_not_respawned() -> None:
    state = running()
    state.receive(Drained("no time to refresh"), 1.0)
    state.on_exited(0, 2.0)
    assert (state.ingest_state, state.due(1e9)) == (IngestState.ENDED, None)
    assert state.maintenance_error == "no time to refresh"


def test_retry_now_skips_the_backoff() -> None:
    state = running()
    waits(state, 0.0, 6)
    state.receive(Failed("no space"), 100.0)
    state.retry_now(101.0)
    assert state.due(101.0) is ProcessAction.RESTART_QUERY


def test_ingest_totals_count_rows_by_offsets_across_processes() -> None:
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
