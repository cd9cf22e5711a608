"""Both ways of waiting for descriptors behave alike."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from zenspark.net.loop.poller import EPOLLIN, EPOLLOUT, Poller, SelectorsPoller, make_poller

EACH_POLLER = pytest.mark.parametrize("make", [make_poller, SelectorsPoller])


@EACH_POLLER
def test_poller_reports_readable_and_writable(make: Callable[[], Poller]) -> None:
    waiting = make()
    left, right = socket.socketpair()
    with left, right:
        waiting.register(left.fileno(), EPOLLIN)
        assert waiting.poll(0) == []
        right.send(b"x")
        assert waiting.poll(-1) == [(left.fileno(), EPOLLIN)]
        assert waiting.poll(None) == [(left.fileno(), EPOLLIN)]
        waiting.modify(left.fileno(), EPOLLIN | EPOLLOUT)
        assert waiting.poll(0) == [(left.fileno(), EPOLLIN | EPOLLOUT)]
        waiting.modify(left.fileno(), EPOLLOUT)
        assert waiting.poll(0) == [(left.fileno(), EPOLLOUT)]
        waiting.unregister(left.fileno())
        assert waiting.poll(0) == []
    assert waiting.fileno() >= -1
    waiting.close()


@EACH_POLLER
def test_poller_reports_hang_up(make: Callable[[], Poller]) -> None:
    waiting = make()
    left, right = socket.socketpair()
    with left:
        waiting.register(left.fileno(), EPOLLIN)
        right.close()
        ((descriptor, mask),) = waiting.poll(0)
        assert descriptor == left.fileno()
        assert mask & ~EPOLLOUT
    waiting.close()
