"""Messages, batches and decoded columns that the tests of this package share."""

from __future__ import annotations

from zenspark.wire.codec import decode_network, encode
from zenspark.wire.columns import (
    BatchDecoder,
    PushColumns,
    RowForwarder,
    StopReason,
)
from zenspark.wire.message_schema import Message
from zenspark.wire.messages import Del, Frame, NetworkMessage, Push, Put
from zenspark.wire.values import (
    Encoding,
    Mapping,
    Priority,
    QoS,
    SourceInfo,
    Timestamp,
    WireExpr,
    ZenohId,
)

ROUTER = ZenohId(0xA0A1A2A3)


CLOCK = ZenohId((1 << 128) - 2)


KEY = WireExpr(0, "demo/k")


def put(payload: bytes = b"hello", key: WireExpr = KEY, **fields: object) -> Push:
    return Push(wire_expr=key, body=Put(payload=payload, **fields))  # type: ignore[arg-type]


def stamped(ntp64: int, zid: ZenohId = ROUTER) -> Push:
    return put(timestamp=Timestamp(ntp64, zid))


def frame(*messages: NetworkMessage, sn: int = 7, reliable: bool = True, priority: Priority = Priority.DATA) -> Frame:
    return Frame(reliable=reliable, sn=sn, priority=priority, msgs=messages)


def batch(*messages: Message, width: int = 2) -> bytes:
    content = b"".join(map(encode, messages))
    return len(content).to_bytes(width, "little") + content


def decoded(data: bytes, columns: PushColumns | None = None) -> tuple[PushColumns, BatchDecoder, StopReason]:
    columns = PushColumns(64) if columns is None else columns
    decoder = BatchDecoder(data)
    return columns, decoder, decoder.decode(columns)


def pushes(columns: PushColumns) -> list[Push]:
    return [columns.push(row) for row in range(len(columns))]


FULL_PUT = put(
    b"\xff" * 200,
    WireExpr(300, "/é/*", Mapping.RECEIVER),
    timestamp=Timestamp((1 << 63) + 5, CLOCK),
    encoding=Encoding(0xFFFF, "größe"),
    source_info=SourceInfo(ROUTER, 70_000, (1 << 32) - 1),
    attachment=b"a" * 130,
)


DEL = Push(
    wire_expr=WireExpr(2),
    node_id=0xFFFF,
    body=Del(timestamp=Timestamp(1, ROUTER), source_info=SourceInfo(CLOCK, 0, 0), attachment=b""),
)


ALIAS = WireExpr(9, "", Mapping.RECEIVER)


HEAD = encode(Push(wire_expr=ALIAS, qos=QoS.DECLARE, body=Del()))[:-1]


def relay(columns: PushColumns, start: int = 0, stop: int = -1) -> RowForwarder:
    count = columns.template_count
    return RowForwarder(
        columns, start, len(columns) if stop < 0 else stop, bytes([13]) * count, [HEAD] * count, b"\x05\x06"
    )


def forwarded_messages(columns: PushColumns) -> list[NetworkMessage]:
    """The messages of all rows behind another head."""
    rows, found = relay(columns), []
    while rows.lane >= 0:
        found.append(decode_network(rows.message()))
    return found
