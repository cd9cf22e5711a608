"""Record batches instead of samples."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.optional import some
from tests.unit.net.ends import meanwhile
from tests.wait import TIMEOUT_SECONDS
from zenspark.api.session import Session
from zenspark.arrow import SCHEMA
from zenspark.arrow.decode import concat_chunks
from zenspark.errors import UsageError
from zenspark.handlers.arrow import MAX_BATCH_BYTES, ZERO_COPY_MIN_BYTES, ArrowBatches, BatchChannel, chunk_from_samples
from zenspark.handlers.channel import ChannelClosed, ReceiveTimeout
from zenspark.key import KeyExpr
from zenspark.types.sample import sample_from_push
from zenspark.types.timestamps import Timestamp as ApiTimestamp
from zenspark.wire.codec import encode
from zenspark.wire.columns import BatchDecoder, PushColumns, PushRun
from zenspark.wire.messages import Del, Frame, Push, Put
from zenspark.wire.values import SourceInfo, Timestamp, WireExpr, ZenohId

CLOCK = ZenohId(0xABC)


def channel(max_rows: int = 100, max_delay: float = 0.0) -> BatchChannel:
    handler = ArrowBatches(max_rows, max_delay).bind(lambda _: None).handler
    assert isinstance(handler, BatchChannel)
    return handler


def push(payload: bytes) -> Push:
    return Push(wire_expr=WireExpr(0, "k"), body=Put(payload=payload))


def pushes(*numbers: int) -> PushRun:
    return pushes_of(*(b"%d" % number for number in numbers))


def pushes_of(*payloads: bytes) -> PushRun:
    raw = encode(Frame(reliable=True, sn=1, msgs=tuple(map(push, payloads))))
    columns = PushColumns(len(payloads))
    BatchDecoder(len(raw).to_bytes(2, "little") + raw).decode(columns)
    return PushRun(columns, 0, len(columns))


def payloads(batch: object) -> list[bytes]:
    return list(batch.column("payload").to_pylist())  # type: ignore[attr-defined]  # pyarrow has no types


def test_received_chunks_are_concatenated_into_one_batch() -> None:
    receiving = channel()
    assert receiving.push_columns(pushes(1, 2), ["k"], "feed")
    assert receiving.push_columns(pushes(3), ["k"], "feed")
    batch = receiving.recv(timeout=1)
    assert batch.schema.equals(SCHEMA)
    assert payloads(batch) == [b"1", b"2", b"3"]
    assert batch.column("via").to_pylist() == ["feed"] * 3


def test_no_batch_exceeds_max_rows() -> None:
    receiving = channel(max_rows=2)
    receiving.push_columns(pushes(1, 2, 3), ["k"], "feed")
    assert payloads(receiving.recv(timeout=1)) == [b"1", b"2"]
    assert payloads(receiving.try_recv()) == [b"3"]
    assert receiving.try_recv() is None
    receiving.push_columns(pushes(4, 5, 6), ["k"], "feed")
    assert payloads(receiving.try_recv()) == [b"4", b"5"]
    assert payloads(receiving.recv(timeout=1)) == [b"6"]


def test_leftover_rows_are_delivered_first_with_the_next_ones() -> None:
    receiving = channel(max_rows=2, max_delay=5.0)
    receiving.push_columns(pushes(1, 2, 3), ["k"], "feed")
    receiving.push_columns(pushes(4), ["k"], "feed")
    assert payloads(receiving.recv(timeout=1)) == [b"1", b"2"]
    assert payloads(receiving.recv(timeout=1)) == [b"3", b"4"]


def test_large_payloads_do_not_wait_for_many_rows() -> None:
    receiving = channel(max_delay=60.0)
    large = Push(wire_expr=WireExpr(0, "k"), body=Put(payload=bytes(MAX_BATCH_BYTES // 2)))
    for _ in range(3):
        receiving.push(sample_from_push(large, KeyExpr("k")))
    assert receiving.recv(timeout=1).num_rows == 2


def test_a_batch_ends_where_large_payloads_would_have_to_be_copied() -> None:
    receiving = channel()
    for number in range(3):
        receiving.push_columns(
            pushes_of(bytes([number]) * ZERO_COPY_MIN_BYTES), ["k"], "feed"
        )  # two of them share their memory
    receiving.push_columns(pushes(4), ["k"], "feed")
    assert payloads(receiving.recv(timeout=1)) == [b"\0" * ZERO_COPY_MIN_BYTES, b"\1" * ZERO_COPY_MIN_BYTES]
    assert payloads(receiving.recv(timeout=1)) == [b"\2" * ZERO_COPY_MIN_BYTES, b"4"]


def test_rows_received_within_max_delay_join_the_batch() -> None:
    receiving = channel(max_rows=3, max_delay=60.0)
    receiving.push_columns(pushes(1), ["k"], "feed")

    def later() -> None:
        receiving.push_columns(pushes(2), ["k"], "feed")
        receiving.push_columns(pushes(3), ["k"], "feed")

    with meanwhile(later):
        assert payloads(receiving.recv(timeout=1)) == [b"1", b"2", b"3"]


def test_rows_without_a_key_are_not_delivered() -> None:
    receiving = channel()
    assert receiving.push_columns(pushes(1), [None], "feed")
    with pytest.raises(ReceiveTimeout):
        receiving.recv(timeout=0)


def test_samples_are_taken_too() -> None:
    receiving = channel()
    receiving.push(sample_from_push(push(b"1"), KeyExpr("k")))
    receiving.push_many([])
    receiving.push_many([sample_from_push(push(payload), KeyExpr("k")) for payload in (b"2", b"3")])
    assert payloads(receiving.recv(timeout=1)) == [b"1", b"2", b"3"]


def test_iteration_ends_when_the_channel_is_closed() -> None:
    receiving = channel()
    receiving.push_columns(pushes(1), ["k"], "feed")
    receiving.close()
    assert [payloads(batch) for batch in receiving] == [[b"1"]]
    with pytest.raises(ChannelClosed):
        receiving.recv()


def test_batch_channel_is_full_after_64_chunks() -> None:
    receiving = channel()
    rooms = [receiving.push_columns(pushes(1), ["k"], "feed") for _ in range(64)]
    assert rooms == [True] * 63 + [False]


def test_a_sample_with_everything_becomes_a_row() -> None:
    body = Put(
        timestamp=Timestamp(2**64 - 1, CLOCK), source_info=SourceInfo(CLOCK, 1, 2), attachment=b"a", payload=b"x"
    )
    removal = Push(wire_expr=WireExpr(0, "k"), body=Del())
    samples = [
        sample_from_push(Push(wire_expr=WireExpr(0, "k"), body=body), KeyExpr("k")),
        sample_from_push(removal, KeyExpr("k")),
    ]
    first, second = concat_chunks([chunk_from_samples(samples, 7)]).to_pylist()
    assert (first["timestamp_ntp64"], first["timestamp_id"], first["attachment"]) == (-1, "abc", b"a")
    assert (first["source_zid"], first["source_eid"], first["source_sn"]) == ("abc", 1, 2)
    assert (second["kind"], second["payload"], second["timestamp"]) == ("DELETE", None, None)
    assert second["source_sn"] is second["attachment"] is second["timestamp_ntp64"] is None
    assert second["received_at"] == datetime(1970, 1, 1, 0, 0, 0, 7, tzinfo=UTC)


@pytest.mark.parametrize(("rows", "delay"), [(0, 0.1), (1, -1.0), (10, math.nan)])
def test_limits_that_make_no_sense_are_refused(rows: int, delay: float) -> None:
    with pytest.raises(UsageError):
        ArrowBatches(rows, delay)


@pytest.mark.parametrize(
    ("rows", "delay", "expected"),
    [
        (1.5, 0.1, "expected a whole number as max_rows, found 'float'"),
        ("3", 0.1, "expected a whole number as max_rows, found 'str'"),
        (True, 0.1, "expected a whole number as max_rows, found 'bool'"),
        (1, "1", "expected a number of seconds as max_delay, found 'str'"),
        (1, None, "expected a number of seconds as max_delay, found 'NoneType'"),
    ],
)
def test_limits_of_another_type_are_refused(rows: Any, delay: Any, expected: str) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match=expected):
        ArrowBatches(rows, delay)


def test_router_timestamps_rows_its_session_receives_in_batches(router: Session, client: Session) -> None:
    with router.declare_subscriber("k", ArrowBatches(max_delay=0.0)) as subscriber:
        client.put("k", b"1")
        (row,) = subscriber.recv(TIMEOUT_SECONDS).to_pylist()
        assert (row["timestamp_id"], row["via"]) == (str(router.zid()), str(client.zid()))


def test_batches_and_samples_are_delivered_side_by_side(router: Session, client: Session) -> None:
    with (
        router.declare_subscriber("k", ArrowBatches(max_delay=0.0)) as batches,
        router.declare_subscriber("k") as samples,
    ):
        client.put("k", b"1")
        (row,) = batches.recv(TIMEOUT_SECONDS).to_pylist()
        sample = samples.recv(TIMEOUT_SECONDS)
        assert row["timestamp_id"] == str(some(sample.timestamp).get_id()) == str(router.zid())


def test_a_stamp_from_the_future_is_replaced(router: Session, client: Session) -> None:
    future = Timestamp((2**32 - 1) << 32, CLOCK)
    with router.declare_subscriber("k", ArrowBatches(max_delay=0.0)) as subscriber:
        client.put("k", b"1", timestamp=ApiTimestamp.from_wire(future))
        (row,) = subscriber.recv(TIMEOUT_SECONDS).to_pylist()
        assert row["timestamp_id"] == str(router.zid())
