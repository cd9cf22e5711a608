"""Interrupts: SIGINT and SIGTERM raise KeyboardInterrupt in the main thread, but not while it takes a lock.

Python runs a signal handler between any two instructions. An exception between the acquisition of a lock and the `with`
or `try` that releases it leaves the lock locked: a thread that needs it waits forever, and so does the end of the
process. Where the standard library is at such a place, the exception is raised a moment later.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from types import FrameType

SIGNAL_DELAY_SECONDS = 0.01
"""Seconds by which a signal is delayed that arrives where no exception may be raised."""
_PROTECTED = frozenset(
    function.__code__ for function in (threading.Condition.__enter__, threading.Thread.start, logging.Handler.handle)
)
_WAIT = threading.Condition.wait.__code__
_IS_WAITING = "gotit"
"""Variable of `Condition.wait`: set once an exception takes the lock back."""


def raise_interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, at once or as soon as no lock would stay locked; a signal handler."""
    if not hasattr(signal, "setitimer") or not any(map(_is_protected, _stack(frame))):
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, raise_interrupt)
    signal.setitimer(signal.ITIMER_REAL, SIGNAL_DELAY_SECONDS)


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_protected(frame: FrameType) -> bool:
    code = frame.f_code
    return code in _PROTECTED or (code is _WAIT and _IS_WAITING not in frame.f_locals)
