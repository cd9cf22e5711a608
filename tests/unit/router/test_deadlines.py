"""Deadlines: in order, each once, and not for what is settled."""

from __future__ import annotations

from zenspark.router.deadlines import MIN_COMPACTION_ENTRIES, Deadlines


def test_next_is_the_earliest_open_deadline() -> None:
    settled: set[str] = set()
    deadlines: Deadlines[str] = Deadlines(lambda item, _: item not in settled)
    assert deadlines.next() is None
    for item, when in (("late", 3.0), ("early", 1.0), ("middle", 2.0)):
        deadlines.add(item, when)
    assert deadlines.next() == 1.0
    settled.add("early")
    assert deadlines.next() == 2.0
    assert deadlines.pop_due(1.9) == []
    assert deadlines.pop_due(3.0) == ["middle", "late"]
    assert deadlines.pop_due(9.0) == []


def test_closed_deadlines_are_compacted() -> None:
    settled: set[int] = set()
    deadlines: Deadlines[int] = Deadlines(lambda item, _: item not in settled)
    deadlines.add(-1, 1.0)
    for number in range(20 * MIN_COMPACTION_ENTRIES):
        deadlines.add(number, 3600.0)
        settled.add(number)
        assert len(deadlines._heap) <= MIN_COMPACTION_ENTRIES + 1
    assert deadlines.pop_due(2.0) == [-1]
    assert deadlines.next() is None
