"""TopView: formats the lines of `zenspark top` from counts and the state of the keyboard, without a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from zenspark.cli.formatters import pluralize, printable
from zenspark.cli.key_traffic import KeyCounts, KeyTraffic
from zenspark.cli.screen import cut_text
from zenspark.cli.status_line import Part
from zenspark.cli.units import format_duration, format_quantity
from zenspark.cli.values import format_value
from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.key.match import intersects

SORTS = ("rate", "bytes", "messages", "age", "key")
FIXED_COLUMNS = 10 + 11 + 10 + 7
"""Width of the columns rate, bytes/s, messages and age, each with the blank before it."""
MIN_KEY_COLUMNS = 16
HEADER_LINES = 3

Line = tuple[str, str]
"""A style of prompt_toolkit, and the text of a line."""


class SessionRow(msgspec.Struct, frozen=True):
    """One neighbour, as the table of sessions shows it."""

    role: str
    zid: str
    address: str
    received: int
    lost: int
    dropped: int


class TopState(msgspec.Struct):
    """Choices that the user has made with the keyboard."""

    sort: str = "rate"
    filter: str = ""
    is_editing: bool = False
    """Whether the filter is being typed."""
    is_paused: bool = False
    shows_sessions: bool = False
    offset: int = 0
    """First row shown."""

    def next_sort(self) -> None:
        """Choose the next order."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.offset = 0

    def scroll(self, rows: int) -> None:
        """Scroll down by a number of rows, or up if it is negative."""
        self.offset = max(self.offset + rows, 0)

    def limit_scrolling(self, rows: int, height: int) -> None:
        """Scroll back if fewer rows are below than fit into `height` lines; rows that all fit are not scrolled."""
        self.offset = min(self.offset, max(rows - height, 0))


class TopView:
    """Formats the screen."""

    def __init__(self, traffic: KeyTraffic, keys: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._traffic = traffic
        self._keys = " ".join(keys)
        self._clock = clock

    def lines(
        self, state: TopState, connection: Part, sessions: Sequence[SessionRow], width: int, height: int
    ) -> list[Line]:
        """Return all lines of the screen."""
        body = max(height - HEADER_LINES - 1, 0)
        head = self._head(state, connection, len(sessions))
        rows = self._sessions(state, sessions, body) if state.shows_sessions else self._rows(state, width, body)
        lines = [*head, *rows[: body + 1]]
        lines += [("", "")] * (height - 1 - len(lines))
        return [(style, cut_text(text, width)) for style, text in [*lines[: height - 1], self._foot(state)]]

    def _head(self, state: TopState, connection: Part, sessions: int) -> list[Line]:
        text, style = connection if isinstance(connection, tuple) else (connection, "")
        total = self._traffic.total
        rates = f"{format_quantity(total.rate)} messages/s  {format_quantity(total.byte_rate, 'B/s')}"
        filtered = f"{self._count_keys(state)} of " if state.filter else ""
        counts = f"{filtered}{pluralize(len(self._traffic), 'key')}  {pluralize(sessions, 'session')}"
        paused = "  PAUSED" if state.is_paused else ""
        uncounted = f"  {self._traffic.uncounted} messages of further keys" if self._traffic.uncounted else ""
        return [
            ("bold", f"zenspark top  {self._keys}{paused}"),
            ("fg:ansired bold" if style else "", f"{text}  {rates}  {counts}{uncounted}"),
        ]

    def _foot(self, state: TopState) -> Line:
        if state.is_editing:
            return "reverse", f"filter: {state.filter}_   Enter keeps it, Esc clears it"
        filter_text = f"  filter: {state.filter}" if state.filter else ""
        view = "keys" if state.shows_sessions else "sessions"
        return "reverse", f"q quit  space pause  s sort: {state.sort}  / filter  tab {view}{filter_text}"

    # -- keys

    def _rows(self, state: TopState, width: int, body: int) -> list[Line]:
        key_filter = make_filter(state.filter)
        state.limit_scrolling(self._count_keys(state), body)
        rows = self._traffic.largest(state.sort, state.offset + body, key_filter)[state.offset :]
        columns = self._key_columns(rows, width)
        now = self._clock()
        return [("underline", self._row("key", columns, ("msg/s", "B/s", "messages", "age"), "value", width))] + [
            ("fg:ansired" if counts.is_deleted else "", self._key_row(counts, columns, now, width)) for counts in rows
        ]

    def _count_keys(self, state: TopState) -> int:
        """Count the keys that the filter selects."""
        key_filter = make_filter(state.filter)
        return len(self._traffic) if key_filter is None else sum(map(key_filter, self._traffic.keys()))

    def _key_columns(self, rows: Sequence[KeyCounts], width: int) -> int:
        longest = max((len(counts.key) for counts in rows), default=0)
        max_columns = max((width - FIXED_COLUMNS) * 3 // 5, MIN_KEY_COLUMNS)
        return min(max(longest, MIN_KEY_COLUMNS), max_columns)

    def _key_row(self, counts: KeyCounts, columns: int, now: float, width: int) -> str:
        value_columns = max(width - columns - FIXED_COLUMNS - 1, 0)
        value = "DELETE" if counts.is_deleted else format_value(counts.payload, counts.encoding, value_columns)
        numbers = (
            format_rate(counts.rate),
            format_quantity(counts.byte_rate, "B"),
            str(counts.messages),
            format_duration(now - counts.seen_at).partition(" ")[0],
        )
        return self._row(printable(counts.key), columns, numbers, value, width)

    @staticmethod
    def _row(key: str, columns: int, numbers: tuple[str, str, str, str], value: str, width: int) -> str:
        rate, size, messages, age = numbers
        return f"{cut_text(key, columns):<{columns}} {rate:>9} {size:>10} {messages:>9} {age:>6} {value}"

    # -- sessions

    def _sessions(self, state: TopState, sessions: Sequence[SessionRow], body: int) -> list[Line]:
        state.limit_scrolling(len(sessions), body)
        head = f"{'role':<7} {'zid':<32} {'received':>10} {'lost':>7} {'dropped':>8} address"
        return [("underline", head)] + [
            ("", f"{row.role:<7} {row.zid:<32} {row.received:>10} {row.lost:>7} {row.dropped:>8} {row.address}")
            for row in sessions[state.offset :]
        ]


def format_rate(rate: float) -> str:
    """Format a rate: slow ones with one decimal."""
    return f"{rate:.1f}" if rate < 100 else format_quantity(rate)


def make_filter(text: str) -> Callable[[str], bool] | None:
    """Return the condition for keys: to match a key expression, or to contain a text; None selects all keys."""
    if not text:
        return None
    if "*" in text:
        try:
            expression = str(KeyExpr.autocanonize(text))
        except UsageError:  # it is being typed
            pass
        else:
            return lambda key: intersects(expression, key)
    lowered = text.lower()
    return lambda key: lowered in key.lower()
