"""What a session tells besides samples: nodes it found, transports and links, matching, and replies that are errors."""

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
    """A node that answered a scout, and where it can be reached."""

    __slots__ = ()

    @property
    def whatami(self) -> WhatAmI:
        """Its role."""
        return WhatAmI.from_wire(self._wire.whatami)

    @property
    def zid(self) -> ZenohId:
        """Its id."""
        return ZenohId.from_wire(self._wire.zid)

    @property
    def locators(self) -> list[str]:
        """Its addresses, such as `tcp/192.168.0.1:7447`."""
        return [locator.text for locator in self._wire.locators]

    def __repr__(self) -> str:
        return rust_repr(self, zid=self.zid, whatami=self.whatami, locators=self.locators)


class NetworkInfo(msgspec.Struct, frozen=True):
    """Something the session tells about its network; prints as eclipse-zenoh prints it."""

    def __repr__(self) -> str:
        return rust_repr(self, **msgspec.structs.asdict(self))


class Transport(NetworkInfo, frozen=True):
    """A session with another node, over one or more links."""

    zid: ZenohId
    whatami: WhatAmI
    is_qos: bool = True
    is_multicast: bool = False
    is_shm: bool = False


class Link(NetworkInfo, frozen=True):
    """One connection of a transport: between which addresses, and what it carries."""

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
    """A transport was opened (PUT) or closed (DELETE)."""

    kind: SampleKind
    transport: Transport


class LinkEvent(NetworkInfo, frozen=True):
    """A link was added (PUT) or removed (DELETE)."""

    kind: SampleKind
    link: Link


class NeighbourEvent(NetworkInfo, frozen=True):
    """A neighbour came (PUT) or went (DELETE): who, and over which link; not in eclipse-zenoh."""

    kind: SampleKind
    transport: Transport
    link: Link


class Declaration(NetworkInfo, frozen=True):
    """Something a node declared, as this one knows it; not in eclipse-zenoh."""

    kind: str
    """subscriber, queryable or token"""
    key: str
    zid: ZenohId
    whatami: WhatAmI


class LinkCounters(NetworkInfo, frozen=True):
    """What was exchanged with one neighbour since this session opened, over all its links; not in eclipse-zenoh.

    What a neighbour drops before sending leaves no trace here. The reasons in `lost` are `interrupted`,
    `first_fragment_missing`, `fragment_missing`, `stopped_by_sender`, `too_large`, `memory`, `shared_memory` and
    `unknown_extension`, which count messages, and `sequence_gap`, which counts frames. Those in `dropped` are
    `congestion`, `blocked`, `backlog` and `too_large`, which count messages, and `unresponsive`, which counts batches.
    A reason that never occurred is not there.
    """

    zid: ZenohId
    received: int
    """Network messages that came: publications, queries, replies and declarations."""
    lost: dict[str, int]
    """By reason, what the neighbour sent and what did not arrive whole."""
    dropped: dict[str, int]
    """By reason, messages that were to be sent to the neighbour and were not."""

    @classmethod
    def from_totals(cls, totals: NeighbourTotals) -> Self:
        """The counters as a node keeps them."""
        return cls(
            ZenohId.from_wire(totals.zid),
            totals.received,
            {reason.value: count for reason, count in totals.lost.items()},
            {reason.value: count for reason, count in totals.dropped.items()},
        )


class MatchingStatus(NetworkInfo, frozen=True):
    """Whether anybody listens to a publisher, or could answer a querier; true in an `if` when somebody does."""

    matching: bool

    def __bool__(self) -> bool:
        return self.matching


class ReplyError(NetworkInfo, frozen=True):
    """What a queryable said instead of an answer."""

    payload: ZBytes
    encoding: Encoding = Encoding.ZENOH_BYTES
    timestamp_stack: TimestampStack | None = None
    source_info: SourceInfo | None = None
    """Which entity says so, if it told; not in eclipse-zenoh."""
    timestamp: Timestamp | None = None
    """When, if it told (extension 0x2 of RESPONSE); not in eclipse-zenoh."""

    @classmethod
    def from_wire(
        cls,
        error: messages.Err,
        stack: wire.TimestampStack | None = None,
        timestamp: wire.Timestamp | None = None,
    ) -> Self:
        """The error of a RESPONSE, with stack and timestamp of that message."""
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
