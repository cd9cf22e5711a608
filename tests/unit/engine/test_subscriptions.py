"""Who receives which publication."""

from __future__ import annotations

import pytest

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
def all_of_them(peer: Session) -> Subscriptions:
    return Subscriptions(peer._runtime.backpressure, Namespace(None))


def test_routes_follow_keys_and_origin(all_of_them: Subscriptions) -> None:
    exact = subscription(1, "a/b")
    wild = subscription(2, "a/*")
    local = subscription(3, "**", Locality.SESSION_LOCAL)
    remote = subscription(4, "**", Locality.REMOTE)
    for one in (remote, local, wild, exact):
        all_of_them.add(one)
    assert all_of_them.route("a/b", True) == (exact, wild, local)
    assert all_of_them.route("a/b", False) == (exact, wild, remote)
    assert all_of_them.route("a/c", False) == (wild, remote)


def test_routes_are_remembered_until_something_changes(all_of_them: Subscriptions) -> None:
    first, second = subscription(1, "a"), subscription(2, "a")
    all_of_them.add(first)
    before = all_of_them.version
    assert all_of_them.route("a", True) is all_of_them.route("a", True)
    assert all_of_them.route("a", True) == (first,)
    assert all_of_them.version == before
    all_of_them.add(second)
    assert all_of_them.route("a", True) == (first, second)
    all_of_them.remove(first)
    assert all_of_them.version == before + 2
    all_of_them.remove(first)
    assert all_of_them.version == before + 2
    assert all_of_them.route("a", True) == (second,)
    all_of_them.remove(second)
    assert all_of_them.route("a", True) == ()


def test_keys_with_the_same_subscribers_share_one_route(all_of_them: Subscriptions) -> None:
    all_of_them.add(subscription(1, "a/**"))
    assert all_of_them.route("a/1", False) is all_of_them.route("a/2", False)


def test_cached_deliveries_are_limited(all_of_them: Subscriptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_CACHED_ROUTES", 3)
    for number in range(10):
        all_of_them.route(f"a/{number}", True)
    assert len(all_of_them._local_routes) <= 3


def test_a_sample_reaches_each_once(all_of_them: Subscriptions) -> None:
    one, other = subscription(1, "a"), subscription(2, "**")
    all_of_them.add(one)
    all_of_them.add(other)
    sample = Sample(SampleHeader(KeyExpr("a")), b"1")
    all_of_them.deliver(sample, True)
    for each in (one, other):
        assert isinstance(each.sink, Handler)
        assert each.sink.try_recv() == sample
        assert each.sink.try_recv() is None


def test_rows_of_one_run_reach_only_the_subscribers_of_their_key(all_of_them: Subscriptions) -> None:
    keys: list[str | None] = ["a", "b"]
    subscribers = [subscription(number, str(key)) for number, key in enumerate(keys)]
    for one in subscribers:
        all_of_them.add(one)
    pushes = tuple(Push(wire_expr=WireExpr(0, key), body=Put(payload=key.encode())) for key in ("a", "b"))
    raw, columns = encode(Frame(reliable=True, sn=1, msgs=pushes)), PushColumns(2)
    BatchDecoder(len(raw).to_bytes(2, "little") + raw).decode(columns)
    face = Face(1, ZenohId(1), WhatAmI.CLIENT, Region.CLIENT)
    all_of_them.deliver_push_run(face, PushRun(columns, 0, 2), keys)
    for one, key in zip(subscribers, keys, strict=True):
        assert isinstance(one.sink, Handler)
        sample = one.sink.try_recv()
        assert sample is not None
        assert (str(sample.key_expr), sample.payload.to_string()) == (key, key)
        assert one.sink.try_recv() is None
