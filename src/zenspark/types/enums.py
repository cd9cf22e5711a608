"""Enumerations of the API: congestion control, priorities, targets and consolidation of queries, roles of nodes.

Names and numbers are those of eclipse-zenoh. Those that messages carry have `to_wire` and `from_wire`, the only
conversion between the members of the API and those of the wire. Both have the same numbers, except roles: they are bits
here and numbered from 0 on the wire.
"""

from __future__ import annotations

from enum import Enum, nonmember
from typing import ClassVar, Self

import msgspec

from zenspark.errors import UsageError
from zenspark.key import SetIntersectionLevel
from zenspark.member_docstrings import DocumentedEnumType
from zenspark.types.arguments import require_type, require_type_or_default
from zenspark.wire import values as wire

__all__ = [
    "CongestionControl",
    "ConsolidationMode",
    "InterceptionPoint",
    "Locality",
    "Priority",
    "QueryConsolidation",
    "QueryTarget",
    "Reliability",
    "ReplyKeyExpr",
    "SampleKind",
    "SetIntersectionLevel",
    "WhatAmI",
    "WhatAmIMatcher",
]


class ApiEnum(Enum, metaclass=DocumentedEnumType):
    """A closed set whose members print as `Name.MEMBER` and have a number."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __int__(self) -> int:
        return int(self.value)


class ApiWireEnum(ApiEnum):
    """A closed set that messages carry."""

    @classmethod
    def from_wire(cls, value: int) -> Self:
        """Internal: make it from the value that messages carry."""
        return cls._value2member_map_[value]  # type: ignore[return-value]  # Enum types its table for any enumeration


class CongestionControl(ApiWireEnum):
    """Treatment of a message while the link it is sent on has unsent bytes.

    Example:
        >>> session.put("demo/a", "1", congestion_control=zenspark.CongestionControl.BLOCK)
    """

    DROP = 0
    """The sender waits up to 1 ms, then drops messages, the next ones at once until the link has drained."""
    BLOCK = 1
    """The sender waits until the bytes are taken; the session with a neighbour that takes none for 5 s is closed."""
    BLOCK_FIRST = 2
    """One message waits as with BLOCK; others with BLOCK_FIRST are dropped meanwhile."""
    DEFAULT = DROP

    def to_wire(self) -> wire.Congestion:
        """Internal: return the value that messages carry."""
        return wire.Congestion(self.value)


class Priority(ApiWireEnum):
    """The order in which queued messages are sent: the smaller the number, the sooner.

    Example:
        >>> session.put("demo/alarm", "1", priority=zenspark.Priority.REAL_TIME)
    """

    REAL_TIME = 1
    """Messages that are sent before all others, such as alarms."""
    INTERACTIVE_HIGH = 2
    """Messages of control loops and operators, sent after REAL_TIME."""
    INTERACTIVE_LOW = 3
    """Messages of operators that may wait, sent after INTERACTIVE_HIGH."""
    DATA_HIGH = 4
    """Data that is sent before other data."""
    DATA = 5
    """Data of no special urgency: the default."""
    DATA_LOW = 6
    """Data that is sent after other data."""
    BACKGROUND = 7
    """Messages that are sent when there are no others, such as bulk transfers."""
    DEFAULT = DATA
    MIN = BACKGROUND
    MAX = REAL_TIME

    NUM = nonmember(7)
    """Number of priorities."""

    def to_wire(self) -> wire.Priority:
        """Internal: return the value that messages carry."""
        return wire.Priority(self.value)

    @classmethod
    def from_wire(cls, value: int) -> Self:
        """Internal: make it from the value that messages carry."""
        # CONTROL is 0 and reserved for the protocol: it becomes DATA
        return cls._value2member_map_[value or 5]  # type: ignore[return-value]  # as in ApiWireEnum


class Reliability(ApiEnum):
    """The lane on which samples are sent. Neither retransmits: gaps in the sequence numbers are counted as losses.

    Example:
        >>> publisher = session.declare_publisher("demo/a", reliability=zenspark.Reliability.BEST_EFFORT)
    """

    BEST_EFFORT = 0
    """The best-effort lane, with sequence numbers of its own: its samples may overtake those of the reliable lane."""
    RELIABLE = 1
    """The reliable lane, that of samples whose publisher makes no choice."""
    DEFAULT = BEST_EFFORT
    """BEST_EFFORT, as in eclipse-zenoh: a default in name only, since a publisher without a choice is RELIABLE."""


class SampleKind(ApiEnum):
    """Whether a sample has a value, or deletes its key.

    Example:
        >>> if sample.kind is zenspark.SampleKind.DELETE:
        ...     print(sample.key_expr, "was deleted")
    """

    PUT = 0
    """A value was published on the key, or a liveliness token appeared there."""
    DELETE = 1
    """The key was deleted, or a liveliness token disappeared there; the payload is empty."""


class Locality(ApiEnum):
    """Location of publishers, subscribers or queryables: this session, other sessions, or both.

    Example:
        >>> session.put("demo/a", "1", allowed_destination=zenspark.Locality.REMOTE)
    """

    SESSION_LOCAL = 0
    """Only entities of the same session."""
    REMOTE = 1
    """Only entities of other sessions, in this process or others."""
    ANY = 2
    """Entities of all sessions."""
    DEFAULT = ANY


class QueryTarget(ApiWireEnum):
    """The matching queryables that a query is sent to.

    Example:
        >>> replies = session.get("demo/**", target=zenspark.QueryTarget.ALL)
    """

    BEST_MATCHING = 0
    """The nearest complete queryable; all queryables if none is complete."""
    ALL = 1
    """All matching queryables."""
    ALL_COMPLETE = 2
    """All matching queryables that were declared with `complete=True`: each has a value for every key it matches."""
    DEFAULT = BEST_MATCHING

    def to_wire(self) -> wire.QueryTarget:
        """Internal: return the value that messages carry."""
        return wire.QueryTarget(self.value)


class ConsolidationMode(ApiWireEnum):
    """Merging of replies on the same key.

    Example:
        >>> replies = session.get("demo/**", consolidation=zenspark.ConsolidationMode.NONE)
    """

    AUTO = 0
    """Merging of each reply as its queryable prefers; without a preference as LATEST, or as NONE if the query has a
    range of time."""
    NONE = 1
    """Delivery of every reply."""
    MONOTONIC = 2
    """Delivery of every reply at once, except those older than one already delivered."""
    LATEST = 3
    """Delivery of only the newest reply on each key, when the query has ended."""
    DEFAULT = AUTO

    def to_wire(self) -> wire.Consolidation:
        """Internal: return the value that messages carry."""
        return wire.Consolidation(self.value)

    def __call__(self) -> Self:
        """Return itself: `QueryConsolidation.mode` is a property by eclipse-zenoh's stubs but a method when it runs."""
        return self


class ReplyKeyExpr(ApiEnum):
    """Keys that replies may have: any, or only those that match the query.

    Example:
        >>> replies = session.get("demo/a", accept_replies=zenspark.ReplyKeyExpr.ANY)
    """

    ANY = 0
    """Replies may have any key."""
    MATCHING_QUERY = 1
    """Replies have keys that match the key expression of the query; a queryable cannot send others."""
    DEFAULT = MATCHING_QUERY


class InterceptionPoint(ApiEnum):
    """Point on the way of a message at which a clock reading is recorded.

    Example:
        >>> points = zenspark.TimestampInstrumentationBuilder().set_send(True).build()
        >>> points.is_instrumented(zenspark.InterceptionPoint.SEND)
        True
    """

    SEND = 0
    """The node that sends the message first, before it is queued for a link."""
    ROUTE = 1
    """A node that forwards the message."""
    RECEIVE = 2
    """A node that delivers the message to a subscriber, queryable or querier."""

    @property
    def bit(self) -> int:
        """The bit of the point in the flags of a timestamp stack."""
        return 1 << int(self)


class WhatAmI(ApiWireEnum):
    """The role of a node; also made from its name, `WhatAmI("peer")`.

    Example:
        >>> zenspark.WhatAmI("peer") | zenspark.WhatAmI.ROUTER
        WhatAmIMatcher('router|peer')
    """

    ROUTER = 1
    """A node that forwards messages between all nodes connected to it."""
    PEER = 2
    """A node that connects to the peers and routers it finds: the default."""
    CLIENT = 4
    """A node that connects to one router or peer, which forwards for it."""

    def __str__(self) -> str:
        return self.name.lower()

    def __repr__(self) -> str:
        return self.name.title()

    def __or__(self, other: object) -> WhatAmIMatcher:
        if not isinstance(other, WhatAmI | str):
            return NotImplemented
        return WhatAmIMatcher._of(self.value | WhatAmI(other).value)

    @classmethod
    def _missing_(cls, value: object) -> Self:
        members = [member for member in cls if value == str(member)]
        if not members:
            raise UsageError(f"expected one of {', '.join(map(str, cls))}, found {value!r}")
        return members[0]

    @classmethod
    def from_wire(cls, value: int) -> Self:
        """Internal: make it from the value that messages carry."""
        return super().from_wire(1 << value)  # on the wire roles count from 0

    def to_wire(self) -> wire.WhatAmI:
        """Internal: return the value that messages carry."""
        return wire.WhatAmI[self.name]


class WhatAmIMatcher:
    """A set of roles, from text such as "peer|router", or from `empty()` role by role.

    Args:
        matcher: Names of roles with `|` between them; no role by default.

    Raises:
        UsageError: A name is no role.
        TypeError: It is no string.

    Example:
        >>> scout = zenspark.scout(what=zenspark.WhatAmIMatcher.empty().router().peer())
    """

    __slots__ = ("_bits",)
    _bits: int

    def __init__(self, matcher: str | None = None) -> None:
        names = [name.strip() for name in require_type_or_default(str, matcher, "").split("|")]
        self._bits = sum({WhatAmI(name).value for name in names if name})

    @classmethod
    def _of(cls, bits: int) -> Self:
        matcher = cls()
        matcher._bits = bits
        return matcher

    @classmethod
    def empty(cls) -> Self:
        """Return the empty set.

        Returns:
            A set without roles.

        Example:
            >>> zenspark.WhatAmIMatcher.empty().router()
            WhatAmIMatcher('router')
        """
        return cls()

    @classmethod
    def of(cls, what: WhatAmIMatcher | WhatAmI | str) -> WhatAmIMatcher:
        """Return a set of roles as it is, and make one from anything else.

        Args:
            what: A set, a role, or names of roles with `|` between them.

        Returns:
            The same set, or a new one.

        Raises:
            UsageError: A name is no role.
            TypeError: It is none of these.

        Example:
            >>> zenspark.WhatAmIMatcher.of("peer|router")
            WhatAmIMatcher('router|peer')
        """
        if isinstance(what, WhatAmIMatcher):
            return what
        return cls(str(what) if isinstance(what, WhatAmI) else require_type(str, what))

    def router(self) -> Self:
        """Return the set with routers.

        Returns:
            A new set: the roles of this one, and routers.

        Example:
            >>> zenspark.WhatAmIMatcher("peer").router()
            WhatAmIMatcher('router|peer')
        """
        return self._of(self._bits | WhatAmI.ROUTER.value)

    def peer(self) -> Self:
        """Return the set with peers.

        Returns:
            A new set: the roles of this one, and peers.

        Example:
            >>> zenspark.WhatAmIMatcher("client").peer()
            WhatAmIMatcher('peer|client')
        """
        return self._of(self._bits | WhatAmI.PEER.value)

    def client(self) -> Self:
        """Return the set with clients.

        Returns:
            A new set: the roles of this one, and clients.

        Example:
            >>> zenspark.WhatAmIMatcher("router").client()
            WhatAmIMatcher('router|client')
        """
        return self._of(self._bits | WhatAmI.CLIENT.value)

    def is_empty(self) -> bool:
        """Return whether the set is empty.

        Returns:
            True if it has no role.

        Example:
            >>> zenspark.WhatAmIMatcher("router").is_empty()
            False
        """
        return not self._bits

    def matches(self, whatami: WhatAmI | str) -> bool:
        """Test whether the set has a role.

        Args:
            whatami: The role, or its name.

        Returns:
            True if it has.

        Raises:
            UsageError: The name is no role.

        Example:
            >>> zenspark.WhatAmIMatcher("router|peer").matches("client")
            False
        """
        return bool(self._bits & WhatAmI(whatami).value)

    __contains__ = matches

    def to_wire(self) -> wire.Roles:
        """Internal: return the value that messages carry."""
        return wire.Roles(self._bits)

    def __str__(self) -> str:
        return "|".join(str(role) for role in WhatAmI if role in self)

    def __repr__(self) -> str:
        return f"WhatAmIMatcher({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return self._bits == other._bits if isinstance(other, WhatAmIMatcher) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._bits)


class QueryConsolidation(msgspec.Struct, frozen=True):
    """The consolidation of a query; `get` takes a plain mode as well.

    Attributes:
        mode: The mode.

    Raises:
        TypeError: It is no `ConsolidationMode`.

    Example:
        >>> replies = session.get("demo/**", consolidation=zenspark.QueryConsolidation.AUTO)
    """

    AUTO: ClassVar[QueryConsolidation]
    DEFAULT: ClassVar[QueryConsolidation]

    mode: ConsolidationMode

    def __post_init__(self) -> None:
        if not isinstance(self.mode, ConsolidationMode):
            raise TypeError(f"expected a ConsolidationMode, found {type(self.mode).__name__!r}")


QueryConsolidation.AUTO = QueryConsolidation.DEFAULT = QueryConsolidation(ConsolidationMode.AUTO)
