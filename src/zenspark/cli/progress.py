"""Progress of work that takes longer than a second: percentage, rate and time left, or the time elapsed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Self, TypeVar

from zenspark.cli.status_line import StatusLine
from zenspark.cli.units import format_duration, format_quantity

SHOW_AFTER_SECONDS = 1.0
"""Seconds after which progress is shown."""
REDRAW_INTERVAL_SECONDS = 0.2
"""Minimum seconds between two updates on the screen."""

T = TypeVar("T")


class Progress:
    """Shows the progress of work, on standard error if that is a terminal."""

    def __init__(
        self,
        what: str,
        total: float | None = None,
        unit: str = "",
        line: StatusLine | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`total` is the amount of work in `unit` ("rows"); None if it is not known."""
        self._what = what
        self._total = total
        self._unit = unit
        self._line = StatusLine(sys.stderr) if line is None else line
        self._clock = clock
        self._started_at = clock()
        self._drawn_at = self._started_at + SHOW_AFTER_SECONDS - REDRAW_INTERVAL_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.end()

    def update(self, done: float) -> None:
        """Set the amount of work that is done."""
        now = self._clock()
        if now - self._drawn_at >= REDRAW_INTERVAL_SECONDS:
            self._drawn_at = now
            self._line.show(self.format(done, now - self._started_at))

    def format(self, done: float, seconds: float) -> str:
        """Format the progress as one line."""
        rate = done / seconds if seconds > 0 else 0.0
        speed = f"{format_quantity(rate)} {self._unit}/s" if self._unit else f"{format_quantity(rate)}/s"
        if not self._total:
            return f"{self._what}: {_amount(done, self._unit)}, {speed}, {format_duration(seconds)}"
        left = f"{format_duration(max(self._total - done, 0) / rate)} left" if rate else "no progress yet"
        share = min(done / self._total, 1.0)
        amount = f"{format_quantity(done)} of {_amount(self._total, self._unit)}"
        return f"{self._what}: {share:.0%}, {amount}, {speed}, {left}"

    def track(self, items: Iterable[T], weigh: Callable[[T], float] = lambda _: 1) -> Iterator[T]:
        """Yield the items and count them; `weigh` returns the work of one."""
        done = 0.0
        for item in items:
            yield item
            done += weigh(item)
            self.update(done)


def _amount(value: float, unit: str) -> str:
    return f"{format_quantity(value)} {unit}".strip()


class Activity:
    """Shows the duration of work whose end is not known: `with Activity("starting Spark"): ...`."""

    def __init__(self, what: str, line: StatusLine | None = None) -> None:
        self._what = what
        self._line = StatusLine(sys.stderr) if line is None else line
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zenspark-activity", daemon=True)

    def __enter__(self) -> Self:
        if self._line.is_terminal:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._line.end()

    def _run(self) -> None:
        started_at = time.monotonic()
        while not self._has_ended.wait(SHOW_AFTER_SECONDS):
            self._line.show(f"{self._what}: {format_duration(time.monotonic() - started_at)}")
