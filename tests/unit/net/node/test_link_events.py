"""LinkEvents: events of links reach the observer, the backpressure and the dispatcher."""

from __future__ import annotations

from typing import Any

from zenspark.net.node.link_events import LinkEvents


class FakeDispatcher:
    """Records calls, as dispatcher, observer and backpressure at once."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []
        self.observer = self.backpressure = self

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - stands for any method
        return lambda argument: self.calls.append((name, argument))


def test_events_are_passed_on() -> None:
    dispatcher: Any = FakeDispatcher()
    driver: Any = object()
    events = LinkEvents(dispatcher, lambda: None)
    events.on_blocked(True)
    events.on_unsent(driver)
    events.on_drained(driver)
    expected = [("on_blocked", True), ("start_stall_timer", driver), ("on_drained", driver)]
    assert dispatcher.calls == expected


def test_last_closing_link_that_is_released_is_reported() -> None:
    dispatcher: Any = FakeDispatcher()
    first: Any = object()
    second: Any = object()
    released: list[int] = []
    events = LinkEvents(dispatcher, lambda: released.append(len(events.closing)))
    events.add_closing(first)
    events.add_closing(second)
    assert dispatcher.calls == [("remove", first), ("remove", second)]
    events.on_released(first)
    assert released == []
    events.on_released(second)
    assert released == [0]
