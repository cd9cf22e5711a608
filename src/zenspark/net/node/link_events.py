"""LinkEvents: the observer of all links of a node, and the links that are closing."""

from __future__ import annotations

from collections.abc import Callable

from zenspark.net.io.driver import LinkDriver
from zenspark.net.io.link_observer import LinkObserver
from zenspark.net.node.dispatch import Dispatcher


class LinkEvents(LinkObserver):
    """Passes link events to the dispatcher and the node's observer. `on_all_released` is called in the loop."""

    def __init__(self, dispatcher: Dispatcher, on_all_released: Callable[[], None]) -> None:
        self._dispatcher = dispatcher
        self._on_all_released = on_all_released
        self.closing: set[LinkDriver] = set()
        """Links whose session has ended and that are not closed yet."""

    def add_closing(self, driver: LinkDriver) -> None:
        """Keep a link whose session has ended until it is closed."""
        self.closing.add(driver)
        self._dispatcher.backpressure.remove(driver)

    def on_blocked(self, is_blocked: bool) -> None:
        self._dispatcher.observer.on_blocked(is_blocked)

    def on_unsent(self, driver: LinkDriver) -> None:
        self._dispatcher.backpressure.start_stall_timer(driver)

    def on_drained(self, driver: LinkDriver) -> None:
        self._dispatcher.on_drained(driver)

    def on_released(self, driver: LinkDriver) -> None:
        self.closing.discard(driver)
        if not self.closing:
            self._on_all_released()
