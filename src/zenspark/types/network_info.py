"""Values that describe the network: nodes found, transports, links, their events and counters, matching, and errors."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from zenspark.net.io.counters import NeighbourTotals
from zenspark.types.encoding import Encoding
from zenspark.types.enums import Reliability, SampleKind, WhatAmI
from zenspark.types.ids import SourceInfo, ZenohId
from zenspark.types.timestamp_stack import TimestampStack
from zenspark.types.timestamps import Timestamp
from zenspark.types.wire_value import WireValue, rust_repr, rust_repr_field
from zenspark.types.zbytes import ZBytes
from zenspark.wire import messages
from zenspark.wire import values as wire


class Hello(WireValue[messages.Hello]):
    """A node that replied to a scout, and its addresses. `zenspark.scout` delivers it.

    Example:
        >>> with zenspark.scout(what="router") as scout:
        ...     hello = scout.recv(timeout=3)
        ...     print(hello.whatami, hello.zid, hello.locators)
    """

    __slots__ = ()

    @property
    def whatami(self) -> WhatAmI:
        """The role of the node."""
        return WhatAmI.from_wire(self._wire.whatami)

    @property
    def zid(self) -> ZenohId:
        """The id of the node."""
        return ZenohId.from_wire(self._wire.zid)

    @property
    def locators(self) -> list[str]:
        """The addresses of the node, such as `tcp/192.168.0.1:7447`."""
        return [locator.text for locator in self._wire.locators]

    def __repr__(self) -> str:
        return rust_repr(self, zid=self.zid, whatami=self.whatami, locators=self.locators)


class NetworkInfo(msgspec.Struct, frozen=True):
    """A value about the network of a session; it prints as in eclipse-zenoh."""

    def __repr__(self) -> str:
        return rust_repr(self, **msgspec.structs.asdict(self))


class Transport(NetworkInfo, frozen=True):
    """A session with another node, over one or more links.

    Attributes:
        zid: Id of the node.
        whatami: Role of the node.
        is_qos: Whether messages have priorities on it.
        is_multicast: Whether it is a multicast group.
        is_shm: Whether it shares memory; always False.

    Example:
        >>> for transport in session.info.transports():
        ...     print(transport.zid, transport.whatami)
    """

    zid: ZenohId
    whatami: WhatAmI
    is_qos: bool = True
    is_multicast: bool = False
    is_shm: bool = False


class Link(NetworkInfo, frozen=True):
    """One connection of a transport.

    Attributes:
        zid: Id of the node at the other end.
        src: Address of this end.
        dst: Address of the other end.
        group: Address of the multicast group; None for unicast.
        mtu: Largest batch, in bytes.
        is_streamed: Whether it is a stream, such as TCP, not datagrams.
        interfaces: Names of the network interfaces of this end.
        auth_identifier: Name that the other end authenticated with, such as that of its certificate; None without.
        priorities: First and last priority it carries; None without QoS.
        reliability: Whether it delivers reliably; None if that is not known.

    Example:
        >>> for link in session.info.links():
        ...     print(link.src, link.dst, link.interfaces)
    """

    zid: ZenohId
    src: str
    dst: str
    group: str | None = None
    mtu: int = 65535
    is_streamed: bool = True
    interfaces: list[str] = []
    auth_identifier: str | None = None
    priorities: tuple[int, int] | None = None
    reliability: Reliability | None = None

    def __repr__(self) -> str:
        fields: dict[str, Any] = msgspec.structs.asdict(self)
        fields["interfaces"] = [f'"{name}"' for name in self.interfaces]
        if self.group is not None:
            fields["group"] = f"Some({self.group})"
        if self.auth_identifier is not None:
            fields["auth_identifier"] = f'Some("{self.auth_identifier}")'
        if self.priorities is not None:
            fields["priorities"] = f"Some({self.priorities})"
        if self.reliability is not None:
            fields["reliability"] = f"Some({rust_repr_field(self.reliability)})"
        return rust_repr(self, **fields)


class TransportEvent(NetworkInfo, frozen=True):
    """A transport was opened (PUT) or closed (DELETE).

    Attributes:
        kind: PUT or DELETE.
        transport: The transport.

    Example:
        >>> for event in session.info.declare_transport_events_listener():
        ...     print(event.kind, event.transport.zid)
    """

    kind: SampleKind
    transport: Transport


class LinkEvent(NetworkInfo, frozen=True):
    """A link was added (PUT) or removed (DELETE).

    Attributes:
        kind: PUT or DELETE.
        link: The link.

    Example:
        >>> for event in session.info.declare_link_events_listener():
        ...     print(event.kind, event.link.dst)
    """

    kind: SampleKind
    link: Link


class NeighbourEvent(NetworkInfo, frozen=True):
    """A neighbour connected (PUT) or disconnected (DELETE); not in eclipse-zenoh.

    Attributes:
        kind: PUT or DELETE.
        transport: The transport to it.
        link: The link to it.

    Example:
        >>> for event in session.info.declare_neighbour_events_listener():
        ...     print(event.kind, event.transport.zid, event.link.dst)
    """

    kind: SampleKind
    transport: Transport
    link: Link


class Declaration(NetworkInfo, frozen=True):
    """A declaration of another node that was announced to this one; not in eclipse-zenoh.

    Attributes:
        kind: "subscriber", "queryable" or "token".
        key: Its key expression.
        zid: Id of the node.
        whatami: Role of the node.

    Example:
        >>> for declaration in session.info.declarations():
        ...     print(declaration.kind, declaration.key, declaration.zid)
    """

    kind: str
    """Kind of the declaration: subscriber, queryable or token."""
    key: str
    zid: ZenohId
    whatami: WhatAmI


class LinkCounters(NetworkInfo, frozen=True):
    """Messages exchanged with one neighbour since this session opened; not in eclipse-zenoh.

    The counters are those of the neighbour, over all links that it has and had: there is one object per neighbour, not
    per link.

    Messages that a neighbour drops before sending are not counted. The reasons in `lost` are `interrupted`,
    `first_fragment_missing`, `fragment_missing`, `stopped_by_sender`, `too_large`, `memory`, `shared_memory` and
    `unknown_extension`, which count messages, and `sequence_gap`, which counts frames. Those in `dropped` are
    `congestion`, `blocked`, `backlog` and `too_large`, which count messages, and `unresponsive`, which counts batches.
    A reason that never occurred is absent.

    Attributes:
        zid: Id of the neighbour.
        received: Network messages received: publications, queries, replies and declarations.
        lost: Messages that the neighbour sent and that did not arrive whole, by reason.
        dropped: Messages for the neighbour that were not sent, by reason.

    Example:
        >>> for counters in session.info.link_counters():
        ...     print(counters.zid, counters.received, counters.dropped.get("congestion", 0))
    """

    zid: ZenohId
    received: int
    """Network messages received: publications, queries, replies and declarations."""
    lost: dict[str, int]
    """Messages that the neighbour sent and that did not arrive whole, by reason."""
    dropped: dict[str, int]
    """Messages for the neighbour that were not sent, by reason."""

    @classmethod
    def from_totals(cls, totals: NeighbourTotals) -> Self:
        """Make the counters from those of a node.

        Args:
            totals: The counters of the node.

        Returns:
            The counters, by the names of the reasons.

        Example:
            >>> counters = [zenspark.LinkCounters.from_totals(totals) for totals in runtime.node.counters.totals]
        """
        return cls(
            ZenohId.from_wire(totals.zid),
            totals.received,
            {reason.value: count for reason, count in totals.lost.items()},
            {reason.value: count for reason, count in totals.dropped.items()},
        )


class ConnectionStatus(NetworkInfo, frozen=True):
    """State of a connection that the configuration requires (`connect/endpoints`); not in eclipse-zenoh.

    Attributes:
        endpoints: Addresses of which one is to be connected.
        is_connected: Whether there is a session with one of them.
        problem: Reason why there is none; None if there is one, or if the first attempt has not ended yet.

    Example:
        >>> for connection in session.info.connections():
        ...     print(connection.endpoints, connection.is_connected, connection.problem)
    """

    endpoints: list[str]
    is_connected: bool
    problem: str | None = None


class MatchingStatus(NetworkInfo, frozen=True):
    """Whether a publisher has matching subscribers, or a querier matching queryables; true or false in an `if`.

    Attributes:
        matching: Whether there is at least one.

    Example:
        >>> if publisher.matching_status:
        ...     publisher.put("21.5")
    """

    matching: bool

    def __bool__(self) -> bool:
        return self.matching


class ReplyError(NetworkInfo, frozen=True):
    """An error that a queryable replied with.

    Attributes:
        payload: The reason, as the queryable sent it.
        encoding: Encoding of the payload.
        timestamp_stack: Clock readings of the nodes on the way; None unless the query was instrumented.
        source_info: Entity that sent it; None if it is not known. Not in eclipse-zenoh.
        timestamp: Time of the response (extension 0x2 of RESPONSE); None without. Not in eclipse-zenoh.

    Example:
        >>> for reply in session.get("demo/**"):
        ...     if reply.err is not None:
        ...         print(reply.err.payload.to_string())
    """

    payload: ZBytes
    encoding: Encoding = Encoding.ZENOH_BYTES
    timestamp_stack: TimestampStack | None = None
    source_info: SourceInfo | None = None
    """The entity that made the error, if it is set; not in eclipse-zenoh."""
    timestamp: Timestamp | None = None
    """The time of the error, if it is set (extension 0x2 of RESPONSE); not in eclipse-zenoh."""

    @classmethod
    def from_wire(
        cls,
        error: messages.Err,
        stack: wire.TimestampStack | None = None,
        timestamp: wire.Timestamp | None = None,
    ) -> Self:
        """Internal: make it from the value that messages carry."""
        records = None if stack is None else TimestampStack.from_wire(stack)
        source = None if error.source_info is None else SourceInfo.from_wire(error.source_info)
        stamp = None if timestamp is None else Timestamp.from_wire(timestamp)
        return cls(ZBytes(error.payload), Encoding.from_wire(error.encoding), records, source, stamp)

    def __repr__(self) -> str:
        fields: dict[str, Any] = msgspec.structs.asdict(self)
        for name in ("source_info", "timestamp"):
            if fields[name] is None:  # prints as eclipse-zenoh's, which has none
                del fields[name]
        return rust_repr(self, **fields)
