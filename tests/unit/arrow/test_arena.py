"""Payload arenas are as large as the rate of payloads needs."""

from __future__ import annotations

import time
from array import array

import pytest

from zenspark.arrow.arena import MAX_ARENA_BYTES, MIN_ARENA_BYTES, ArenaPool
from zenspark.wire.columns import BinaryColumn


def fill_arena(pool: ArenaPool) -> None:
    """Adds the same until there is a new arena."""
    arena = pool.arena
    while pool.arena is arena:
        pool.add(BinaryColumn.from_offsets(bytes(4096), array("i", [0, 4096])))


def test_arena_size_follows_the_payload_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pool = ArenaPool()
    sizes = []
    for wait in [0.0] * 9 + [0.5] * 2 + [2.0] * 9:
        now += wait
        fill_arena(pool)
        sizes.append(pool._size)
    assert sizes[:9] == [MIN_ARENA_BYTES, *(min(MIN_ARENA_BYTES << step, MAX_ARENA_BYTES) for step in range(1, 9))]
    assert sizes[9:11] == [MAX_ARENA_BYTES] * 2
    assert sizes[11:] == [max(MAX_ARENA_BYTES >> step, MIN_ARENA_BYTES) for step in range(1, 10)]
    size = MAX_ARENA_BYTES * 2
    assert pool.add(BinaryColumn.from_offsets(bytes(size), array("i", [0, size]))) == size
