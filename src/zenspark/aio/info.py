"""SessionInfo: who a session is connected to, and listeners for tasks that are told when that changes."""

from __future__ import annotations

from typing import Any

from zenspark.aio.entities import Receiver, async_declare
from zenspark.aio.send_readiness import SendReadiness
from zenspark.api import info as api
from zenspark.types.ids import ZenohId
from zenspark.types.network_info import Declaration, Link, LinkCounters, Transport


class TransportEventsListener(Receiver[api.TransportEventsListener[Any]]):
    """Receives an event when a session with another node opens or closes."""


class LinkEventsListener(Receiver[api.LinkEventsListener[Any]]):
    """Receives an event when a link is added or removed."""


class NeighbourEventsListener(Receiver[api.NeighbourEventsListener[Any]]):
    """Receives neighbours that come and go."""


class SessionInfo:
    """What a session knows about its place in the network; it is known, so there is nothing to await."""

    def __init__(self, voice: SendReadiness, sync: api.SessionInfo) -> None:
        self._readiness = voice
        self._sync = sync

    def zid(self) -> ZenohId:
        """The id of this node."""
        return self._sync.zid()

    def locators(self) -> list[str]:
        """Where others reach this node; not in eclipse-zenoh."""
        return self._sync.locators()

    def routers_zid(self) -> list[ZenohId]:
        """The routers this node is connected to."""
        return self._sync.routers_zid()

    def peers_zid(self) -> list[ZenohId]:
        """The peers this node is connected to."""
        return self._sync.peers_zid()

    def transports(self) -> list[Transport]:
        """The sessions with other nodes."""
        return self._sync.transports()

    def links(self) -> list[Link]:
        """The links below them."""
        return self._sync.links()

    def link_counters(self) -> list[LinkCounters]:
        """What came from each neighbour, was lost on the way in and dropped on the way out; not in eclipse-zenoh."""
        return self._sync.link_counters()

    def refusals(self) -> dict[str, int]:
        """How often each limit was the reason to refuse something (docs/security.md); not in eclipse-zenoh."""
        return self._sync.refusals()

    def declarations(self) -> list[Declaration]:
        """What other nodes declared, as far as it came here; not in eclipse-zenoh."""
        return self._sync.declarations()

    declare_neighbour_events_listener = async_declare(
        api.SessionInfo.declare_neighbour_events_listener, NeighbourEventsListener, 0
    )
    declare_transport_events_listener = async_declare(
        api.SessionInfo.declare_transport_events_listener, TransportEventsListener, 0
    )
    declare_link_events_listener = async_declare(api.SessionInfo.declare_link_events_listener, LinkEventsListener, 0)
