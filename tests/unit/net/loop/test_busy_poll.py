"""Busy polling, and whether it is worth it."""

from __future__ import annotations

import select
import socket

import pytest

from zenspark.net.loop import busy_poll
from zenspark.net.loop.busy_poll import (
    MAX_BUSY_POLL_SCORE,
    MAX_BUSY_POLL_SECONDS,
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


class FakePoll:
    """A poll function with given results."""

    def __init__(self) -> None:
        self.poll = True
        self.timeouts: list[float] = []

    def __call__(self, descriptor: int, seconds: float) -> bool:
        self.timeouts.append(seconds)
        return self.poll


@pytest.fixture
def fake_poll() -> FakePoll:
    return FakePoll()


def exchange(poller: BusyPoller, times: int = 1, timeout: float = -1.0) -> int:
    """Return how often it polls in a number of exchanges."""
    polls = 0
    for _ in range(times):
        poller.count_exchange()
        if poller.should_poll:
            polls += 1
            poller.poll(0, timeout)
    return polls


def test_busy_poll_probes_and_continues_while_it_succeeds(fake_poll: FakePoll) -> None:
    poller = BusyPoller(fake_poll)
    assert exchange(poller, PROBE_INTERVAL_EXCHANGES - 1) == 0
    assert exchange(poller, 20) == 20
    fake_poll.poll = False
    assert exchange(poller, PROBE_INTERVAL_EXCHANGES) == MAX_BUSY_POLL_SCORE + 1


def test_busy_poll_is_disabled_by_misses(fake_poll: FakePoll) -> None:
    poller = BusyPoller(fake_poll)
    exchange(poller, PROBE_INTERVAL_EXCHANGES + MAX_BUSY_POLL_SCORE)
    for turn in range(MAX_BUSY_POLL_SCORE * 3):
        fake_poll.poll = turn % 3 == 0
        exchange(poller)
    assert not poller._score


def test_busy_poll_is_limited_by_the_timeout(fake_poll: FakePoll) -> None:
    poller = BusyPoller(fake_poll)
    exchange(poller, PROBE_INTERVAL_EXCHANGES)
    exchange(poller, timeout=MAX_BUSY_POLL_SECONDS / 2)
    exchange(poller, timeout=1.0)
    assert fake_poll.timeouts == [MAX_BUSY_POLL_SECONDS, MAX_BUSY_POLL_SECONDS / 2, MAX_BUSY_POLL_SECONDS]
    assert not poller.should_poll
