"""DriverObserver: events of links reach the observer, the backpressure and the dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from zenspark.net.io.counters import LinkTraffic
from zenspark.net.node.driver_observer import DriverObserver


class FakeDispatcher:
    """Records calls, as dispatcher, observer and backpressure at once."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []
        self.observer = self.backpressure = self

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - stands for any method
        return lambda argument: self.calls.append((name, argument))


class FakeDriver:
    """A driver that has sent one byte."""

    def __init__(self) -> None:
        self.traffic = LinkTraffic(bytes_sent=1)


def test_events_are_passed_on() -> None:
    dispatcher: Any = FakeDispatcher()
    driver: Any = object()
    events = DriverObserver(dispatcher, lambda: None)
    events.on_callback_waiting(True)
    events.on_unsent(driver)
    events.on_drained(driver)
    expected = [("on_callback_waiting", True), ("start_stall_timer", driver), ("on_drained", driver)]
    assert dispatcher.calls == expected


def test_last_closing_link_that_is_released_is_reported() -> None:
    dispatcher: Any = FakeDispatcher()
    first: Any = FakeDriver()
    second: Any = FakeDriver()
    released: list[int] = []
    events = DriverObserver(dispatcher, lambda: released.append(len(events.closing)))
    events.add_closing(first)
    events.add_closing(second)
    assert dispatcher.calls == [("remove", first), ("remove", second)]
    events.on_link_closed(first)
    assert released == []
    events.on_link_closed(second)
    assert released == [0]


def test_traffic_never_decreases_while_links_end() -> None:
    dispatcher: Any = FakeDispatcher()
    open_drivers: set[Any] = set()
    dispatcher.faces = SimpleNamespace(link_drivers=open_drivers)
    driver: Any = FakeDriver()
    events = DriverObserver(dispatcher, lambda: None)
    assert events.traffic() == LinkTraffic()
    steps: list[Callable[[], None]] = [
        lambda: open_drivers.add(driver),
        lambda: events.add_closing(driver),
        lambda: events.on_link_closed(driver),
        lambda: open_drivers.discard(driver),
    ]
    for step in steps:
        step()
        assert events.traffic() == LinkTraffic(bytes_sent=1)
    driver.traffic.bytes_sent = 5
    assert events.traffic() == LinkTraffic(bytes_sent=1)
