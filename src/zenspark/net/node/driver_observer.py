"""DriverObserver: observes the drivers of all links of a node, keeps those that are closing, and totals the traffic."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakSet

from zenspark.net.io.counters import LinkTraffic
from zenspark.net.io.link_driver import LinkDriver
from zenspark.net.io.link_observer import LinkObserver
from zenspark.net.node.dispatch import Dispatcher


class DriverObserver(LinkObserver):
    """Passes events of drivers to the dispatcher and the node's observer. `on_all_links_closed` is called in the
    loop, when the last closing link is closed."""

    def __init__(self, dispatcher: Dispatcher, on_all_links_closed: Callable[[], None]) -> None:
        self._dispatcher = dispatcher
        self._on_all_links_closed = on_all_links_closed
        self.closing: set[LinkDriver] = set()
        """Links whose session has ended and that are not closed yet."""
        self._lock = threading.Lock()
        self._past = LinkTraffic()
        """Traffic of the links that are closed, those that are no longer in memory included."""
        self._closed: WeakSet[LinkDriver] = WeakSet()
        """The drivers in memory whose link is closed: `traffic` must not count them a second time."""

    def traffic(self) -> LinkTraffic:
        """Return the traffic of all links, those that are closed included; from any thread.

        A link is among the faces, then also closing, then closed: read in this order, none is missed.
        """
        drivers = self._dispatcher.faces.link_drivers
        drivers |= self.closing
        total = LinkTraffic()
        with self._lock:
            total.add(self._past)
            for driver in drivers - set(self._closed):
                total.add(driver.traffic)
        return total

    def add_closing(self, driver: LinkDriver) -> None:
        """Keep a link whose session has ended until it is closed."""
        self.closing.add(driver)
        self._dispatcher.backpressure.remove(driver)

    def on_callback_waiting(self, is_waiting: bool) -> None:
        self._dispatcher.observer.on_callback_waiting(is_waiting)

    def on_unsent(self, driver: LinkDriver) -> None:
        self._dispatcher.backpressure.start_stall_timer(driver)

    def on_drained(self, driver: LinkDriver) -> None:
        self._dispatcher.on_drained(driver)

    def on_link_closed(self, driver: LinkDriver) -> None:
        with self._lock:
            self._past.add(driver.traffic)
            self._closed.add(driver)
        self.closing.discard(driver)
        if not self.closing:
            self._on_all_links_closed()
