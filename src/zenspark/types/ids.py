"""Ids of nodes and entities, and the source of a sample."""

from __future__ import annotations

from typing import TypeAlias

from zenspark.types.wire_value import WireValue, rust_repr
from zenspark.wire import values as wire

EntityId: TypeAlias = int
SourceSn: TypeAlias = int

SOURCE_SN_MODULUS = 1 << 32
"""Modulus of the sequence numbers of SourceInfo: after the largest they start again at 0."""


class ZenohId(WireValue[wire.ZenohId]):
    """The id of a node, unique in the network: lower-case hexadecimal text.

    Args:
        text: 1 to 32 hexadecimal digits.

    Raises:
        UsageError: It is no such text.

    Example:
        >>> zenspark.ZenohId("a1b2")
        a1b2
    """

    __slots__ = ()

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "_wire", wire.ZenohId.parse(text))

    def __bytes__(self) -> bytes:
        return self._wire.to_bytes()

    def __str__(self) -> str:
        return str(self._wire)

    def __repr__(self) -> str:
        return str(self._wire)


class EntityGlobalId(WireValue[wire.EntityId]):
    """The id of a publisher, subscriber, queryable or session, unique in the network.

    Args:
        zid: Id of the node.
        eid: Id of the entity in its session, of 32 bits.

    Raises:
        OverflowError: `eid` has more than 32 bits.

    Example:
        >>> entity = zenspark.EntityGlobalId(zenspark.ZenohId("a1b2"), 3)
        >>> entity.zid, entity.eid
        (a1b2, 3)
    """

    __slots__ = ()

    def __init__(self, zid: ZenohId, eid: EntityId) -> None:
        object.__setattr__(self, "_wire", wire.EntityId(zid.to_wire(), _u32(eid)))

    @property
    def zid(self) -> ZenohId:
        """The id of the node of the entity."""
        return ZenohId.from_wire(self._wire.zid)

    @property
    def eid(self) -> EntityId:
        """The id of the entity in its session."""
        return self._wire.eid

    def __repr__(self) -> str:
        return rust_repr(self, zid=self.zid, eid=self.eid)


class SourceInfo(WireValue[wire.SourceInfo]):
    """Publisher and sequence number of a sample, by which receivers detect missing samples.

    Args:
        source_id: Id of the publisher.
        source_sn: Sequence number of the sample, of 32 bits.

    Raises:
        OverflowError: The sequence number has more than 32 bits.
        TypeError: `source_id` is no `EntityGlobalId`.

    Example:
        >>> session.put("demo/a", "1", source_info=zenspark.SourceInfo(session.id, 7))
    """

    __slots__ = ()

    def __init__(self, source_id: EntityGlobalId, source_sn: SourceSn) -> None:
        if not isinstance(source_id, EntityGlobalId):
            raise TypeError(f"expected an EntityGlobalId, found {type(source_id).__name__!r}")
        source = source_id.to_wire()
        object.__setattr__(self, "_wire", wire.SourceInfo(source.zid, source.eid, _u32(source_sn)))

    @property
    def source_id(self) -> EntityGlobalId:
        """The id of the publisher."""
        return EntityGlobalId.from_wire(wire.EntityId(self._wire.zid, self._wire.eid))

    @property
    def source_sn(self) -> SourceSn:
        """The sequence number of the sample."""
        return self._wire.sn

    def __repr__(self) -> str:
        return rust_repr(self, source_id=self.source_id, source_sn=self.source_sn)


def _u32(value: int) -> int:
    if not 0 <= value < 1 << 32:
        raise OverflowError(f"expected a number of 32 bits, found {value}")
    return value


def format_source(source: SourceInfo | None) -> str:
    """Format the sender of a query or sample for a log line: its zid, or that it did not send its id."""
    return "an unnamed sender" if source is None else str(source.source_id.zid)
