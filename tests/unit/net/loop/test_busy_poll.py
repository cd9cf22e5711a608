"""Looking for a moment, and whether that is worth it."""

from __future__ import annotations

import select
import socket

import pytest

from zenspark.net.loop import busy_poll
from zenspark.net.loop.busy_poll import EVERY, LONGEST, TRUST, Looking, look

IS_COMPILED = not busy_poll.__file__.endswith(".py")


def test_what_happens_is_seen() -> None:
    one, other = socket.socketpair()
    with one, other, select.epoll() as poller:
        poller.register(one, select.EPOLLIN)
        assert not look(poller.fileno(), LONGEST)
        other.send(b"x")
        assert look(poller.fileno(), LONGEST) is IS_COMPILED


class Eyes:
    """Finds something as often as it is told to."""

    def __init__(self) -> None:
        self.finds = True
        self.asked: list[float] = []

    def __call__(self, descriptor: int, seconds: float) -> bool:
        self.asked.append(seconds)
        return self.finds


@pytest.fixture
def eyes() -> Eyes:
    return Eyes()


def exchange(looks: Looking, times: int = 1, timeout: float = -1.0) -> int:
    """How often it looks in so many exchanges."""
    looked = 0
    for _ in range(times):
        looks.expect()
        if looks.is_due:
            looked += 1
            looks.finds(0, timeout)
    return looked


def test_it_is_tried_now_and_then_and_goes_on_while_it_finds_something(eyes: Eyes) -> None:
    looks = Looking(eyes)
    assert exchange(looks, EVERY - 1) == 0
    assert exchange(looks, 20) == 20
    eyes.finds = False
    assert exchange(looks, EVERY) == TRUST + 1


def test_most_looks_must_find_something(eyes: Eyes) -> None:
    looks = Looking(eyes)
    exchange(looks, EVERY + TRUST)
    for turn in range(TRUST * 3):
        eyes.finds = turn % 3 == 0
        exchange(looks)
    assert not looks._trust


def test_it_looks_no_longer_than_it_may_sleep(eyes: Eyes) -> None:
    looks = Looking(eyes)
    exchange(looks, EVERY)
    exchange(looks, timeout=LONGEST / 2)
    exchange(looks, timeout=1.0)
    assert eyes.asked == [LONGEST, LONGEST / 2, LONGEST]
    assert not looks.is_due
