# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Sample: one publication as users receive it, and Reply: one reply to a query.

A sample is a payload, an NTP64 time and a `SampleHeader`, which many samples share. All other properties are computed
on access. Compiled, because one is made per message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from zenspark import _cython as cython
else:
    import cython

if cython.compiled:  # pragma: no cover
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize

from zenspark.constructor_signature import ConstructorSignature
from zenspark.key import KeyExpr
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl, ConsolidationMode, Priority, Reliability, SampleKind
from zenspark.types.ids import EntityGlobalId, SourceInfo
from zenspark.types.network_info import ReplyError
from zenspark.types.timestamp_stack import TimestampStack
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import ZBytes
from zenspark.wire import values as wire
from zenspark.wire.columns import PushRun, PushTemplate
from zenspark.wire.messages import Del, Push, Put


class SampleHeader(msgspec.Struct, frozen=True):
    """Fields that samples of one key, kind, encoding, quality of service and origin share."""

    key_expr: KeyExpr
    kind: SampleKind = SampleKind.PUT
    encoding: wire.Encoding = wire.Encoding.BYTES
    qos: wire.QoS = wire.QoS.DEFAULT
    reliable: bool = True
    timestamp_id: wire.ZenohId | None = None
    source: wire.EntityId | None = None
    stack: wire.TimestampStack | None = None


@cython.final
@cython.auto_pickle(False)
@cython.no_gc  # it never refers back to itself, and there are too many for the garbage collector to visit
@cython.cclass
class Sample:
    """A value published on a key, or the deletion of a key. Subscribers receive it, and replies contain it.

    Args:
        header: Everything but the payload and its attachment, time and number.
        payload: The bytes of the value.
        ntp64: Time of the timestamp, if the header has a clock.
        attachment: The attachment; None without.
        sn: Sequence number, if the header has a source.

    Example:
        >>> sample = subscriber.recv()
        >>> print(sample.key_expr, sample.payload.to_string(), sample.timestamp)
    """

    __slots__ = ("_attachment", "_header", "_ntp64", "_payload", "_sn")
    __signature__ = ConstructorSignature()

    _header: SampleHeader
    _payload: bytes
    _ntp64: cython.ulonglong
    _attachment: bytes | None
    _sn: cython.uint

    def __init__(
        self,
        header: SampleHeader,
        payload: bytes,
        ntp64: cython.ulonglong = 0,
        attachment: bytes | None = None,
        sn: cython.uint = 0,
    ) -> None:
        self._header = header
        self._payload = payload
        self._ntp64 = ntp64
        self._attachment = attachment
        self._sn = sn

    @property
    def key_expr(self) -> KeyExpr:
        """The key it was published on."""
        return self._header.key_expr

    @property
    def payload(self) -> ZBytes:
        """The value; empty for a deletion."""
        return ZBytes(self._payload)

    @property
    def kind(self) -> SampleKind:
        """PUT for a value, DELETE for a deletion."""
        return self._header.kind

    @property
    def encoding(self) -> Encoding:
        """The encoding of the payload."""
        return Encoding.from_wire(self._header.encoding)

    @property
    def timestamp(self) -> Timestamp | None:
        """The time of the sample, and the id of the clock that made it; None without."""
        clock = self._header.timestamp_id
        return None if clock is None else Timestamp.from_wire(wire.Timestamp(self._ntp64, clock))

    @property
    def congestion_control(self) -> CongestionControl:
        """The treatment that its publisher chose for links with unsent bytes: DROP, BLOCK or BLOCK_FIRST."""
        return CongestionControl.from_wire(self._header.qos.congestion)

    @property
    def priority(self) -> Priority:
        """The priority it was sent with."""
        return Priority.from_wire(self._header.qos.priority)

    @property
    def express(self) -> bool:
        """Whether it was sent at once, without waiting for others to fill a batch."""
        return self._header.qos.express

    @property
    def reliability(self) -> Reliability:
        """The lane on which the sample was sent: reliable or best effort."""
        return Reliability.RELIABLE if self._header.reliable else Reliability.BEST_EFFORT

    @property
    def attachment(self) -> ZBytes | None:
        """The attachment of the publisher; None without."""
        return None if self._attachment is None else ZBytes(self._attachment)

    @property
    def source_info(self) -> SourceInfo | None:
        """Publisher and sequence number; None if the publisher did not send them."""
        source = self._header.source
        return None if source is None else SourceInfo.from_wire(wire.SourceInfo(source.zid, source.eid, self._sn))

    @property
    def timestamp_stack(self) -> TimestampStack | None:
        """Timestamps taken on the way, if the publisher enabled them."""
        stack = self._header.stack
        return None if stack is None else TimestampStack.from_wire(stack)

    def _fields(self) -> tuple[object, ...]:
        return (self._header, self._payload, self._ntp64, self._attachment, self._sn)

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if type(other) is Sample else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __reduce__(self) -> tuple[type[Sample], tuple[object, ...]]:
        return Sample, self._fields()

    def __repr__(self) -> str:
        return f"<Sample {self.kind.name} {self.key_expr}: {len(self._payload)} bytes>"


def sample_from_push(push: Push, key_expr: KeyExpr, reliable: bool = True) -> Sample:
    """Make the sample of a PUSH."""
    return sample_from_body(push.body, key_expr, push.qos, reliable, push.ts_stack, push.timestamp)


def sample_from_body(
    body: Put | Del,
    key_expr: KeyExpr,
    qos: wire.QoS,
    reliable: bool = True,
    stack: wire.TimestampStack | None = None,
    timestamp: wire.Timestamp | None = None,
) -> Sample:
    """Make the sample of a PUSH or RESPONSE; the `timestamp` of that message is used if the body has none."""
    kind, encoding, payload = SampleKind.DELETE, wire.Encoding.BYTES, b""
    if isinstance(body, Put):
        kind, encoding, payload = SampleKind.PUT, body.encoding, body.payload
    stamp, info = body.timestamp or timestamp, body.source_info
    header = SampleHeader(
        key_expr,
        kind,
        encoding,
        qos,
        reliable,
        None if stamp is None else stamp.id,
        None if info is None else wire.EntityId(info.zid, info.eid),
        stack,
    )
    return Sample(header, payload, stamp.ntp64 if stamp else 0, body.attachment, info.sn if info else 0)


def token_sample(change: SampleKind, key: str) -> Sample:
    """Make the sample for a liveliness token that appeared (PUT) or disappeared (DELETE)."""
    return Sample(SampleHeader(KeyExpr(key), change), b"")


def header_from_template(template: PushTemplate, key_expr: KeyExpr) -> SampleHeader:
    """Make the header that all samples of one row template share."""
    return SampleHeader(
        key_expr,
        SampleKind.DELETE if template.kind else SampleKind.PUT,
        template.encoding,
        template.qos,
        template.reliable,
        template.timestamp_id,
        template.source,
    )


def samples_from_rows(pushes: PushRun, headers: list[SampleHeader | None], has_attachments: bool) -> list[Sample]:
    """Make the samples of the rows whose template has a header; the others have no local subscriber."""
    columns = pushes.columns
    start: cython.Py_ssize_t = pushes.start
    stop: cython.Py_ssize_t = pushes.stop
    if start == stop:
        return []
    data: cython.const[cython.uchar][::1] = columns.data  # type: ignore[valid-type]
    starts: cython.const[cython.uint][::1] = columns.payload_start  # type: ignore[valid-type]
    stops: cython.const[cython.uint][::1] = columns.payload_stop  # type: ignore[valid-type]
    stamps: cython.const[cython.ulonglong][::1] = columns.timestamp  # type: ignore[valid-type]
    template_index: cython.const[cython.uint][::1] = columns.template_index  # type: ignore[valid-type]
    attachments = columns.attachments() if has_attachments else None
    sns = columns.source_sns() if any(header is not None and header.source is not None for header in headers) else None
    samples = []
    row: cython.Py_ssize_t
    for row in range(start, stop):
        header = headers[template_index[row]]
        if header is not None:
            sample: Sample = Sample.__new__(Sample)
            sample._header = header
            if cython.compiled:
                sample._payload = PyBytes_FromStringAndSize(
                    cython.cast(cython.p_char, cython.address(data[0]) + starts[row]), stops[row] - starts[row]
                )
            else:
                sample._payload = bytes(data[starts[row] : stops[row]])
            sample._ntp64 = stamps[row]
            sample._attachment = None if attachments is None else attachments.value(row)
            sample._sn = 0 if sns is None else sns[row]
            samples.append(sample)
    return samples


class Reply(msgspec.Struct, frozen=True):
    """A reply to a query: a sample, or an error.

    Attributes:
        result: The sample or the error.
        replier_id: Id of the queryable; None if it did not send it.
        consolidation: How the queryable prefers its replies to be merged; AUTO if it has no preference.

    Example:
        >>> for reply in session.get("demo/**"):
        ...     if reply.ok is not None:
        ...         print(reply.ok.payload.to_string())
    """

    result: Sample | ReplyError
    replier_id: EntityGlobalId | None = None
    consolidation: ConsolidationMode = ConsolidationMode.AUTO
    """Mode in which the queryable prefers its replies to be merged; AUTO if it has no preference."""

    @property
    def ok(self) -> Sample | None:
        """The sample; None if it is an error."""
        return self.result if isinstance(self.result, Sample) else None

    @property
    def err(self) -> ReplyError | None:
        """The error; None if there is a sample."""
        return self.result if isinstance(self.result, ReplyError) else None
