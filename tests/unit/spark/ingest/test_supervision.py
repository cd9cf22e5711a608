"""When a landing process is started, told to try again, or killed: with numbers for times, and no process."""

from __future__ import annotations

from zenspark.spark.ingest.process_protocol import Alive, Answer, Drained, Failed, Landed, Started, Waiting
from zenspark.spark.ingest.supervision import (
    MAX_FAILURES_PER_PROCESS,
    SILENCE_SECONDS,
    Action,
    State,
    Supervision,
    Tally,
)


def running(now: float = 0.0) -> Supervision:
    """A landing whose process lands."""
    supervision = Supervision(now)
    assert supervision.due(now) is Action.SPAWN
    supervision.spawned(now)
    supervision.receive(Started(), now)
    supervision.receive(Landed(), now)
    assert supervision.state is State.LANDING
    return supervision


def waits(supervision: Supervision, now: float, times: int) -> list[float]:
    """How long it waits after each of so many failures."""
    found = []
    for _ in range(times):
        supervision.receive(Failed("no space"), now)
        found.append(supervision.next_due() - now)
        now = supervision.next_due()
        if supervision.due(now) is Action.KILL:
            supervision.killed(now)
            supervision.exited(-9, now)
            assert supervision.due(now) is Action.SPAWN
            supervision.spawned(now)
        supervision.ordered()
    return found


def test_a_process_is_started_at_once_and_lands() -> None:
    supervision = running()
    assert supervision.due(1.0) is None
    assert supervision.cause is None


def test_a_failure_is_tried_again_with_waits_that_double_up_to_a_minute_for_ever() -> None:
    assert waits(running(), 0.0, 9) == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_batch_that_lands_starts_the_waits_afresh() -> None:
    supervision = running()
    assert waits(supervision, 0.0, 4) == [1, 2, 4, 8]
    supervision.receive(Landed(batches=0), 20.0)
    assert supervision.cause == "no space"  # nothing has landed yet
    supervision.receive(Landed(batches=1), 21.0)
    assert supervision.cause is None
    assert waits(supervision, 30.0, 2) == [1, 2]


def test_a_process_that_lives_is_told_to_try_again() -> None:
    supervision = running()
    supervision.receive(Failed("no space"), 10.0)
    assert (supervision.state, supervision.due(10.5), supervision.retry_in(10.5)) == (State.FAILED, None, 0.5)
    assert supervision.due(11.0) is Action.LAND
    supervision.ordered()
    assert (supervision.state, supervision.cause, supervision.due(12.0)) == (State.STARTING, "no space", None)


def test_after_many_failures_another_process_is_tried() -> None:
    supervision, now = running(), 0.0
    actions = []
    for _ in range(MAX_FAILURES_PER_PROCESS):
        supervision.receive(Failed("no space"), now)
        now = supervision.next_due()
        actions.append(supervision.due(now))
        supervision.ordered()
    assert actions == [Action.LAND] * (MAX_FAILURES_PER_PROCESS - 1) + [Action.KILL]


def test_a_process_that_ends_is_replaced_after_a_while() -> None:
    supervision = running()
    supervision.exited(-9, 5.0)
    assert (supervision.state, supervision.cause) == (State.FAILED, "the landing process was killed by signal 9")
    assert supervision.due(5.5) is None
    assert supervision.due(6.0) is Action.SPAWN
    supervision.spawned(6.0)
    supervision.exited(1, 7.0)
    assert supervision.cause == "the landing process ended with code 1"


def test_a_failure_that_was_reported_is_the_cause_and_not_the_end_of_the_process() -> None:
    supervision = running()
    supervision.receive(Failed("Spark's Java process has ended"), 5.0)
    supervision.exited(1, 5.1)
    assert supervision.cause == "Spark's Java process has ended"
    assert supervision.next_due() == 6.0


def test_a_process_that_cannot_be_started_is_tried_again() -> None:
    supervision = Supervision(0.0)
    supervision.could_not_spawn("Cannot allocate memory", 0.0)
    assert supervision.cause == "the landing process could not be started: Cannot allocate memory"
    assert (supervision.due(0.5), supervision.due(1.0)) == (None, Action.SPAWN)


def test_a_process_that_does_not_report_is_killed_and_one_that_does_is_not() -> None:
    supervision = running()
    supervision.receive(Alive(), SILENCE_SECONDS - 1)
    assert supervision.due(SILENCE_SECONDS) is None
    late = 2 * SILENCE_SECONDS
    assert supervision.due(late) is Action.KILL
    supervision.killed(late)
    assert supervision.due(late + 100) is None  # it will end
    supervision.exited(-9, late + 100)
    assert supervision.cause == "the landing process had not reported for 301 s, and was killed"
    assert supervision.due(late + 100) is Action.SPAWN


def test_waiting_for_another_process_is_no_failure() -> None:
    supervision = running()
    supervision.receive(Waiting("recorder robot is being landed by pid 7"), 1.0)
    assert (supervision.state, supervision.due(2.0)) == (State.WAITING, None)
    supervision.receive(Landed(), 3.0)
    assert (supervision.state, supervision.cause) == (State.LANDING, None)


def test_the_end_is_the_end() -> None:
    supervision = running()
    supervision.receive(Drained("no time to refresh"), 1.0)
    supervision.receive(Answer(1), 1.0)
    supervision.exited(0, 2.0)
    assert (supervision.state, supervision.due(1e9)) == (State.ENDED, None)
    assert supervision.maintenance == "no time to refresh"


def test_the_end_of_a_pipeline_does_not_wait_for_the_next_try() -> None:
    supervision = running()
    waits(supervision, 0.0, 6)
    supervision.receive(Failed("no space"), 100.0)
    supervision.hurry(101.0)
    assert supervision.due(101.0) is Action.LAND


def test_rows_are_counted_over_processes_by_their_offsets() -> None:
    tally = Tally()
    assert (tally.rows, tally.bytes) == (0, 0)
    tally.add(Landed(reached={"a": 110, "b": 7}, rows=12, bytes=100, quarantined=3, duplicates=4, lost=2))
    assert (tally.rows, tally.bytes, tally.quarantined, tally.duplicates, tally.lost) == (12, 100, 3, 4, 2)
    tally.end_process()
    tally.add(Landed(reached={"a": 150, "b": 7}, rows=0))  # a batch of 40 rows was committed and not reported
    assert (tally.rows, tally.bytes, tally.quarantined, tally.lost) == (52, 100, 3, 2)
    tally.add(Landed(reached={"a": 160, "b": 7}, rows=10, bytes=50))
    assert (tally.rows, tally.bytes) == (62, 150)
