"""SessionInfo: the neighbours of a session, its transports, links and counters, and listeners for their changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar, overload

from zenspark.api._signatures import IntoCallback, IntoCallbackAndHandler, IntoChannel
from zenspark.api.entities import Receiver
from zenspark.engine.runtime import SessionRuntime
from zenspark.errors import LinkError, ZError
from zenspark.handlers.handler import BoundHandler, Handler
from zenspark.net.io.link_driver import ConnectionDriver
from zenspark.net.node.observer import GroupMemberInfo, Neighbour
from zenspark.router.face import DeclarationKind, DeclarationOwner, Face
from zenspark.types.arguments import to_bool
from zenspark.types.enums import Reliability, SampleKind, WhatAmI
from zenspark.types.ids import ZenohId
from zenspark.types.network_info import (
    ConnectionStatus,
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
H_co = TypeVar("H_co", covariant=True)

ALL_PRIORITIES = (0, 7)
"""First and last priority that a link with QoS carries: from the control messages of the protocol to the lowest."""


def transport_of(face: Face, neighbour: Neighbour) -> Transport:
    """Describe the transport to a neighbour."""
    zid, whatami = ZenohId.from_wire(face.zid), WhatAmI.from_wire(face.whatami)
    if isinstance(neighbour, GroupMemberInfo):
        return Transport(zid, whatami, neighbour.is_qos, is_multicast=True)
    return Transport(zid, whatami, _is_qos(neighbour))


def _is_qos(driver: ConnectionDriver) -> bool:
    parameters = driver.connection.parameters
    return parameters is not None and parameters.qos


def link_of(face: Face, neighbour: Neighbour) -> Link:
    """Describe the link to a neighbour."""
    if isinstance(neighbour, GroupMemberInfo):
        zid, member = ZenohId.from_wire(face.zid), neighbour
        return Link(zid, member.src, member.dst, member.group, member.mtu, is_streamed=False)
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


def _connection_problem(error: ZError | None) -> str | None:
    """Return the reason of an error without the address."""
    return error.problem if isinstance(error, LinkError) else None if error is None else str(error)


def _role(owner: DeclarationOwner) -> WhatAmI:
    """Return the role of the owner of a declaration: nodes that are not neighbours are routers."""
    return WhatAmI.from_wire(owner.whatami) if isinstance(owner, Face) else WhatAmI.ROUTER


class EventsListener(Receiver[H_co], ABC):
    """Receives an event when a transport or link appears or disappears."""

    _NAME = "events listener"

    def __init__(self, runtime: SessionRuntime, bound: BoundHandler, history: bool) -> None:
        """Register the listener with its session.

        Args:
            runtime: State of the session.
            bound: The handler it delivers to.
            history: Whether events are delivered for neighbours that are connected already.
        """
        number, sink, event = runtime.entities.next_id(), bound.sink, self._event

        def notify(kind: SampleKind, face: Face, neighbour: Neighbour) -> None:
            sink.push(event(kind, face, neighbour))

        def end() -> None:
            with runtime.lock:
                runtime.transport_listeners.pop(number, None)
            sink.close()

        super().__init__(runtime, number, end, bound)
        with runtime.lock:
            if history:
                for face, neighbour in runtime.node.neighbourhood.items():
                    notify(SampleKind.PUT, face, neighbour)
            runtime.transport_listeners[number] = notify

    @staticmethod
    @abstractmethod
    def _event(kind: SampleKind, face: Face, neighbour: Neighbour) -> object:
        """Make the event of a neighbour that appeared (PUT) or disappeared (DELETE)."""


class TransportEventsListener(EventsListener[H_co]):
    """Receives a `TransportEvent` when the transport to a neighbour opens (PUT) or closes (DELETE).

    `SessionInfo.declare_transport_events_listener` makes it.

    Example:
        >>> with session.info.declare_transport_events_listener() as listener:
        ...     event = listener.recv()
    """

    _NAME = "transport events listener"

    @staticmethod
    def _event(kind: SampleKind, face: Face, neighbour: Neighbour) -> TransportEvent:
        return TransportEvent(kind, transport_of(face, neighbour))


class LinkEventsListener(EventsListener[H_co]):
    """Receives a `LinkEvent` when a link is added (PUT) or removed (DELETE).

    `SessionInfo.declare_link_events_listener` makes it.

    Example:
        >>> with session.info.declare_link_events_listener() as listener:
        ...     event = listener.recv()
    """

    _NAME = "link events listener"

    @staticmethod
    def _event(kind: SampleKind, face: Face, neighbour: Neighbour) -> LinkEvent:
        return LinkEvent(kind, link_of(face, neighbour))


class NeighbourEventsListener(EventsListener[H_co]):
    """Receives a `NeighbourEvent`, with transport and link, when a neighbour connects (PUT) or disconnects (DELETE).

    `SessionInfo.declare_neighbour_events_listener` makes it. Not in eclipse-zenoh.

    Example:
        >>> with session.info.declare_neighbour_events_listener() as listener:
        ...     event = listener.recv()
    """

    _NAME = "neighbour events listener"

    @staticmethod
    def _event(kind: SampleKind, face: Face, neighbour: Neighbour) -> NeighbourEvent:
        return NeighbourEvent(kind, transport_of(face, neighbour), link_of(face, neighbour))


class SessionInfo:
    """The neighbours of a session, its transports, links and counters. `Session.info` is one.

    Example:
        >>> print(session.info.zid(), session.info.routers_zid(), session.info.peers_zid())
    """

    def __init__(self, runtime: SessionRuntime) -> None:
        """Wrap the runtime of a session.

        Args:
            runtime: State of the session.
        """
        self._runtime = runtime

    def zid(self) -> ZenohId:
        """Return the id of this node.

        Returns:
            The id by which other nodes identify this node: that of the configuration, or a random one.

        Example:
            >>> print(session.info.zid())
            a1b2
        """
        return ZenohId.from_wire(self._runtime.node.identity.zid)

    def locators(self) -> list[str]:
        """Return the addresses of this node; not in eclipse-zenoh.

        Returns:
            The addresses at which other nodes reach its listeners; none if it does not listen.

        Example:
            >>> session.info.locators()
            ['tcp/192.0.2.1:7447']
        """
        return self._runtime.node.advertised_addresses

    def _zids(self, role: wire.WhatAmI) -> list[ZenohId]:
        return [ZenohId.from_wire(face.zid) for face in self._runtime.node.neighbourhood if face.whatami is role]

    def routers_zid(self) -> list[ZenohId]:
        """Return the ids of the routers this node is connected to.

        Returns:
            The ids, one for each transport to a neighbour that is a router.

        Example:
            >>> for zid in session.info.routers_zid():
            ...     print(zid)
        """
        return self._zids(wire.WhatAmI.ROUTER)

    def peers_zid(self) -> list[ZenohId]:
        """Return the ids of the peers this node is connected to.

        Returns:
            The ids, one for each transport to a neighbour that is a peer.

        Example:
            >>> for zid in session.info.peers_zid():
            ...     print(zid)
        """
        return self._zids(wire.WhatAmI.PEER)

    def transports(self) -> list[Transport]:
        """Return the open transports.

        Returns:
            The transports, one for each neighbour.

        Example:
            >>> for transport in session.info.transports():
            ...     print(transport.zid, transport.whatami)
        """
        return [transport_of(face, neighbour) for face, neighbour in self._runtime.node.neighbourhood.items()]

    def links(self) -> list[Link]:
        """Return the open links.

        Returns:
            The links, with the addresses of both ends.

        Example:
            >>> for link in session.info.links():
            ...     print(link.zid, link.src, link.dst)
        """
        return [link_of(face, neighbour) for face, neighbour in self._runtime.node.neighbourhood.items()]

    def connections(self) -> list[ConnectionStatus]:
        """Return the state of each connection that the configuration requires; not in eclipse-zenoh.

        A client has one connection, to the first of its endpoints that can be reached; peers and routers have one for
        each endpoint.

        Returns:
            The states, in the order of the configuration.

        Example:
            >>> [connection.problem for connection in session.info.connections() if not connection.is_connected]
            ['cannot connect: Connection refused']
        """
        return [
            ConnectionStatus(connector.endpoints, connector.is_open, _connection_problem(connector.problem))
            for connector in list(self._runtime.connectors)
        ]

    def link_counters(self) -> list[LinkCounters]:
        """Return the messages received from each neighbour, lost on the way in and dropped on the way out.

        Not in eclipse-zenoh. Neighbours that disconnected are listed as long as there are not more than 1,000, ordered
        by the time they connected or disconnected.

        Returns:
            The counters of each neighbour, since its first connection.

        Example:
            >>> for counters in session.info.link_counters():
            ...     print(counters.zid, counters.received, counters.lost, counters.dropped)
        """
        return [LinkCounters.from_totals(totals) for totals in self._runtime.node.counters.totals]

    def refusals(self) -> dict[str, int]:
        """Return the number of requests of neighbours that each limit refused; not in eclipse-zenoh.

        The limits are described in docs/security.md.

        Returns:
            The counts, by the name of the limit.

        Example:
            >>> session.info.refusals()
            {'key_bytes': 3}
        """
        with self._runtime.lock:
            return {limit.value: count for limit, count in self._runtime.node.router.refusals.counts.items()}

    def declarations(self) -> list[Declaration]:
        """Return the declarations of other nodes that were announced to this node; not in eclipse-zenoh.

        Returns:
            Kind, key expression and node of each subscriber, queryable and token.

        Example:
            >>> for declaration in session.info.declarations():
            ...     print(declaration.kind, declaration.key, declaration.zid)
        """
        tables = self._runtime.node.router.tables
        with self._runtime.lock:
            return [
                Declaration(kind.name.lower(), entry.key, ZenohId.from_wire(owner.zid), _role(owner))
                for kind in DeclarationKind
                for entry in tables[kind].matching(None)
                for owner in entry.owners
                if owner.zid != self._runtime.node.identity.zid
            ]

    @overload
    def declare_neighbour_events_listener(
        self, handler: IntoChannel[NeighbourEvent] | None = None, *, history: bool | None = None
    ) -> NeighbourEventsListener[Handler[NeighbourEvent]]: ...
    @overload
    def declare_neighbour_events_listener(
        self, handler: IntoCallbackAndHandler[NeighbourEvent, H], *, history: bool | None = None
    ) -> NeighbourEventsListener[H]: ...
    @overload
    def declare_neighbour_events_listener(
        self, handler: IntoCallback[NeighbourEvent], *, history: bool | None = None
    ) -> NeighbourEventsListener[None]: ...

    def declare_neighbour_events_listener(
        self, handler: object = None, *, history: bool | None = None
    ) -> NeighbourEventsListener[Any]:
        """Listen for neighbours that connect and disconnect. Not in eclipse-zenoh.

        Args:
            handler: Where the events are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                function that is called with each of them, or a pair of a function and an object; by default a
                `FifoChannel` of 256.
            history: Whether events are delivered for neighbours that are connected already; False by default.

        Returns:
            The listener. With a channel it ends when it is garbage-collected; with a callback it lives as long as the
            session, unless it is undeclared.

        Raises:
            SessionClosed: The session was closed.
            TypeError: An argument has a wrong type.
            ValueError: The handler is none of these.

        Example:
            >>> with session.info.declare_neighbour_events_listener(history=True) as listener:
            ...     event = listener.recv(timeout=1)
        """
        self._runtime.check_open()
        return NeighbourEventsListener(self._runtime, self._runtime.bind_handler(handler), to_bool(history))

    @overload
    def declare_transport_events_listener(
        self, handler: IntoChannel[TransportEvent] | None = None, *, history: bool | None = None
    ) -> TransportEventsListener[Handler[TransportEvent]]: ...
    @overload
    def declare_transport_events_listener(
        self, handler: IntoCallbackAndHandler[TransportEvent, H], *, history: bool | None = None
    ) -> TransportEventsListener[H]: ...
    @overload
    def declare_transport_events_listener(
        self, handler: IntoCallback[TransportEvent], *, history: bool | None = None
    ) -> TransportEventsListener[None]: ...

    def declare_transport_events_listener(
        self, handler: object = None, *, history: bool | None = None
    ) -> TransportEventsListener[Any]:
        """Listen for transports that open and close.

        Args:
            handler: Where the events are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                function that is called with each of them, or a pair of a function and an object; by default a
                `FifoChannel` of 256.
            history: Whether events are delivered for transports that are open already; False by default.

        Returns:
            The listener. With a channel it ends when it is garbage-collected; with a callback it lives as long as the
            session, unless it is undeclared.

        Raises:
            SessionClosed: The session was closed.
            TypeError: An argument has a wrong type.
            ValueError: The handler is none of these.

        Example:
            >>> with session.info.declare_transport_events_listener(history=True) as listener:
            ...     event = listener.recv(timeout=1)
        """
        self._runtime.check_open()
        return TransportEventsListener(self._runtime, self._runtime.bind_handler(handler), to_bool(history))

    @overload
    def declare_link_events_listener(
        self, handler: IntoChannel[LinkEvent] | None = None, *, history: bool | None = None
    ) -> LinkEventsListener[Handler[LinkEvent]]: ...
    @overload
    def declare_link_events_listener(
        self, handler: IntoCallbackAndHandler[LinkEvent, H], *, history: bool | None = None
    ) -> LinkEventsListener[H]: ...
    @overload
    def declare_link_events_listener(
        self, handler: IntoCallback[LinkEvent], *, history: bool | None = None
    ) -> LinkEventsListener[None]: ...

    def declare_link_events_listener(
        self, handler: object = None, *, history: bool | None = None
    ) -> LinkEventsListener[Any]:
        """Listen for links that are added and removed.

        Args:
            handler: Where the events are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                function that is called with each of them, or a pair of a function and an object; by default a
                `FifoChannel` of 256.
            history: Whether events are delivered for links that exist already; False by default.

        Returns:
            The listener. With a channel it ends when it is garbage-collected; with a callback it lives as long as the
            session, unless it is undeclared.

        Raises:
            SessionClosed: The session was closed.
            TypeError: An argument has a wrong type.
            ValueError: The handler is none of these.

        Example:
            >>> with session.info.declare_link_events_listener(history=True) as listener:
            ...     event = listener.recv(timeout=1)
        """
        self._runtime.check_open()
        return LinkEventsListener(self._runtime, self._runtime.bind_handler(handler), to_bool(history))
