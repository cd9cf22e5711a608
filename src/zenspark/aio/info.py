"""SessionInfo: the neighbours of a session, its transports, links and counters, and listeners for their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from zenspark.aio.awaitable import Pending
from zenspark.aio.channels import Channel
from zenspark.aio.entities import Receiver, async_declare
from zenspark.aio.send_readiness import SendReadiness
from zenspark.api import info as api
from zenspark.api._signatures import IntoCallback, IntoCallbackAndHandler, IntoChannel
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

H = TypeVar("H")
H_co = TypeVar("H_co", covariant=True)


class TransportEventsListener(Receiver[api.TransportEventsListener[Any], H_co]):
    """Receives a `TransportEvent` when the transport to a neighbour opens (PUT) or closes (DELETE).

    Example:
        >>> async with session.info.declare_transport_events_listener() as listener:
        ...     event = await listener.recv()
    """


class LinkEventsListener(Receiver[api.LinkEventsListener[Any], H_co]):
    """Receives a `LinkEvent` when a link is added (PUT) or removed (DELETE).

    Example:
        >>> async with session.info.declare_link_events_listener() as listener:
        ...     event = await listener.recv()
    """


class NeighbourEventsListener(Receiver[api.NeighbourEventsListener[Any], H_co]):
    """Receives a `NeighbourEvent` when a neighbour connects (PUT) or disconnects (DELETE).

    Example:
        >>> async with session.info.declare_neighbour_events_listener() as listener:
        ...     event = await listener.recv()
    """


class SessionInfo:
    """The neighbours of a session, its transports, links and counters; only listeners are awaited.

    Example:
        >>> print(session.info.zid(), session.info.routers_zid(), session.info.peers_zid())
    """

    def __init__(self, readiness: SendReadiness, sync: api.SessionInfo) -> None:
        """Wrap the information of a session.

        Args:
            readiness: Waits for links of the session that have unsent bytes.
            sync: The information of the synchronous API.
        """
        self._readiness = readiness
        self._sync = sync

    def zid(self) -> ZenohId:
        """Return the id of this node.

        Returns:
            The id by which other nodes identify this node: that of the configuration, or a random one.

        Example:
            >>> print(session.info.zid())
            a1b2
        """
        return self._sync.zid()

    def locators(self) -> list[str]:
        """Return the addresses of this node; not in eclipse-zenoh.

        Returns:
            The addresses at which other nodes reach its listeners; none if it does not listen.

        Example:
            >>> session.info.locators()
            ['tcp/192.0.2.1:7447']
        """
        return self._sync.locators()

    def routers_zid(self) -> list[ZenohId]:
        """Return the ids of the routers this node is connected to.

        Returns:
            The ids, one for each transport to a neighbour that is a router.

        Example:
            >>> for zid in session.info.routers_zid():
            ...     print(zid)
        """
        return self._sync.routers_zid()

    def peers_zid(self) -> list[ZenohId]:
        """Return the ids of the peers this node is connected to.

        Returns:
            The ids, one for each transport to a neighbour that is a peer.

        Example:
            >>> for zid in session.info.peers_zid():
            ...     print(zid)
        """
        return self._sync.peers_zid()

    def transports(self) -> list[Transport]:
        """Return the open transports.

        Returns:
            The transports, one for each neighbour.

        Example:
            >>> for transport in session.info.transports():
            ...     print(transport.zid, transport.whatami)
        """
        return self._sync.transports()

    def links(self) -> list[Link]:
        """Return the open links.

        Returns:
            The links, with the addresses of both ends.

        Example:
            >>> for link in session.info.links():
            ...     print(link.zid, link.src, link.dst)
        """
        return self._sync.links()

    def connections(self) -> list[ConnectionStatus]:
        """Return the state of each connection that the configuration requires; not in eclipse-zenoh.

        Returns:
            The states, in the order of the configuration.

        Example:
            >>> for connection in session.info.connections():
            ...     print(connection.endpoints, connection.is_connected, connection.problem)
        """
        return self._sync.connections()

    def link_counters(self) -> list[LinkCounters]:
        """Return the messages received from each neighbour, lost on the way in and dropped on the way out.

        Returns:
            The counters of each neighbour, since its first connection.

        Example:
            >>> for counters in session.info.link_counters():
            ...     print(counters.zid, counters.received, counters.lost, counters.dropped)
        """
        return self._sync.link_counters()

    def refusals(self) -> dict[str, int]:
        """Return the number of requests of neighbours that each limit refused; not in eclipse-zenoh.

        Returns:
            The counts, by the name of the limit.

        Example:
            >>> session.info.refusals()
            {'key_bytes': 3}
        """
        return self._sync.refusals()

    def declarations(self) -> list[Declaration]:
        """Return the declarations of other nodes that were announced to this node; not in eclipse-zenoh.

        Returns:
            Kind, key expression and node of each subscriber, queryable and token.

        Example:
            >>> for declaration in session.info.declarations():
            ...     print(declaration.kind, declaration.key, declaration.zid)
        """
        return self._sync.declarations()

    if TYPE_CHECKING:

        @overload
        def declare_neighbour_events_listener(
            self, handler: IntoChannel[NeighbourEvent] | None = None, *, history: bool | None = None
        ) -> Pending[NeighbourEventsListener[Channel[NeighbourEvent]]]: ...
        @overload
        def declare_neighbour_events_listener(
            self, handler: IntoCallbackAndHandler[NeighbourEvent, H], *, history: bool | None = None
        ) -> Pending[NeighbourEventsListener[H]]: ...
        @overload
        def declare_neighbour_events_listener(
            self, handler: IntoCallback[NeighbourEvent], *, history: bool | None = None
        ) -> Pending[NeighbourEventsListener[None]]: ...
        def declare_neighbour_events_listener(
            self, handler: object = None, *, history: bool | None = None
        ) -> Pending[NeighbourEventsListener[Any]]:
            """Listen for neighbours that connect and disconnect. Not in eclipse-zenoh.

            `await` the result, or enter it with `async with`; before that nothing is declared.

            Args:
                handler: Where the events are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                    function or coroutine function that is called with each of them, or a pair of a function and an
                    object; by default a `FifoChannel` of 256.
                history: Whether events are delivered for neighbours that are connected already; False by default.

            Returns:
                The listener. With a channel it ends when it is garbage-collected; with a callback it lives as long as
                the session, unless it is undeclared.

            Raises:
                SessionClosed: The session was closed.
                TypeError: An argument has a wrong type.
                ValueError: The handler is none of these.

            Example:
                >>> async with session.info.declare_neighbour_events_listener(history=True) as listener:
                ...     event = await listener.recv()
            """

    else:
        declare_neighbour_events_listener = async_declare(
            api.SessionInfo.declare_neighbour_events_listener,
            NeighbourEventsListener,
            "async with session.info.declare_neighbour_events_listener(history=True) as listener:\n"
            "    event = await listener.recv()",
            0,
        )

    if TYPE_CHECKING:

        @overload
        def declare_transport_events_listener(
            self, handler: IntoChannel[TransportEvent] | None = None, *, history: bool | None = None
        ) -> Pending[TransportEventsListener[Channel[TransportEvent]]]: ...
        @overload
        def declare_transport_events_listener(
            self, handler: IntoCallbackAndHandler[TransportEvent, H], *, history: bool | None = None
        ) -> Pending[TransportEventsListener[H]]: ...
        @overload
        def declare_transport_events_listener(
            self, handler: IntoCallback[TransportEvent], *, history: bool | None = None
        ) -> Pending[TransportEventsListener[None]]: ...
        def declare_transport_events_listener(
            self, handler: object = None, *, history: bool | None = None
        ) -> Pending[TransportEventsListener[Any]]:
            """Listen for transports that open and close.

            `await` the result, or enter it with `async with`; before that nothing is declared.

            Args:
                handler: Where the events are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                    function or coroutine function that is called with each of them, or a pair of a function and an
                    object; by default a `FifoChannel` of 256.
                history: Whether events are delivered for transports that are open already; False by default.

            Returns:
                The listener. With a channel it ends when it is garbage-collected; with a callback it lives as long as
                the session, unless it is undeclared.

            Raises:
                SessionClosed: The session was closed.
                TypeError: An argument has a wrong type.
                ValueError: The handler is none of these.

            Example:
                >>> async with session.info.declare_transport_events_listener(history=True) as listener:
                ...     event = await listener.recv()
            """

    else:
        declare_transport_events_listener = async_declare(
            api.SessionInfo.declare_transport_events_listener,
            TransportEventsListener,
            "async with session.info.declare_transport_events_listener(history=True) as listener:\n"
            "    event = await listener.recv()",
            0,
        )

    if TYPE_CHECKING:

        @overload
        def declare_link_events_listener(
            self, handler: IntoChannel[LinkEvent] | None = None, *, history: bool | None = None
        ) -> Pending[LinkEventsListener[Channel[LinkEvent]]]: ...
        @overload
        def declare_link_events_listener(
            self, handler: IntoCallbackAndHandler[LinkEvent, H], *, history: bool | None = None
        ) -> Pending[LinkEventsListener[H]]: ...
        @overload
        def declare_link_events_listener(
            self, handler: IntoCallback[LinkEvent], *, history: bool | None = None
        ) -> Pending[LinkEventsListener[None]]: ...
        def declare_link_events_listener(
            self, handler: object = None, *, history: bool | None = None
        ) -> Pending[LinkEventsListener[Any]]:
            """Listen for links that are added and removed.

            `await` the result, or enter it with `async with`; before that nothing is declared.

            Args:
                handler: Where the events are delivered. A channel (`FifoChannel(capacity)`, `RingChannel(capacity)`), a
                    function or coroutine function that is called with each of them, or a pair of a function and an
                    object; by default a `FifoChannel` of 256.
                history: Whether events are delivered for links that exist already; False by default.

            Returns:
                The listener. With a channel it ends when it is garbage-collected; with a callback it lives as long as
                the session, unless it is undeclared.

            Raises:
                SessionClosed: The session was closed.
                TypeError: An argument has a wrong type.
                ValueError: The handler is none of these.

            Example:
                >>> async with session.info.declare_link_events_listener(history=True) as listener:
                ...     event = await listener.recv()
            """

    else:
        declare_link_events_listener = async_declare(
            api.SessionInfo.declare_link_events_listener,
            LinkEventsListener,
            "async with session.info.declare_link_events_listener(history=True) as listener:\n"
            "    event = await listener.recv()",
            0,
        )
