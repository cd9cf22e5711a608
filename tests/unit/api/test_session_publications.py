"""Publications between sessions joined over loopback: what one puts or deletes, the other receives."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from tests.optional import some
from tests.unit.api.sessions import PAIRS, connected, listening, pair, replies_of
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.engine import runtime
from zenspark.handlers.arrow import ArrowBatches
from zenspark.handlers.handler import FifoChannel, RingChannel
from zenspark.key import KeyExpr
from zenspark.transport import handshake
from zenspark.types import sample
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl, Locality, Priority, QueryTarget, SampleKind
from zenspark.types.ids import SourceInfo
from zenspark.types.sample import Sample
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.message_schema import replace


@pytest.mark.parametrize(("listener", "caller"), PAIRS)
@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
def test_put_is_received_in_both_directions(listener: str, caller: str, size: int) -> None:
    payload = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    with pair(listener, caller) as (one, other):
        for here, there in [(one, other), (other, one)]:
            with (
                here.declare_subscriber("demo/**") as subscriber,
                there.declare_publisher("demo/a", congestion_control=CongestionControl.BLOCK) as publisher,
            ):
                until(lambda: publisher.matching_status)
                publisher.put(payload)
                sample = subscriber.recv(TIMEOUT_SECONDS)
            assert sample.payload.to_bytes() == payload
            assert sample.key_expr == "demo/a"


def test_sample_has_payload_and_metadata_of_the_put(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("demo/a")
    stamp = client.new_timestamp()
    source = SourceInfo(client.id, 7)
    client.put(
        "demo/a",
        "text",
        encoding="text/plain",
        congestion_control=CongestionControl.BLOCK,
        priority=Priority.REAL_TIME,
        express=True,
        attachment=b"more",
        timestamp=stamp,
        source_info=source,
    )
    sample = subscriber.recv(TIMEOUT_SECONDS)
    assert (sample.payload, sample.encoding, sample.kind) == (b"text", Encoding.TEXT_PLAIN, SampleKind.PUT)  # type: ignore[comparison-overlap]  # equal by design
    assert (sample.congestion_control, sample.priority) == (CongestionControl.BLOCK, Priority.REAL_TIME)
    assert (sample.express, sample.attachment, sample.timestamp) == (True, b"more", stamp)  # type: ignore[comparison-overlap]  # equal by design
    assert sample.source_info == source


def test_delete_is_received_as_a_sample_of_kind_delete(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("demo/a")
    client.delete("demo/a", attachment=b"why")
    sample = subscriber.recv(TIMEOUT_SECONDS)
    assert (sample.kind, sample.payload, sample.attachment) == (SampleKind.DELETE, b"", b"why")  # type: ignore[comparison-overlap]  # equal by design


def test_delete_has_the_given_timestamp(router: Session, client: Session) -> None:
    """PU-75: with the T flag of DEL."""
    subscriber = router.declare_subscriber("demo/a")
    stamp = client.new_timestamp()
    client.delete("demo/a", timestamp=stamp)
    assert subscriber.recv(TIMEOUT_SECONDS).timestamp == stamp


def test_local_subscriber_receives_unless_locality_excludes_it(peer: Session) -> None:
    local = peer.declare_subscriber("a", allowed_origin=Locality.SESSION_LOCAL)
    remote = peer.declare_subscriber("a", allowed_origin=Locality.REMOTE)
    both = peer.declare_subscriber("a")
    peer.put("a", b"1")
    peer.put("a", b"2", allowed_destination=Locality.REMOTE)
    peer.put("a", b"3", allowed_destination=Locality.SESSION_LOCAL)
    for subscriber in (local, both):
        assert [subscriber.recv(TIMEOUT_SECONDS).payload.to_bytes() for _ in range(2)] == [b"1", b"3"]
        assert subscriber.try_recv() is None
    assert remote.try_recv() is None


def test_locality_restricts_publications_over_the_network(router: Session, client: Session) -> None:
    local = router.declare_subscriber("a", allowed_origin=Locality.SESSION_LOCAL)
    remote = router.declare_subscriber("a", allowed_origin=Locality.REMOTE)
    client.put("a", b"here", allowed_destination=Locality.SESSION_LOCAL)
    client.put("a", b"there", allowed_destination=Locality.REMOTE)
    assert remote.recv(TIMEOUT_SECONDS).payload == b"there"
    assert local.try_recv() is None


def test_samples_of_one_priority_arrive_in_order(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("demo/*", FifoChannel(100_000))
    for number in range(200):
        for priority in Priority.__members__.values():
            client.put(
                f"demo/{priority.name}", str(number), priority=priority, congestion_control=CongestionControl.BLOCK
            )
    names = {priority.name for priority in Priority}
    found: dict[str, list[int]] = {name: [] for name in names}
    total = 200 * len(Priority.__members__)
    for _ in range(total):
        sample = subscriber.recv(TIMEOUT_SECONDS)
        found[str(sample.key_expr).removeprefix("demo/")].append(int(sample.payload.to_string()))
    assert all(numbers == sorted(numbers) for numbers in found.values())


def test_slow_receiver_loses_no_sample_with_block(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("demo/a", FifoChannel(10))

    def send() -> None:
        for number in range(5000):
            client.put("demo/a", str(number), congestion_control=CongestionControl.BLOCK)

    sender = threading.Thread(target=send)
    sender.start()
    found = [int(subscriber.recv(TIMEOUT_SECONDS).payload.to_string()) for _ in range(5000)]
    sender.join(TIMEOUT_SECONDS)
    assert found == list(range(5000))


def test_ring_channel_keeps_the_newest_samples(peer: Session) -> None:
    subscriber = peer.declare_subscriber("a", RingChannel(2))
    for number in range(5):
        peer.put("a", str(number))
    assert [subscriber.recv(TIMEOUT_SECONDS).payload.to_string() for _ in range(2)] == ["3", "4"]


def test_publisher_properties_are_its_arguments(peer: Session) -> None:
    publisher = peer.declare_publisher("a", encoding="text/plain", priority=Priority.DATA_LOW)
    assert (str(publisher.key_expr), str(publisher.encoding)) == ("a", "text/plain")
    assert publisher.priority is Priority.DATA_LOW
    assert publisher.congestion_control is CongestionControl.DROP
    subscriber = peer.declare_subscriber("a")
    publisher.put(b"1")
    publisher.put(b"2", encoding="application/json")
    publisher.delete()
    found = [subscriber.recv(TIMEOUT_SECONDS) for _ in range(3)]
    assert [str(sample.encoding) for sample in found] == ["text/plain", "application/json", "zenoh/bytes"]


def test_cached_publishers_are_limited(peer: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.api.session.MAX_CACHED_PUBLISHERS", 10)
    for number in range(25):
        peer.put(f"a/{number}", b"")
    assert len(peer._cached_publishers) <= 10


@pytest.mark.parametrize("enabled", [False, True])
def test_timestamping_of_a_publisher_overrides_the_configuration(enabled: bool) -> None:
    """PU-71: values, removals and batches."""
    with listening("peer", timestamping__enabled=enabled) as peer:
        found = peer.declare_subscriber("k")
        for timestamping, stamped in ((True, True), (False, False), (None, enabled)):
            publisher = peer.declare_publisher("k", timestamping=timestamping)
            publisher.put(b"1")
            publisher.delete()
            publisher.put_batch(pa.record_batch({"payload": [b"2"]}))
            assert [found.recv(TIMEOUT_SECONDS).timestamp is not None for _ in range(3)] == [stamped] * 3
        with pytest.raises(TypeError):
            peer.declare_publisher("k", timestamping=1)  # type: ignore[arg-type]


def test_timestamping_adds_timestamps_to_publications() -> None:
    with listening("peer", timestamping__enabled=True) as session:
        subscriber = session.declare_subscriber("a")
        before = session.new_timestamp()
        session.put("a", b"")
        stamp = subscriber.recv(TIMEOUT_SECONDS).timestamp
        assert stamp is not None
        assert before < stamp < session.new_timestamp()


@pytest.mark.parametrize("body", [messages.Put(payload=b"x"), messages.Del()], ids=["put", "del"])
@pytest.mark.parametrize("stamps", [True, False])
def test_timestamp_of_push_is_used_where_put_has_none(body: messages.Put | messages.Del, stamps: bool) -> None:
    """PU-72: where PUT or DEL has none; through a router that stamps and one that does not."""
    stamp = wire.Timestamp(7 << 32, wire.ZenohId(9))
    with (
        listening("router", timestamping__enabled=stamps) as router,
        connected("client", router) as sender,
        connected("client", router) as receiver,
    ):
        subscribers = [receiver.declare_subscriber("k"), router.declare_subscriber("k")]
        until(lambda: router.info.declarations())
        push = messages.Push(wire_expr=wire.WireExpr(0, "k"), timestamp=stamp, body=body)
        sender._runtime.node.send_local(push)
        own = wire.Timestamp(8 << 32, stamp.id)
        sender._runtime.node.send_local(replace(push, body=replace(body, timestamp=own)))
        for subscriber in subscribers:
            assert [some(subscriber.recv(TIMEOUT_SECONDS).timestamp).to_wire() for _ in range(2)] == [stamp, own]


def test_timestamping_extension_puts_the_timestamp_into_the_push(monkeypatch: pytest.MonkeyPatch) -> None:
    """PU-72: an option of the session that publishes."""
    timestamps: list[wire.Timestamp | None] = []
    with listening("router") as router, connected("client", router, timestamping__extension=True) as sender:
        found = router.declare_subscriber("k")
        until(lambda: sender.declare_publisher("k").matching_status)
        of = sample.sample_from_push

        def write_down(push: messages.Push, key_expr: KeyExpr, reliable: bool) -> Sample:
            timestamps.append(push.timestamp)
            return of(push, key_expr, reliable)

        monkeypatch.setattr(runtime, "sample_from_push", write_down)
        stamp = sender.new_timestamp()
        sender.put("k", b"1", timestamp=stamp)
        sender.delete("k", timestamp=stamp)
        sender.put("k", b"2")
        assert [found.recv(TIMEOUT_SECONDS).timestamp == stamp for _ in range(3)] == [True, True, False]
    assert timestamps == [stamp.to_wire(), stamp.to_wire()]


@pytest.mark.parametrize(("patch", "expected"), [(0, CongestionControl.DROP), (1, CongestionControl.BLOCK_FIRST)])
def test_block_first_is_sent_only_to_neighbours_with_patch_1(
    monkeypatch: pytest.MonkeyPatch, patch: int, expected: CongestionControl
) -> None:
    """MR-124: flag F needs a session with patch 1; before, by publishers, queriers and routers, it is not set."""
    monkeypatch.setattr(handshake, "PROTOCOL_PATCH", patch)
    way: dict[str, Any] = {"congestion_control": CongestionControl.BLOCK_FIRST}
    with (
        listening("router") as router,
        connected("client", router) as sender,
        connected("client", router) as receiver,
    ):
        subscribers = [router.declare_subscriber("k"), receiver.declare_subscriber("k")]
        queries = [router.declare_queryable("q"), receiver.declare_queryable("q")]
        until(lambda: len(router.info.declarations()) == 2)
        publisher = sender.declare_publisher("k", **way)
        until(lambda: publisher.matching_status)
        until(lambda: sender.declare_querier("q").matching_status)
        publisher.put(b"plain")
        publisher.put(b"whole", attachment=b"more")
        publisher.put_batch(pa.record_batch({"payload": [b"row"]}))
        for subscriber in subscribers:
            assert [subscriber.recv(TIMEOUT_SECONDS).congestion_control for _ in range(3)] == [expected] * 3
        replies = sender.get("q", target=QueryTarget.ALL, timeout=TIMEOUT_SECONDS, **way)
        for queryable in queries:
            with queryable.recv(TIMEOUT_SECONDS) as query:
                assert query._require_handle().request.qos.congestion is expected.to_wire()
                query.reply("q", b"yes", priority=Priority.DATA_HIGH, **way)
        assert [reply.ok.congestion_control for reply in replies] == [expected]


@pytest.mark.slow
def test_router_adds_the_same_timestamp_for_local_and_remote_subscribers(router: Session, client: Session) -> None:
    with connected("client", router) as other:
        own, batches = router.declare_subscriber("demo/*"), router.declare_subscriber("demo/*", ArrowBatches())
        there = other.declare_subscriber("demo/*")
        publisher = client.declare_publisher("demo/a", congestion_control=CongestionControl.BLOCK)
        router.declare_queryable("here", lambda query: query.reply("here", "yes"))
        assert replies_of(other.get("here", timeout=TIMEOUT_SECONDS)) == [
            "here"
        ]  # so the router knows what was declared
        for number in range(5):
            publisher.put(str(number))
        stamps = [own.recv(TIMEOUT_SECONDS).timestamp for _ in range(5)]
        assert [there.recv(TIMEOUT_SECONDS).timestamp for _ in range(5)] == stamps
        assert all(stamp is not None and str(stamp.get_id()) == str(router.zid()) for stamp in stamps)
        assert sorted(set(map(str, stamps))) == list(map(str, stamps))
        rows: list[str] = []
        while len(rows) < 5:
            rows += batches.recv(TIMEOUT_SECONDS).column("timestamp_id").to_pylist()
        assert rows == [str(router.zid())] * 5
