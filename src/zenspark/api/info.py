"""SessionInfo: who this session is connected to, now and as it changes."""

from __future__ import annotations

from typing import Any, TypeVar

from zenspark.api.entities import Receiver
from zenspark.engine.runtime import SessionRuntime
from zenspark.handlers.handler import BoundHandler
from zenspark.net.io.driver import ConnectionDriver
from zenspark.net.node.multicast import GroupMemberInfo
from zenspark.net.node.node import Neighbour
from zenspark.router.face import DeclarationKind, DeclarationOwner, Face
from zenspark.types.arguments import to_bool
from zenspark.types.enums import Reliability, SampleKind, WhatAmI
from zenspark.types.ids import ZenohId
from zenspark.types.network_info import (
    Declaration,
    Link,
    LinkCounters,
    LinkEvent,
    NeighbourEvent,
    Transport,
    TransportEvent,
)
from zenspark.wire import values as wire

H = TypeVar("H")

ALL_PRIORITIES = (0, 7)
"""What a link carries where priorities are told apart: from the protocol's own to the lowest."""


def transport_of(face: Face, neighbour: Neighbour) -> Transport:
    """A session with another node, as users see it."""
    zid, whatami = ZenohId.from_wire(face.zid), WhatAmI.from_wire(face.whatami)
    if isinstance(neighbour, GroupMemberInfo):
        return Transport(zid, whatami, neighbour.is_qos, is_multicast=True)
    return Transport(zid, whatami, _is_qos(neighbour))


def _is_qos(driver: ConnectionDriver) -> bool:
    terms = driver.connection.parameters
    return terms is not None and terms.qos


def link_of(face: Face, neighbour: Neighbour) -> Link:
    """The link below such a session."""
    if isinstance(neighbour, GroupMemberInfo):
        zid, seat = ZenohId.from_wire(face.zid), neighbour
        return Link(zid, seat.src, seat.dst, seat.group, seat.mtu, is_streamed=False)
    link = neighbour.link
    return Link(
        zid=ZenohId.from_wire(face.zid),
        src=link.src,
        dst=link.dst,
        mtu=link.mtu,
        is_streamed=link.is_streamed,
        interfaces=list(link.interfaces),
        auth_identifier=link.auth_identifier,
        priorities=ALL_PRIORITIES if _is_qos(neighbour) else None,
        reliability=Reliability.RELIABLE if link.is_reliable else Reliability.BEST_EFFORT,
    )


def _role(holder: DeclarationOwner) -> WhatAmI:
    """Only routers are known without being neighbours."""
    return WhatAmI.from_wire(holder.whatami) if isinstance(holder, Face) else WhatAmI.ROUTER


class EventsListener(Receiver[H]):
    """Receives an event when a session or link comes or goes."""

    _NAME = "events listener"

    def __init__(self, runtime: SessionRuntime, attached: BoundHandler, history: bool) -> None:
        number, inlet, event = runtime.next_id(), attached.sink, self._event

        def tell(kind: SampleKind, face: Face, neighbour: Neighbour) -> None:
            inlet.push(event(kind, face, neighbour))

        def end() -> None:
            with runtime.lock:
                runtime.on_transport.pop(number, None)
            inlet.close()

        super().__init__(runtime, number, end, attached)
        with runtime.lock:
            if history:
                for face, neighbour in runtime.node.neighbourhood.items():
                    tell(SampleKind.PUT, face, neighbour)
            runtime.on_transport[number] = tell

    @staticmethod
    def _event(kind: SampleKind, face: Face, neighbour: Neighbour) -> object:
        raise NotImplementedError


class TransportEventsListener(EventsListener[H]):
    """Receives an event when a session with another node opens or closes."""

    _NAME = "transport events listener"

    @staticmethod
    def _event(kind: SampleKind, face: Face, neighbour: Neighbour) -> TransportEvent:
        return TransportEvent(kind, transport_of(face, neighbour))


class LinkEventsListener(EventsListener[H]):
    """Receives an event when a link is added or removed."""

    _NAME = "link events listener"

    @staticmethod
    def _event(kind: SampleKind, face: Face, neighbour: Neighbour) -> LinkEvent:
        return LinkEvent(kind, link_of(face, neighbour))


class NeighbourEventsListener(EventsListener[H]):
    """Receives an event when a neighbour comes or goes, with all that is known of it."""

    _NAME = "neighbour events listener"

    @staticmethod
    def _event(kind: SampleKind, face: Face, neighbour: Neighbour) -> NeighbourEvent:
        return NeighbourEvent(kind, transport_of(face, neighbour), link_of(face, neighbour))


class SessionInfo:
    """What a session knows about its place in the network."""

    def __init__(self, runtime: SessionRuntime) -> None:
        self._runtime = runtime

    def zid(self) -> ZenohId:
        """The id of this node."""
        return ZenohId.from_wire(self._runtime.node.identity.zid)

    def locators(self) -> list[str]:
        """Where others reach this node; not in eclipse-zenoh."""
        return self._runtime.node.places

    def _zids(self, role: wire.WhatAmI) -> list[ZenohId]:
        return [ZenohId.from_wire(face.zid) for face in self._runtime.node.neighbourhood if face.whatami is role]

    def routers_zid(self) -> list[ZenohId]:
        """The routers this node is connected to."""
        return self._zids(wire.WhatAmI.ROUTER)

    def peers_zid(self) -> list[ZenohId]:
        """The peers this node is connected to."""
        return self._zids(wire.WhatAmI.PEER)

    def transports(self) -> list[Transport]:
        """The sessions with other nodes."""
        return [transport_of(face, neighbour) for face, neighbour in self._runtime.node.neighbourhood.items()]

    def links(self) -> list[Link]:
        """The links below them."""
        return [link_of(face, neighbour) for face, neighbour in self._runtime.node.neighbourhood.items()]

    def link_counters(self) -> list[LinkCounters]:
        """What came from each neighbour, was lost on the way in and dropped on the way out; not in eclipse-zenoh.

        Those that left are listed as long as there are not more than 1,000; those that came or left last are last.

            >>> for counters in session.info.link_counters():
            ...     print(counters.zid, counters.received, counters.lost, counters.dropped)
        """
        return [LinkCounters.from_totals(totals) for totals in self._runtime.node.counters.totals]

    def refusals(self) -> dict[str, int]:
        """How often each limit was the reason to refuse something (docs/security.md); not in eclipse-zenoh.

        >>> session.info.refusals()
        {'key_bytes': 3}
        """
        with self._runtime.lock:
            return {limit.value: count for limit, count in self._runtime.node.router.refusals.counts.items()}

    def declarations(self) -> list[Declaration]:
        """What other nodes declared, as far as it came here; not in eclipse-zenoh."""
        tables = self._runtime.node.router.tables
        with self._runtime.lock:
            return [
                Declaration(kind.name.lower(), entry.key, ZenohId.from_wire(holder.zid), _role(holder))
                for kind in DeclarationKind
                for entry in tables[kind].matching(None)
                for holder in entry.holders
                if holder.zid != self._runtime.node.identity.zid
            ]

    def declare_neighbour_events_listener(
        self, handler: object = None, *, history: bool | None = None
    ) -> NeighbourEventsListener[Any]:
        """Be told when neighbours come and go; with `history` also of those that are there. Not in eclipse-zenoh."""
        self._runtime.check()
        return NeighbourEventsListener(self._runtime, self._runtime.bind_handler(handler), to_bool(history))

    def declare_transport_events_listener(
        self, handler: object = None, *, history: bool | None = None
    ) -> TransportEventsListener[Any]:
        """Be told when sessions open and close; with `history` also of those that are open."""
        self._runtime.check()
        return TransportEventsListener(self._runtime, self._runtime.bind_handler(handler), to_bool(history))

    def declare_link_events_listener(
        self, handler: object = None, *, history: bool | None = None
    ) -> LinkEventsListener[Any]:
        """Be told when links are added and removed; with `history` also of those that are there."""
        self._runtime.check()
        return LinkEventsListener(self._runtime, self._runtime.bind_handler(handler), to_bool(history))
