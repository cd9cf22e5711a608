"""One switch for many queries."""

from __future__ import annotations

import pytest

from zenspark.api.cancellation import CancellationToken
from zenspark.errors import ZError


def test_cancel_calls_attached_functions() -> None:
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


def test_detached_function_is_not_called_on_cancel() -> None:
    token = CancellationToken()
    stopped: list[str] = []

    def stop() -> None:
        stopped.append("one")

    token.attach(stop)
    token.detach(stop)
    token.cancel()
    token.detach(stop)
    assert stopped == []


def test_attach_after_cancel_calls_at_once() -> None:
    token = CancellationToken()
    token.cancel()
    stopped: list[str] = []
    token.attach(lambda: stopped.append("late"))
    assert stopped == ["late"]
    with pytest.raises(ZError, match="cancelled"):
        token.check()
