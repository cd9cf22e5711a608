"""Signals end a query that is within the engine."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import UsageError
from zenspark.sql.query_thread import QueryThread


class Ended(BaseException):
    """What the handler of the signal raises."""


@contextmanager
def handled(number: int) -> Iterator[None]:
    """Raise Ended in the main thread on a signal."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Ended

    before = signal.signal(number, end)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_results_and_errors_are_those_of_the_call() -> None:
    thread = QueryThread(lambda: None)
    assert thread.call(lambda: threading.current_thread()) is not threading.current_thread()
    with pytest.raises(UsageError, match="wrong"):
        thread.call(fail)
    assert thread.call(lambda: 7) == 7
    thread.close()


def fail() -> None:
    raise UsageError("wrong")


def test_a_signal_interrupts_the_call() -> None:
    """Again until it ends: the first interrupt may come before the query."""
    main, interrupts, is_over = threading.main_thread().ident, list[int](), threading.Event()
    assert main is not None

    def interrupt() -> None:
        interrupts.append(1)
        if len(interrupts) == 3:
            is_over.set()

    def run() -> None:
        signal.pthread_kill(main, signal.SIGUSR1)
        assert is_over.wait(TIMEOUT_SECONDS)

    thread = QueryThread(interrupt)
    with handled(signal.SIGUSR1), pytest.raises(Ended):
        thread.call(run)
    assert is_over.is_set()
    assert thread.call(lambda: 7) == 7
    thread.close()


def test_a_call_that_has_not_started_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    thread, calls, is_free = QueryThread(lambda: pytest.fail("nothing runs")), list[int](), threading.Event()
    submit = thread._pool.submit
    submit(is_free.wait, TIMEOUT_SECONDS)

    def submit_and_end(act: Callable[..., object], *arguments: object) -> None:
        submit(act, *arguments)
        raise Ended

    monkeypatch.setattr(thread._pool, "submit", submit_and_end)
    with pytest.raises(Ended):
        thread.call(lambda: calls.append(1))
    is_free.set()
    thread.close()
    assert calls == []
