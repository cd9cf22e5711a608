"""TopScreen: `zenspark top` on a terminal: draws the view, and reads the keyboard."""

from __future__ import annotations

import time

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import ColorDepth

from zenspark.api.session import Session
from zenspark.cli.connection_watch import ConnectionWatch
from zenspark.cli.key_traffic import KeyTraffic
from zenspark.cli.screen import Screen
from zenspark.cli.top_view import Line, SessionRow, TopState, TopView

REFRESH_INTERVAL_SECONDS = 0.5
"""Seconds between two redraws."""
PAGE_ROWS = 10


class TopScreen:
    """Runs the screen until it is quit."""

    def __init__(
        self, session: Session, watch: ConnectionWatch, traffic: KeyTraffic, keys: list[str], sort: str
    ) -> None:
        self._session = session
        self._watch = watch
        self._traffic = traffic
        self._view = TopView(traffic, keys)
        self._state = TopState(sort=sort)
        self._drawn: list[Line] = []
        self._ticked_at = float("-inf")
        control = FormattedTextControl(self._text, focusable=True, show_cursor=False)
        self._application: Application[None] = Application(
            Layout(Window(control, wrap_lines=False)),
            key_bindings=self._bindings(),
            full_screen=True,
            refresh_interval=REFRESH_INTERVAL_SECONDS,
            color_depth=None if Screen().style("a", "red") != "a" else ColorDepth.DEPTH_1_BIT,
        )

    def run(self) -> None:
        """Draw and read keys until the user quits."""
        self._application.run()

    def stop(self) -> None:
        """End the screen, from a signal handler."""
        loop = self._application.loop
        if loop is not None:
            loop.call_soon_threadsafe(self._application.exit)

    # -- drawing

    def _text(self) -> StyleAndTextTuples:
        size = self._application.output.get_size()
        now = time.monotonic()
        if now - self._ticked_at >= REFRESH_INTERVAL_SECONDS / 2:
            self._ticked_at = now
            self._traffic.tick()
        if self._drawn and self._state.is_paused and not self._state.is_editing:
            first, *_, last_line = self._lines(size.columns, size.rows)
            self._drawn = [first, *self._drawn[1:-1], last_line]
        else:
            self._drawn = self._lines(size.columns, size.rows)
        last = len(self._drawn) - 1
        return [(style, text + ("" if index == last else "\n")) for index, (style, text) in enumerate(self._drawn)]

    def _lines(self, width: int, height: int) -> list[Line]:
        return self._view.lines(self._state, self._watch.status(), self._sessions(), width, height)

    def _sessions(self) -> list[SessionRow]:
        if self._session.is_closed():
            return []
        addresses = {link.zid: link.dst for link in self._session.info.links()}
        counters = {link_counters.zid: link_counters for link_counters in self._session.info.link_counters()}
        rows = []
        for transport in self._session.info.transports():
            transport_counters = counters.get(transport.zid)
            rows.append(
                SessionRow(
                    str(transport.whatami),
                    str(transport.zid),
                    addresses.get(transport.zid, ""),
                    transport_counters.received if transport_counters else 0,
                    sum(transport_counters.lost.values()) if transport_counters else 0,
                    sum(transport_counters.dropped.values()) if transport_counters else 0,
                )
            )
        return rows

    # -- keyboard

    def _bindings(self) -> KeyBindings:
        bindings, state = KeyBindings(), self._state
        is_editing = Condition(lambda: state.is_editing)
        bindings.add("c-c")(lambda event: event.app.exit())
        for key, handler in {
            "q": lambda event: event.app.exit(),
            "s": lambda event: state.next_sort(),
            " ": lambda event: _toggle(state, "is_paused"),
            "p": lambda event: _toggle(state, "is_paused"),
            "tab": lambda event: _toggle(state, "shows_sessions"),
            "up": lambda event: state.scroll(-1),
            "down": lambda event: state.scroll(1),
            "pageup": lambda event: state.scroll(-PAGE_ROWS),
            "pagedown": lambda event: state.scroll(PAGE_ROWS),
            "home": lambda event: state.scroll(-state.offset),
            "/": lambda event: _toggle(state, "is_editing"),
        }.items():
            bindings.add(key, filter=~is_editing)(handler)
        bindings.add("enter", filter=is_editing)(lambda event: _toggle(state, "is_editing"))
        bindings.add("escape", filter=is_editing, eager=True)(lambda event: self._clear_filter())
        bindings.add("backspace", filter=is_editing)(lambda event: self._edit(state.filter[:-1]))
        bindings.add(Keys.Any, filter=is_editing)(self._type)
        return bindings

    def _type(self, event: KeyPressEvent) -> None:
        if event.data.isprintable():
            self._edit(self._state.filter + event.data)

    def _edit(self, text: str) -> None:
        self._state.filter = text
        self._state.offset = 0

    def _clear_filter(self) -> None:
        self._edit("")
        self._state.is_editing = False


def _toggle(state: TopState, name: str) -> None:
    setattr(state, name, not getattr(state, name))
    if name == "shows_sessions":
        state.offset = 0
