"""Looking for a moment, and whether that is worth it."""

from __future__ import annotations

import select
import socket

import pytest

from zenspark.net.loop import busy_poll
from zenspark.net.loop.busy_poll import (
    MAX_BUSY_POLL_SECONDS,
    MISSES_BEFORE_DISABLE,
    PROBE_INTERVAL_EXCHANGES,
    BusyPoller,
    poll_for,
)

IS_COMPILED = not busy_poll.__file__.endswith(".py")


def test_busy_poll_returns_events() -> None:
    one, other = socket.socketpair()
    with one, other, select.epoll() as poller:
        poller.register(one, select.EPOLLIN)
        assert not poll_for(poller.fileno(), MAX_BUSY_POLL_SECONDS)
        other.send(b"x")
        assert poll_for(poller.fileno(), MAX_BUSY_POLL_SECONDS) is IS_COMPILED


class Eyes:
    """A poll function with given results."""

    def __init__(self) -> None:
        self.poll = True
        self.asked: list[float] = []

    def __call__(self, descriptor: int, seconds: float) -> bool:
        self.asked.append(seconds)
        return self.poll


@pytest.fixture
def eyes() -> Eyes:
    return Eyes()


def exchange(looks: BusyPoller, times: int = 1, timeout: float = -1.0) -> int:
    """How often it looks in so many exchanges."""
    looked = 0
    for _ in range(times):
        looks.note_reply()
        if looks.should_poll:
            looked += 1
            looks.poll(0, timeout)
    return looked


def test_busy_poll_probes_and_continues_while_it_succeeds(eyes: Eyes) -> None:
    looks = BusyPoller(eyes)
    assert exchange(looks, PROBE_INTERVAL_EXCHANGES - 1) == 0
    assert exchange(looks, 20) == 20
    eyes.poll = False
    assert exchange(looks, PROBE_INTERVAL_EXCHANGES) == MISSES_BEFORE_DISABLE + 1


def test_busy_poll_is_disabled_by_misses(eyes: Eyes) -> None:
    looks = BusyPoller(eyes)
    exchange(looks, PROBE_INTERVAL_EXCHANGES + MISSES_BEFORE_DISABLE)
    for turn in range(MISSES_BEFORE_DISABLE * 3):
        eyes.poll = turn % 3 == 0
        exchange(looks)
    assert not looks._hits


def test_busy_poll_is_limited_by_the_timeout(eyes: Eyes) -> None:
    looks = BusyPoller(eyes)
    exchange(looks, PROBE_INTERVAL_EXCHANGES)
    exchange(looks, timeout=MAX_BUSY_POLL_SECONDS / 2)
    exchange(looks, timeout=1.0)
    assert eyes.asked == [MAX_BUSY_POLL_SECONDS, MAX_BUSY_POLL_SECONDS / 2, MAX_BUSY_POLL_SECONDS]
    assert not looks.should_poll
