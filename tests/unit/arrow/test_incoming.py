"""Publications as record batches, and record batches as publications."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from zenspark.arrow import SCHEMA
from zenspark.arrow.incoming import SPREAD, batch_of
from zenspark.wire.codec import encode
from zenspark.wire.columns import Columns, Cursor, Outcome
from zenspark.wire.messages import Del, Frame, Push, Put
from zenspark.wire.values import (
    Congestion,
    Encoding,
    Priority,
    QoS,
    SourceInfo,
    Timestamp,
    WireExpr,
    ZenohId,
)

CLOCK = ZenohId(0xABC)
PLAIN = Push(wire_expr=WireExpr(0, "a/b"), body=Put(payload=b"1"))
FULL = Push(
    wire_expr=WireExpr(0, "a/é"),
    qos=QoS(Priority.REAL_TIME, Congestion.BLOCK, True),
    body=Put(
        timestamp=Timestamp(7386664595088445305, CLOCK),
        encoding=Encoding(4, "utf-8"),
        source_info=SourceInfo(CLOCK, 3, 9),
        attachment=b"",
        payload=b"22",
    ),
)
REMOVAL = Push(wire_expr=WireExpr(0, "d"), body=Del(attachment=b"why"))


def decoded(*messages: Push, reliable: bool = True) -> Columns:
    raw = encode(Frame(reliable=reliable, sn=5, msgs=messages))
    columns = Columns(len(messages) or 1)
    assert Cursor(len(raw).to_bytes(2, "little") + raw).decode(columns) is Outcome.END
    return columns


def keys_of(columns: Columns) -> list[str | None]:
    return [columns.shape_at(index).wire_expr.suffix for index in range(columns.shape_count)]


def batch(*messages: Push, reliable: bool = True) -> pa.RecordBatch:
    columns = decoded(*messages, reliable=reliable)
    return batch_of(columns, 0, len(columns), keys_of(columns), "feed", 1_700_000_000_000_000)


def test_every_column_is_there_exactly_as_declared() -> None:
    assert batch(PLAIN).schema.equals(SCHEMA)
    assert batch(PLAIN, FULL, REMOVAL).schema.equals(SCHEMA)


def test_a_plain_publication() -> None:
    (row,) = batch(PLAIN, reliable=False).to_pylist()
    assert {name: value for name, value in row.items() if value is not None} == {
        "key": "a/b",
        "kind": "PUT",
        "payload": b"1",
        "encoding": "zenoh/bytes",
        "priority": "DATA",
        "congestion": "DROP",
        "express": False,
        "reliable": False,
        "received_at": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "via": "feed",
    }


def test_a_publication_with_everything() -> None:
    row = batch(PLAIN, FULL).to_pylist()[1]
    assert row["key"] == "a/é"
    assert row["encoding"] == "text/plain;utf-8"
    assert row["timestamp"] == datetime(2024, 7, 1, 13, 51, 12, 129693, tzinfo=UTC)
    assert (row["timestamp_ntp64"], row["timestamp_id"]) == (7386664595088445305, "abc")
    assert (row["source_zid"], row["source_eid"], row["source_sn"]) == ("abc", 3, 9)
    assert (row["priority"], row["congestion"], row["express"]) == ("REAL_TIME", "BLOCK", True)
    assert row["attachment"] == b""


def test_an_encoding_is_always_text() -> None:
    odd = Push(wire_expr=WireExpr(0, "k"), body=Put(encoding=Encoding(4, "\udcff"), payload=b""))
    assert batch(odd).to_pylist()[0]["encoding"] == "text/plain;\ufffd"


def test_a_removal_has_no_payload() -> None:
    row = batch(PLAIN, REMOVAL).to_pylist()[1]
    assert (row["kind"], row["payload"], row["attachment"]) == ("DELETE", None, b"why")


def test_late_clock_readings_keep_their_bits() -> None:
    late = Push(wire_expr=WireExpr(0, "k"), body=Put(timestamp=Timestamp(2**64 - 1, CLOCK), payload=b""))
    (row,) = batch(late).to_pylist()
    assert row["timestamp_ntp64"] == -1
    assert row["timestamp"].year == 2106


def test_only_rows_with_a_key_are_taken() -> None:
    columns = decoded(PLAIN, FULL, REMOVAL)
    keys: list[str | None] = ["a/b", None, "d"]
    found = batch_of(columns, 0, 3, keys, "feed", 0)
    assert found.column("key").to_pylist() == ["a/b", "d"]


def test_a_range_of_rows() -> None:
    columns = decoded(PLAIN, FULL, REMOVAL)
    found = batch_of(columns, 1, 2, keys_of(columns), "feed", 0)
    assert found.column("payload").to_pylist() == [b"22"]
    assert found.column("source_sn").to_pylist() == [9]


def test_more_rows_than_are_made_at_once() -> None:
    messages = [PLAIN] * (SPREAD + 1)
    raw = b"".join(encode(message) for message in messages)
    head = encode(Frame(reliable=True, sn=5))
    columns = Columns(len(messages))
    data = b""
    step = len(raw) // len(messages) * 4000
    for start in range(0, len(raw), step):
        piece = head + raw[start : start + step]
        data += len(piece).to_bytes(2, "little") + piece
    assert Cursor(data).decode(columns) is Outcome.END
    found = batch_of(columns, 0, len(columns), keys_of(columns), "feed", 0)
    assert found.num_rows == SPREAD + 1
    assert set(found.column("key").unique().to_pylist()) == {"a/b"}
