"""Signals that arrive while a lock is taken: the exception comes later, and the lock is free afterwards."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from zenspark.cli.interrupts import raise_interrupt

SIGNALS = (signal.SIGINT, signal.SIGTERM)
TIMEOUT_SECONDS = 60.0


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Raise on signals during a test."""
    before = {number: signal.getsignal(number) for number in (*SIGNALS, signal.SIGALRM)}
    for number in SIGNALS:
        signal.signal(number, raise_interrupt)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class SignalledLock:
    """A lock of a condition: a signal arrives each time it was taken, and each time it was given back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        self._lock.acquire()
        signal.raise_signal(signal.SIGTERM)
        return True

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _release_save(self) -> None:
        self._lock.release()
        signal.raise_signal(signal.SIGTERM)

    def _acquire_restore(self, _state: None) -> None:
        self._lock.acquire()

    def _is_owned(self) -> bool:
        return self._lock.locked()

    def is_free(self) -> bool:
        return self._lock.acquire(blocking=False)


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_raises_at_once_outside_of_locks(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_lock_that_is_being_taken_is_released() -> None:
    lock = SignalledLock()
    entered = threading.Event()

    def enter() -> None:
        with threading.Condition(lock):  # type: ignore[arg-type]
            entered.set()
            time.sleep(TIMEOUT_SECONDS)

    with pytest.raises(KeyboardInterrupt):
        enter()
    assert entered.is_set()
    assert lock.is_free()


def test_lock_that_a_wait_gives_back_is_free() -> None:
    lock = SignalledLock()
    condition = threading.Condition(lock)  # type: ignore[arg-type]
    lock.acquire()
    with pytest.raises(KeyboardInterrupt):
        condition.wait(TIMEOUT_SECONDS)
    lock.release()
    assert lock.is_free()


def test_thread_that_is_being_started_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = threading.Event()
    thread = threading.Thread(target=ran.set)
    wait = thread._started.wait  # type: ignore[attr-defined]

    def wait_with_signal() -> bool:
        signal.raise_signal(signal.SIGINT)
        return bool(wait())

    def start() -> None:
        thread.start()
        time.sleep(TIMEOUT_SECONDS)

    monkeypatch.setattr(thread._started, "wait", wait_with_signal)  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        start()
    assert ran.wait(TIMEOUT_SECONDS)
    thread.join()


def test_line_that_is_being_logged_is_written() -> None:
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            signal.raise_signal(signal.SIGINT)
            lines.append(record.getMessage())

    def log() -> None:
        Handler().handle(logging.LogRecord("name", logging.INFO, "", 0, "line", (), None))
        time.sleep(TIMEOUT_SECONDS)

    with pytest.raises(KeyboardInterrupt):
        log()
    assert lines == ["line"]
