"""LinkObserver: every event may be ignored."""

from typing import Any

from zenspark.net.io.link_observer import IgnoredLinkEvents


def test_events_are_ignored_unless_overridden() -> None:
    observer, driver = IgnoredLinkEvents(), object()
    events: list[Any] = [observer.on_unsent, observer.on_drained, observer.on_link_closed, observer.on_callback_waiting]
    assert [event(driver) for event in events] == [None] * 4
