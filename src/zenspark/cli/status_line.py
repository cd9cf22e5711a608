"""StatusLine: one line at the bottom of a terminal that is redrawn; log lines and results are written above it.

All commands write through `write_line` while a status line is shown: one lock, clear, write, redraw. So no log line
runs into the status line, on any thread.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, TextIO

from rich.cells import cell_len

from zenspark.cli.screen import Screen, cut_text

Part = str | tuple[str, str]
"""A part of a status line: its text, or its text and style (`"red"`)."""

LOG_STATUS_INTERVAL_SECONDS = 10.0
"""Seconds between two status lines of a command whose output is no terminal."""
SCREEN_UPDATE_INTERVAL_SECONDS = 0.2
"""Seconds between two updates of the status line on a terminal, of a command that prints what it receives: also the
longest wait for the next item, before time limits are checked."""
STATUS_INTERVAL_SECONDS = 1.0
"""Seconds between two updates of the status line on a terminal, of a command that runs for long and counts rows or
sessions."""
SEPARATOR = " | "
CLEAR = "\r\x1b[K"
"""Moves to the start of the line and erases it."""

_lock = threading.RLock()
_open_lines: list[StatusLine] = []
"""The status lines that are open; the last one is drawn."""


def write_line(text: str, stream: TextIO | None = None) -> None:
    """Write a line above the status line; to standard output by default."""
    target = sys.stdout if stream is None else stream
    with _lock:
        if _open_lines:
            _open_lines[-1].erase()
        target.write(f"{text}\n")
        target.flush()
        if _open_lines:
            _open_lines[-1].draw()


def stamp_parts(parts: Sequence[Part]) -> list[Part]:
    """Return the parts with date and time before the first one, for lines of a log."""
    first, *others = parts
    text, style = first if isinstance(first, tuple) else (first, "")
    return [(f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}", style), *others]


class StatusLine:
    """Shows the state of a command: on a terminal in a line that is redrawn, elsewhere as a line per `log_seconds`."""

    def __init__(
        self, stream: TextIO | None = None, log_seconds: float | None = None, *, is_enabled: bool = True
    ) -> None:
        """`stream` is standard output by default; `log_seconds` is the interval of lines where there is no terminal,
        None for no lines. A line that is not enabled (`-q`) shows nothing."""
        self._stream = sys.stdout if stream is None else stream
        self._log_seconds = log_seconds if is_enabled else None
        self._logged_at = float("-inf")
        self._screen = Screen()
        self._parts: tuple[Part, ...] = ()
        self._is_drawn = False
        self.is_terminal = is_enabled and self._stream.isatty()
        """Whether the line is redrawn on a terminal."""
        if self.is_terminal:
            with _lock:
                _open_lines.append(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def show(self, *parts: Part) -> None:
        """Show these parts, separated by bars."""
        with _lock:
            self._parts = parts
            if self.is_terminal:
                self.erase()
                self.draw()
            elif self._log_seconds is not None and time.monotonic() - self._logged_at >= self._log_seconds:
                self._logged_at = time.monotonic()
                write_line(self._render(None), self._stream)

    def end(self, *parts: Part) -> None:
        """Remove the line; `parts` are written in its place and stay."""
        with _lock:
            if self.is_terminal:
                self.erase()
                if self in _open_lines:
                    _open_lines.remove(self)
            if parts:
                self._parts = parts
                write_line(self._render(None), self._stream)

    def draw(self) -> None:
        """Draw the line, cut to the width of the terminal."""
        if self._parts and self in _open_lines:
            self._stream.write(self._render(self._width() - 1))
            self._stream.flush()
            self._is_drawn = True

    def erase(self) -> None:
        """Remove the line from the terminal until it is drawn again."""
        if self._is_drawn:
            self._stream.write(CLEAR)
            self._is_drawn = False

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns
        except (OSError, ValueError):  # a terminal that has no size, or no file
            return self._screen.width

    def _render(self, width: int | None) -> str:
        texts, remaining = [], width
        for index, part in enumerate(self._parts):
            text, style = part if isinstance(part, tuple) else (part, "")
            text = (SEPARATOR if index else "") + text
            if remaining is not None:
                text = cut_text(text, remaining)
                remaining -= cell_len(text)
            texts.append(self._screen.style(text, style) if self.is_terminal else text)
        return "".join(texts)
