"""One switch for many queries."""

from __future__ import annotations

import pytest

from zenspark.api.cancellation import CancellationToken
from zenspark.errors import ZError


def test_it_stops_what_it_was_given() -> None:
    token = CancellationToken()
    stopped: list[str] = []
    token.attach(lambda: stopped.append("one"))
    token.attach(lambda: stopped.append("two"))
    token.check()
    assert not token.is_cancelled
    token.cancel()
    token.cancel()
    assert sorted(stopped) == ["one", "two"]
    assert token.is_cancelled


def test_what_ended_by_itself_is_not_stopped() -> None:
    token = CancellationToken()
    stopped: list[str] = []

    def stop() -> None:
        stopped.append("one")

    token.attach(stop)
    token.detach(stop)
    token.cancel()
    token.detach(stop)
    assert stopped == []


def test_what_comes_too_late_is_stopped_at_once() -> None:
    token = CancellationToken()
    token.cancel()
    stopped: list[str] = []
    token.attach(lambda: stopped.append("late"))
    assert stopped == ["late"]
    with pytest.raises(ZError, match="cancelled"):
        token.check()
