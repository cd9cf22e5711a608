"""Which subscribers receive which publication."""

from __future__ import annotations

import pytest

from tests.unit.api.handler_loops import FailingHandler
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.engine import subscriptions
from zenspark.engine.namespace import Namespace
from zenspark.engine.subscriptions import ColumnSink, Subscription, Subscriptions
from zenspark.handlers.handler import Handler
from zenspark.key import KeyExpr
from zenspark.router.face import Face, Region
from zenspark.types.enums import Locality
from zenspark.types.sample import Sample, SampleHeader
from zenspark.wire.codec import encode
from zenspark.wire.columns import BatchDecoder, PushColumns, PushRun
from zenspark.wire.messages import Frame, Push, Put
from zenspark.wire.values import WhatAmI, WireExpr, ZenohId


def subscription(number: int, key: str, origin: Locality = Locality.ANY) -> Subscription:
    sink: Handler[Sample] = Handler(10, lambda _: None)
    return Subscription(number, KeyExpr(key), origin, sink, sink if isinstance(sink, ColumnSink) else None)


@pytest.fixture
def local_subscriptions(peer: Session) -> Subscriptions:
    return Subscriptions(peer._runtime.backpressure, Namespace(None))


def test_routes_follow_keys_and_origin(local_subscriptions: Subscriptions) -> None:
    exact = subscription(1, "a/b")
    wild = subscription(2, "a/*")
    local = subscription(3, "**", Locality.SESSION_LOCAL)
    remote = subscription(4, "**", Locality.REMOTE)
    for one in (remote, local, wild, exact):
        local_subscriptions.add(one)
    assert local_subscriptions.matching("a/b", True) == (exact, wild, local)
    assert local_subscriptions.matching("a/b", False) == (exact, wild, remote)
    assert local_subscriptions.matching("a/c", False) == (wild, remote)


def test_routes_are_cached_until_a_subscription_changes(local_subscriptions: Subscriptions) -> None:
    first, second = subscription(1, "a"), subscription(2, "a")
    local_subscriptions.add(first)
    before = local_subscriptions.version
    assert local_subscriptions.matching("a", True) is local_subscriptions.matching("a", True)
    assert local_subscriptions.matching("a", True) == (first,)
    assert local_subscriptions.version == before
    local_subscriptions.add(second)
    assert local_subscriptions.matching("a", True) == (first, second)
    local_subscriptions.remove(first)
    assert local_subscriptions.version == before + 2
    local_subscriptions.remove(first)
    assert local_subscriptions.version == before + 2
    assert local_subscriptions.matching("a", True) == (second,)
    local_subscriptions.remove(second)
    assert local_subscriptions.matching("a", True) == ()


def test_keys_with_the_same_subscribers_share_one_route(local_subscriptions: Subscriptions) -> None:
    local_subscriptions.add(subscription(1, "a/**"))
    assert local_subscriptions.matching("a/1", False) is local_subscriptions.matching("a/2", False)


def test_cached_deliveries_are_limited(local_subscriptions: Subscriptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_CACHED_MATCHES", 3)
    for number in range(10):
        local_subscriptions.matching(f"a/{number}", True)
    assert len(local_subscriptions._local_matches) <= 3


def test_sample_is_delivered_once_to_each_matching_subscriber(local_subscriptions: Subscriptions) -> None:
    one, other = subscription(1, "a"), subscription(2, "**")
    local_subscriptions.add(one)
    local_subscriptions.add(other)
    sample = Sample(SampleHeader(KeyExpr("a")), b"1")
    local_subscriptions.deliver(sample, True)
    for each in (one, other):
        assert isinstance(each.sink, Handler)
        assert each.sink.try_recv() == sample
        assert each.sink.try_recv() is None


def test_rows_of_one_run_reach_only_the_subscribers_of_their_key(local_subscriptions: Subscriptions) -> None:
    keys: list[str | None] = ["a", "b"]
    subscribers = [subscription(number, str(key)) for number, key in enumerate(keys)]
    for one in subscribers:
        local_subscriptions.add(one)
    pushes = tuple(Push(wire_expr=WireExpr(0, key), body=Put(payload=key.encode())) for key in ("a", "b"))
    raw, columns = encode(Frame(reliable=True, sn=1, msgs=pushes)), PushColumns(2)
    BatchDecoder(len(raw).to_bytes(2, "little") + raw).decode(columns)
    face = Face(1, ZenohId(1), WhatAmI.CLIENT, Region.CLIENT)
    local_subscriptions.deliver_push_run(face, PushRun(columns, 0, 2), keys)
    for one, key in zip(subscribers, keys, strict=True):
        assert isinstance(one.sink, Handler)
        sample = one.sink.try_recv()
        assert sample is not None
        assert (str(sample.key_expr), sample.payload.to_string()) == (key, key)
        assert one.sink.try_recv() is None


def test_failing_sink_reaches_neither_the_sender_nor_other_subscribers(
    router: Session, client: Session, caplog: pytest.LogCaptureFixture
) -> None:
    with router.declare_subscriber("k", FailingHandler()), router.declare_subscriber("k") as other:
        publisher = client.declare_publisher("k")
        until(lambda: publisher.matching_status)
        for sender in (client, router):
            sender.put("k", "v")
            assert other.recv(TIMEOUT_SECONDS).payload == b"v"
    assert [transport.zid for transport in router.info.transports()] == [client.zid()]
    assert caplog.text.count("handler of the subscriber of k failed: the items are lost") == 2
