"""LinkObserver: receives the events of one link's driver that concern the rest of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zenspark.net.io.link_driver import LinkDriver


class LinkObserver(Protocol):
    """Receives the events of drivers, in the loop. Every method does nothing unless it is overridden."""

    def on_callback_waiting(self, is_waiting: bool) -> None:
        """Report that a user callback starts (True) or stops (False) waiting for a link to take its unsent bytes."""
        return

    def on_unsent(self, driver: LinkDriver) -> None:
        """The link has not taken all bytes; called again each time it is watched for writing."""
        return

    def on_drained(self, driver: LinkDriver) -> None:
        """The link has taken all bytes that waited for it."""
        return

    def on_link_closed(self, driver: LinkDriver) -> None:
        """The link is closed, after its session has ended."""
        return


class IgnoredLinkEvents(LinkObserver):
    """A link observer that ignores all events."""
