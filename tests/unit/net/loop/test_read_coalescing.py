"""When reading had better wait a moment."""

from __future__ import annotations

from zenspark.net.loop.read_coalescing import LARGE, MANY, PAUSE, Flow

ROOM = LARGE * 8


def flowing() -> Flow:
    """One that has just become a flow, at second 1."""
    flow = Flow()
    answers = [flow.deserves_rest(LARGE, ROOM, 0, 1.0) for _ in range(MANY + 1)]
    assert answers == [False] * MANY + [True]
    return flow


def test_many_large_reads_in_a_row_deserve_a_rest() -> None:
    assert flowing().deserves_rest(LARGE, ROOM, 0, 1.0 + PAUSE / 2)


def test_whoever_reads_all_there_is_room_for_goes_on() -> None:
    flow = flowing()
    assert not flow.deserves_rest(ROOM, ROOM, 0, 1.0)
    assert flow.deserves_rest(ROOM - 1, ROOM, 0, 1.0)


def test_a_flow_ends_with_a_small_read_a_word_or_a_pause() -> None:
    for count, said, now in ((LARGE - 1, 0, 1.0), (LARGE, 1, 1.0), (LARGE, 0, 1.0 + 2 * PAUSE)):
        flow = flowing()
        answers = [flow.deserves_rest(count if not step else LARGE, ROOM, said, now) for step in range(MANY + 1)]
        assert answers == [False] * MANY + [True]
