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


def exchange(looks: BusyPoller, times: int = 1, timeout: float = -1.0) -> int:
    """How often it polls in so many exchanges."""
    looked = 0
    for _ in range(times):
        looks.note_reply()
        if looks.should_poll:
            looked += 1
            looks.poll(0, timeout)
    return looked


def test_busy_poll_probes_and_continues_while_it_succeeds(fake_poll: FakePoll) -> None:
    looks = BusyPoller(fake_poll)
    assert exchange(looks, PROBE_INTERVAL_EXCHANGES - 1) == 0
    assert exchange(looks, 20) == 20
    fake_poll.poll = False
    assert exchange(looks, PROBE_INTERVAL_EXCHANGES) == MAX_BUSY_POLL_SCORE + 1


def test_busy_poll_is_disabled_by_misses(fake_poll: FakePoll) -> None:
    looks = BusyPoller(fake_poll)
    exchange(looks, PROBE_INTERVAL_EXCHANGES + MAX_BUSY_POLL_SCORE)
    for turn in range(MAX_BUSY_POLL_SCORE * 3):
        fake_poll.poll = turn % 3 == 0
        exchange(looks)
    assert not looks._score


def test_busy_poll_is_limited_by_the_timeout(fake_poll: FakePoll) -> None:
    looks = BusyPoller(fake_poll)
    exchange(looks, PROBE_INTERVAL_EXCHANGES)
    exchange(looks, timeout=MAX_BUSY_POLL_SECONDS / 2)
    exchange(looks, timeout=1.0)
    assert fake_poll.timeouts == [MAX_BUSY_POLL_SECONDS, MAX_BUSY_POLL_SECONDS / 2, MAX_BUSY_POLL_SECONDS]
    assert not looks.should_poll
