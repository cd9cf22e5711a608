"""Sessions joined over loopback: what one does, the other sees."""

from __future__ import annotations

import gc
import math
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from tests.optional import some
from tests.unit.api.sessions import PAIRS, address, config, connected, listening, pair, replies_of
from tests.waiting import PATIENCE, until
from zenspark.api.cancellation import CancellationToken
from zenspark.api.open import open
from zenspark.api.session import Session, runtime_of
from zenspark.engine import runtime
from zenspark.errors import KeyLimitExceeded, SessionClosed, UsageError, ZError
from zenspark.handlers.arrow import ArrowBatches
from zenspark.handlers.handler import Callback, FifoChannel, RingChannel
from zenspark.key import KeyExpr
from zenspark.net.loop.event_loop import Timer
from zenspark.transport import handshake
from zenspark.types import sample
from zenspark.types.encoding import Encoding
from zenspark.types.enums import (
    CongestionControl,
    ConsolidationMode,
    Locality,
    Priority,
    QueryConsolidation,
    QueryTarget,
    ReplyKeyExpr,
    SampleKind,
)
from zenspark.types.ids import SourceInfo
from zenspark.types.query import Query
from zenspark.types.sample import Sample
from zenspark.types.selector import Selector
from zenspark.types.timestamp_stack import TimestampInstrumentationBuilder, TimestampStack
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.declare import replace

# --- publish and subscribe ---


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
                sample = subscriber.recv(PATIENCE)
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
    sample = subscriber.recv(PATIENCE)
    assert (sample.payload, sample.encoding, sample.kind) == (b"text", Encoding.TEXT_PLAIN, SampleKind.PUT)  # type: ignore[comparison-overlap]  # equal by design
    assert (sample.congestion_control, sample.priority) == (CongestionControl.BLOCK, Priority.REAL_TIME)
    assert (sample.express, sample.attachment, sample.timestamp) == (True, b"more", stamp)  # type: ignore[comparison-overlap]  # equal by design
    assert sample.source_info == source


def test_delete_is_received_as_a_sample_of_kind_delete(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("demo/a")
    client.delete("demo/a", attachment=b"why")
    sample = subscriber.recv(PATIENCE)
    assert (sample.kind, sample.payload, sample.attachment) == (SampleKind.DELETE, b"", b"why")  # type: ignore[comparison-overlap]  # equal by design


def test_delete_has_the_given_timestamp(router: Session, client: Session) -> None:
    """PU-75: with the T flag of DEL."""
    subscriber = router.declare_subscriber("demo/a")
    stamp = client.new_timestamp()
    client.delete("demo/a", timestamp=stamp)
    assert subscriber.recv(PATIENCE).timestamp == stamp


def test_local_subscriber_receives_unless_locality_excludes_it(peer: Session) -> None:
    local = peer.declare_subscriber("a", allowed_origin=Locality.SESSION_LOCAL)
    remote = peer.declare_subscriber("a", allowed_origin=Locality.REMOTE)
    both = peer.declare_subscriber("a")
    peer.put("a", b"1")
    peer.put("a", b"2", allowed_destination=Locality.REMOTE)
    peer.put("a", b"3", allowed_destination=Locality.SESSION_LOCAL)
    for subscriber in (local, both):
        assert [subscriber.recv(PATIENCE).payload.to_bytes() for _ in range(2)] == [b"1", b"3"]
        assert subscriber.try_recv() is None
    assert remote.try_recv() is None


def test_localities_over_the_network(router: Session, client: Session) -> None:
    local = router.declare_subscriber("a", allowed_origin=Locality.SESSION_LOCAL)
    remote = router.declare_subscriber("a", allowed_origin=Locality.REMOTE)
    client.put("a", b"here", allowed_destination=Locality.SESSION_LOCAL)
    client.put("a", b"there", allowed_destination=Locality.REMOTE)
    assert remote.recv(PATIENCE).payload == b"there"
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
        sample = subscriber.recv(PATIENCE)
        found[str(sample.key_expr).removeprefix("demo/")].append(int(sample.payload.to_string()))
    assert all(numbers == sorted(numbers) for numbers in found.values())


def test_slow_receiver_loses_no_sample_with_block(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("demo/a", FifoChannel(10))

    def send() -> None:
        for number in range(5000):
            client.put("demo/a", str(number), congestion_control=CongestionControl.BLOCK)

    sender = threading.Thread(target=send)
    sender.start()
    found = [int(subscriber.recv(PATIENCE).payload.to_string()) for _ in range(5000)]
    sender.join(PATIENCE)
    assert found == list(range(5000))


def test_ring_channel_keeps_the_newest_samples(peer: Session) -> None:
    subscriber = peer.declare_subscriber("a", RingChannel(2))
    for number in range(5):
        peer.put("a", str(number))
    assert [subscriber.recv(PATIENCE).payload.to_string() for _ in range(2)] == ["3", "4"]


def test_publisher_properties_are_its_arguments(peer: Session) -> None:
    publisher = peer.declare_publisher("a", encoding="text/plain", priority=Priority.DATA_LOW)
    assert (str(publisher.key_expr), str(publisher.encoding)) == ("a", "text/plain")
    assert publisher.priority is Priority.DATA_LOW
    assert publisher.congestion_control is CongestionControl.DROP
    subscriber = peer.declare_subscriber("a")
    publisher.put(b"1")
    publisher.put(b"2", encoding="application/json")
    publisher.delete()
    found = [subscriber.recv(PATIENCE) for _ in range(3)]
    assert [str(sample.encoding) for sample in found] == ["text/plain", "application/json", "zenoh/bytes"]


def test_cached_publishers_are_limited(peer: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.api.session.MAX_CACHED_PUBLISHERS", 10)
    for number in range(25):
        peer.put(f"a/{number}", b"")
    assert len(peer._publications) <= 10


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
            assert [found.recv(PATIENCE).timestamp is not None for _ in range(3)] == [stamped] * 3
        with pytest.raises(TypeError):
            peer.declare_publisher("k", timestamping=1)  # type: ignore[arg-type]


def test_timestamping_adds_timestamps_to_publications() -> None:
    with listening("peer", timestamping__enabled=True) as session:
        subscriber = session.declare_subscriber("a")
        before = session.new_timestamp()
        session.put("a", b"")
        stamp = subscriber.recv(PATIENCE).timestamp
        assert stamp is not None
        assert before < stamp < session.new_timestamp()


# --- ask and answer ---


@pytest.mark.parametrize(("listener", "caller"), PAIRS)
def test_get_receives_replies_in_both_directions(listener: str, caller: str) -> None:
    def answer(query: Query) -> None:
        with query:
            query.reply("q/a", query.payload or b"none", encoding="text/plain", attachment=query.attachment or b"")
            query.reply_del("q/b")
            query.reply_err(str(query.parameters), encoding="text/plain")

    with pair(listener, caller) as (one, other):
        for here, there in [(one, other), (other, one)]:
            queryable = here.declare_queryable("q/**", answer)
            querier = there.declare_querier("q/*")
            until(lambda: querier.matching_status)  # noqa: B023 - called at once
            found = list(there.get("q/*?x=1;y", payload="why", attachment=b"more", timeout=PATIENCE))
            by_key = {str(reply.ok.key_expr): reply for reply in found if reply.ok}
            assert some(by_key["q/a"].ok).payload == b"why"
            assert some(by_key["q/a"].ok).attachment == b"more"
            assert by_key["q/a"].replier_id == queryable.id
            assert some(by_key["q/b"].ok).kind is SampleKind.DELETE
            assert [reply.err.payload.to_string() for reply in found if reply.err] == ["x=1;y"]
            queryable.undeclare()
            until(lambda: not querier.matching_status)  # noqa: B023 - called at once
            assert list(there.get("q/*", timeout=PATIENCE)) == []


def test_query_ends_when_the_callback_raises(
    router: Session, client: Session, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(query: Query) -> None:
        query.reply("q/a", b"first")
        raise RuntimeError("on purpose")

    router.declare_queryable("q/**", fail)
    assert replies_of(client.get("q/**", timeout=PATIENCE)) == ["q/a"]
    assert replies_of(router.get("q/**", timeout=PATIENCE)) == ["q/a"]
    assert "on purpose" in caplog.text


def test_all_queryables_of_a_session_reply(router: Session, client: Session) -> None:
    """RE-77: each as an entity of its own."""
    offered = [router.declare_queryable("q", lambda query: query.reply("q", b"yes")) for _ in range(2)]
    until(lambda: client.declare_querier("q").matching_status)
    for session in (client, router):
        found = list(session.get("q", consolidation=ConsolidationMode.NONE, timeout=PATIENCE))
        assert {some(reply.replier_id).eid for reply in found} == {queryable.id.eid for queryable in offered}
        assert len(found) == 2


def test_query_ends_when_the_last_queried_neighbour_finishes() -> None:
    """RE-78: past the router."""
    with listening("peer") as one, listening("peer") as two:
        held = [session.declare_queryable("q") for session in (one, two)]
        with open(config("peer", (), [address(one), address(two)])) as asker:
            until(lambda: len(asker.info.declarations()) == 2)
            found = asker.get("q", target=QueryTarget.ALL, timeout=PATIENCE)
            first, second = (queryable.recv(PATIENCE) for queryable in held)
            first.drop()
            until(lambda: sum(map(len, asker._runtime.direct_queries._pending.values())) == 1)
            with second:
                second.reply("q", b"late")
            assert [some(reply.ok).payload.to_bytes() for reply in found] == [b"late"]


def test_targets(router: Session, client: Session) -> None:
    def offer(session: Session, name: str, complete: bool) -> None:
        session.declare_queryable("q/**", lambda query: query.reply(f"q/{name}", b""), complete=complete)

    with connected("client", router) as other, connected("client", router) as third:
        offer(client, "whole", True)
        offer(other, "part", False)
        querier = third.declare_querier("q/a")
        until(lambda: sorted(replies_of(third.get("q/*", target=QueryTarget.ALL))) == ["q/part", "q/whole"])
        assert replies_of(third.get("q/*", target=QueryTarget.ALL_COMPLETE)) == ["q/whole"]
        assert replies_of(third.get("q/*", target=QueryTarget.BEST_MATCHING)) == ["q/whole"]
        assert querier.matching_status
        assert third.declare_querier("q/a", target=QueryTarget.ALL_COMPLETE).matching_status is not None


def test_consolidation(peer: Session) -> None:
    stamps = [peer.new_timestamp() for _ in range(3)]

    def answer(query: Query) -> None:
        for number in (0, 2, 1):
            query.reply("q", str(number), timestamp=stamps[number])

    peer.declare_queryable("q", answer)
    modes: dict[ConsolidationMode | QueryConsolidation, list[str]] = {
        ConsolidationMode.NONE: ["0", "2", "1"],
        ConsolidationMode.MONOTONIC: ["0", "2"],
        ConsolidationMode.LATEST: ["2"],
        ConsolidationMode.AUTO: ["2"],
        QueryConsolidation.AUTO: ["2"],
    }
    for mode, expected in modes.items():
        found = peer.get("q", consolidation=mode, timeout=PATIENCE)
        assert [some(reply.ok).payload.to_string() for reply in found] == expected
    found = peer.get("q?_time=[now()..]", timeout=PATIENCE)
    assert len(list(found)) == 3


@pytest.mark.parametrize("where", ["here", "direct", "routed"])
@pytest.mark.parametrize("preferred", list(ConsolidationMode))
def test_consolidation_preferred_by_the_queryable_applies_with_auto(where: str, preferred: ConsolidationMode) -> None:
    """QU-56, RE-50: REPLY says what the queryable prefers, which counts if the querier has chosen nothing."""
    others: dict[str, object] = {"namespace": "n"} if where == "routed" else {}
    seen: list[ConsolidationMode] = []

    def answer(query: Query) -> None:
        seen.append(query.consolidation)
        for number in (0, 2, 1):
            query.reply("q", str(number), timestamp=stamps[number], consolidation=preferred)
        query.reply("q/plain", "plain", consolidation=preferred)
        query.reply_del("q/gone", consolidation=preferred)

    with listening("router", **others) as router, connected("client", router, **others) as client:
        stamps = [router.new_timestamp() for _ in range(3)]
        (client if where == "here" else router).declare_queryable("q/**", answer)
        until(lambda: client.declare_querier("q/**").matching_status)
        expected = {ConsolidationMode.NONE: ["0", "2", "1"], ConsolidationMode.MONOTONIC: ["0", "2"]}
        chosen: ConsolidationMode | None
        for chosen in (None, ConsolidationMode.AUTO, ConsolidationMode.LATEST):
            found = list(client.get("q/**", consolidation=chosen, timeout=PATIENCE))
            texts = [some(reply.ok).payload.to_string() for reply in found if str(some(reply.ok).key_expr) == "q"]
            assert texts == (["2"] if chosen is ConsolidationMode.LATEST else expected.get(preferred, ["2"]))
            assert {reply.consolidation for reply in found} == {preferred}
            assert {str(some(reply.ok).key_expr) for reply in found} == {"q", "q/plain", "q/gone"}
        assert seen == [ConsolidationMode.AUTO, ConsolidationMode.AUTO, ConsolidationMode.LATEST]
        assert len(list(client.get("q/**?_time=[now()..]", timeout=PATIENCE))) == (
            4 if preferred is ConsolidationMode.MONOTONIC else 3
        ) + (2 * (preferred in (ConsolidationMode.NONE, ConsolidationMode.AUTO)))


@pytest.mark.parametrize("where", ["here", "direct", "routed"])
def test_replies_have_the_given_source_info(where: str) -> None:
    """RE-45, RE-66: SourceInfo of a value, a removal and an error; none unless told."""
    others: dict[str, object] = {"namespace": "n"} if where == "routed" else {}
    source = SourceInfo.from_wire(wire.SourceInfo(wire.ZenohId(3), 4, 5))

    def answer(query: Query) -> None:
        for info in (source, None):
            query.reply("q/put", b"", source_info=info)
            query.reply_del("q/del", source_info=info)
            query.reply_err(b"", source_info=info)

    with listening("router", **others) as router, connected("client", router, **others) as client:
        (client if where == "here" else router).declare_queryable("q/*", answer)
        until(lambda: client.declare_querier("q/put").matching_status)
        found = list(client.get("q/*", consolidation=ConsolidationMode.NONE, timeout=PATIENCE))
        assert [reply.result.source_info for reply in found] == [source] * 3 + [None] * 3


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
            assert [some(subscriber.recv(PATIENCE).timestamp).to_wire() for _ in range(2)] == [stamp, own]


def test_timestamping_extension_puts_the_timestamp_into_the_push(monkeypatch: pytest.MonkeyPatch) -> None:
    """PU-72: an option of the session that publishes."""
    heard: list[wire.Timestamp | None] = []
    with listening("router") as router, connected("client", router, timestamping__extension=True) as sender:
        found = router.declare_subscriber("k")
        until(lambda: sender.declare_publisher("k").matching_status)
        of = sample.sample_from_push

        def write_down(push: messages.Push, key_expr: KeyExpr, reliable: bool) -> Sample:
            heard.append(push.timestamp)
            return of(push, key_expr, reliable)

        monkeypatch.setattr(runtime, "sample_from_push", write_down)
        stamp = sender.new_timestamp()
        sender.put("k", b"1", timestamp=stamp)
        sender.delete("k", timestamp=stamp)
        sender.put("k", b"2")
        assert [found.recv(PATIENCE).timestamp == stamp for _ in range(3)] == [True, True, False]
    assert heard == [stamp.to_wire(), stamp.to_wire()]


@pytest.mark.parametrize("where", ["here", "direct", "routed"])
def test_query_and_error_reply_have_the_given_timestamp(where: str) -> None:
    """QU-18, RE-25: a queryable sees when it was asked; what a response tells counts where its value tells nothing."""
    others: dict[str, object] = {"namespace": "n"} if where == "routed" else {}
    with listening("router", **others) as router, connected("client", router, **others) as client:
        queries = (client if where == "here" else router).declare_queryable("q")
        until(lambda: client.declare_querier("q").matching_status)
        stamp = client.new_timestamp()
        ways: list[Callable[..., Any]] = [partial(client.get, "q"), client.declare_querier("q").get]
        for ask in ways:
            for given in (stamp, None):
                found = ask(timestamp=given)
                with queries.recv(PATIENCE) as query:
                    assert query.timestamp == given
                    query.reply_err(b"no", timestamp=given)
                assert [reply.err.timestamp for reply in found] == [given]
        with pytest.raises(TypeError):
            client.get("q", timestamp=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("where", ["here", "direct", "routed"])
def test_query_ends_after_budget_responses(where: str) -> None:
    """QU-37, QU-76, RE-38: the querier tells its budget and accepts no more, without a RESPONSE_FINAL."""
    others: dict[str, object] = {"namespace": "n"} if where == "routed" else {}
    with listening("router", **others) as router, connected("client", router, **others) as client:
        queries = (client if where == "here" else router).declare_queryable("q")
        until(lambda: client.declare_querier("q").matching_status)
        ways: list[Callable[..., Any]] = [
            partial(client.get, "q", consolidation=ConsolidationMode.NONE, timeout=PATIENCE, budget=2),
            client.declare_querier("q", consolidation=ConsolidationMode.NONE, timeout=PATIENCE, budget=2).get,
        ]
        for ask in ways:
            found = ask()
            query = queries.recv(PATIENCE)
            assert query.budget == 2
            query.reply("q", b"1")
            query.reply_err(b"2")
            query.reply("q", b"3")
            assert [reply.ok is not None for reply in found] == [True, False]
            query.drop()
        until(lambda: not client._runtime.queries._collectors)
        assert not any(client._runtime.direct_queries._pending.values())
        with pytest.raises(ValueError, match="from 1 to"):
            client.get("q", budget=0)


@pytest.mark.parametrize(("patch", "told"), [(0, CongestionControl.DROP), (1, CongestionControl.BLOCK_FIRST)])
def test_block_first_is_sent_only_to_neighbours_with_patch_1(
    monkeypatch: pytest.MonkeyPatch, patch: int, told: CongestionControl
) -> None:
    """MR-124: flag F needs a session with patch 1; before, by publishers, queriers and routers, it is not set."""
    monkeypatch.setattr(handshake, "PATCH", patch)
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
            assert [subscriber.recv(PATIENCE).congestion_control for _ in range(3)] == [told] * 3
        replies = sender.get("q", target=QueryTarget.ALL, timeout=PATIENCE, **way)
        for queryable in queries:
            with queryable.recv(PATIENCE) as query:
                assert query._require_handle().request.qos.congestion is told.to_wire()
                query.reply("q", b"yes", priority=Priority.DATA_HIGH, **way)
        assert [reply.ok.congestion_control for reply in replies] == [told]


@pytest.mark.parametrize(("meaning", "count"), [("covering", 0), ("declared", 1)])
def test_all_complete_setting_decides_which_queryables_a_router_queries(meaning: str, count: int) -> None:
    """QU-34, RO-19."""
    with (
        listening("router", routing__router__all_complete=meaning) as router,
        connected("client", router) as asker,
        connected("client", router) as answerer,
    ):
        answerer.declare_queryable("q/a", lambda query: query.reply("q/a", b"yes"), complete=True)
        until(lambda: replies_of(asker.get("q/a", target=QueryTarget.ALL_COMPLETE, timeout=PATIENCE)))
        assert len(list(asker.get("q/*", target=QueryTarget.ALL_COMPLETE, timeout=PATIENCE))) == count


def test_reply_on_other_key_is_rejected_unless_accepted(peer: Session) -> None:
    refused: list[str] = []

    def answer(query: Query) -> None:
        try:
            query.reply("elsewhere", b"")
        except UsageError as error:
            refused.append(str(error))  # the error itself would keep the query alive

    peer.declare_queryable("q", answer)
    assert list(peer.get("q", timeout=PATIENCE)) == []
    assert "does not match" in refused[0]
    selector = Selector("q", {"a": "1"})
    assert replies_of(peer.get(selector, accept_replies=ReplyKeyExpr.ANY, timeout=PATIENCE)) == ["elsewhere"]
    assert str(selector) == "q?a=1"


def test_query_without_reply_times_out(router: Session, client: Session) -> None:
    held = router.declare_queryable("q")
    until(lambda: client.declare_querier("q").matching_status)
    found = client.get("q", timeout=0.05)
    assert replies_of(found) == ["error Timeout"]
    assert replies_of(router.get("q", timeout=0.05)) == ["error Timeout"]
    with held.recv(PATIENCE) as query:
        assert query.key_expr == "q"


@pytest.mark.parametrize("where", ["here", "direct", "routed"])
def test_infinite_timeout_is_not_sent_and_starts_no_timer(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """QU-41: it sends no Timeout then, and nothing but the answers ends the query."""
    timers: list[object] = []
    others: dict[str, object] = {"namespace": "n"} if where == "routed" else {}
    with listening("router", **others) as router, connected("client", router, **others) as client:
        queries = (client if where == "here" else router).declare_queryable("q")
        until(lambda: client.declare_querier("q").matching_status)
        loop = client._runtime.node.loop
        call_at = loop.call_at

        def write_down(when: float, work: Callable[[], object]) -> Timer:
            timers.append(work)
            return call_at(when, work)

        monkeypatch.setattr(loop, "call_at", write_down)
        for ask in (partial(client.get, "q", timeout=math.inf), client.declare_querier("q", timeout=math.inf).get):
            found = ask()
            with queries.recv(PATIENCE) as query:
                assert query.timeout is None
                query.reply("q", b"yes")
            assert len(list(found)) == 1
        assert not any(getattr(work, "func", None) == client._runtime.queries._finish for work in timers)


def test_request_without_timeout_expires_after_ten_seconds_at_the_queryable(router: Session, client: Session) -> None:
    """QU-41: by the session that answers, if nobody else."""
    queries = router.declare_queryable("q")
    until(lambda: client.declare_querier("q").matching_status)
    begin = router._runtime.node.loop.now()
    found = client.get("q", timeout=math.inf)
    with queries.recv(PATIENCE) as query:
        served: Any = getattr(query._require_handle().send_reply, "__self__")  # noqa: B009 - a bound method
        assert 10.0 <= served._timer.when - begin < 10.0 + PATIENCE
    assert list(found) == []


def test_callback_of_get_is_dropped_after_the_last_reply(router: Session, client: Session) -> None:
    router.declare_queryable("q", lambda query: query.reply("q", b"yes"))
    found: list[object] = []
    over = threading.Event()
    assert client.get("q", Callback(found.append, over.set), timeout=PATIENCE) is None
    assert over.wait(PATIENCE)
    assert len(found) == 1


def test_cancellation_ends_pending_queries(router: Session, client: Session) -> None:
    waiting = router.declare_queryable("q")
    token = CancellationToken()
    found = client.get("q", cancellation_token=token, timeout=PATIENCE)
    query = waiting.recv(PATIENCE)
    token.cancel()
    assert list(found) == []
    with pytest.raises(ZError, match="cancelled"):
        client.get("q", cancellation_token=token)
    with pytest.raises(ZError, match="cancelled"):
        client.liveliness().get("q", cancellation_token=token)
    query.drop()


def test_allowed_destination_of_queries(router: Session, client: Session) -> None:
    router.declare_queryable("q", lambda query: query.reply("q", b"there"))
    client.declare_queryable("q", lambda query: query.reply("q", b"here"), allowed_origin=Locality.SESSION_LOCAL)

    def ask(destination: Locality) -> list[bytes]:
        found = client.get(
            "q",
            allowed_destination=destination,
            consolidation=ConsolidationMode.NONE,
            target=QueryTarget.ALL,
            timeout=PATIENCE,
        )
        return sorted(some(reply.ok).payload.to_bytes() for reply in found)

    assert ask(Locality.ANY) == [b"here", b"there"]
    assert ask(Locality.REMOTE) == [b"there"]
    assert ask(Locality.SESSION_LOCAL) == [b"here"]
    assert list(router.get("nobody", allowed_destination=Locality.SESSION_LOCAL)) == []


@pytest.mark.parametrize("where", ["here", "there"])
def test_replies_have_the_qos_of_the_query_unless_given(router: Session, client: Session, where: str) -> None:
    def answer(query: Query) -> None:
        query.reply("q/1", b"")
        query.reply("q/2", b"", priority=Priority.BACKGROUND, congestion_control=CongestionControl.BLOCK_FIRST)
        query.reply_del("q/3", express=False)
        with pytest.raises(TypeError):
            query.reply("q/4", b"", priority="DATA")  # type: ignore[arg-type]

    (client if where == "here" else router).declare_queryable("q/*", answer)
    until(lambda: list(client.get("q/*", timeout=PATIENCE)))
    found = client.get("q/*", priority=Priority.DATA_HIGH, express=True, timeout=PATIENCE)
    samples = {str(some(reply.ok).key_expr): reply.ok for reply in found}
    treated = {
        key: (some(each).priority, some(each).congestion_control, some(each).express) for key, each in samples.items()
    }
    assert treated == {
        "q/1": (Priority.DATA_HIGH, CongestionControl.BLOCK, True),
        "q/2": (Priority.BACKGROUND, CongestionControl.BLOCK_FIRST, True),
        "q/3": (Priority.DATA_HIGH, CongestionControl.BLOCK, False),
    }


def test_querier_queries_with_its_settings(peer: Session) -> None:
    seen: list[tuple[str, ReplyKeyExpr, object]] = []

    def answer(query: Query) -> None:
        seen.append((str(query.parameters), query.accepts_replies(), query.payload))
        query.reply("other", b"")

    peer.declare_queryable("q", answer)
    with peer.declare_querier("q", accept_replies=ReplyKeyExpr.ANY, timeout=PATIENCE) as querier:
        assert querier.accept_replies is ReplyKeyExpr.ANY
        assert replies_of(querier.get(parameters={"a": "1"}, payload=b"p")) == ["other"]
        assert replies_of(querier.get()) == ["other"]
    assert seen == [("a=1;_anyke", ReplyKeyExpr.ANY, b"p"), ("_anyke", ReplyKeyExpr.ANY, None)]
    with pytest.raises(UsageError, match="querier was undeclared"):
        querier.get()


# --- liveliness ---


# --- matching ---


def test_matching_listener_receives_changes(router: Session, client: Session) -> None:
    publisher = client.declare_publisher("demo/a")
    listener = publisher.declare_matching_listener()
    assert not publisher.matching_status
    subscriber = router.declare_subscriber("demo/**")
    assert listener.recv(PATIENCE).matching is True
    assert publisher.matching_status
    second = publisher.declare_matching_listener()
    assert second.recv(PATIENCE).matching is True
    subscriber.undeclare()
    assert listener.recv(PATIENCE).matching is False
    own = client.declare_subscriber("demo/a")
    assert listener.recv(PATIENCE).matching is True
    own.undeclare()
    assert listener.recv(PATIENCE).matching is False
    publisher.undeclare()
    assert list(listener.handler) == []


def test_matching_status_of_all_complete_counts_complete_queryables_only(router: Session, client: Session) -> None:
    querier = client.declare_querier("q/a", target=QueryTarget.ALL_COMPLETE)
    other = client.declare_querier("q/a")
    router.declare_queryable("q/**", lambda _: None)
    until(lambda: other.matching_status)
    assert not querier.matching_status
    router.declare_queryable("q/*", lambda _: None, complete=True)
    until(lambda: querier.matching_status)


def test_matching_status_is_current_for_a_publisher_declared_later(router: Session, client: Session) -> None:
    first = client.declare_publisher("a")
    subscriber = router.declare_subscriber("a")
    until(lambda: first.matching_status)
    first.undeclare()
    subscriber.undeclare()
    second = client.declare_publisher("a")
    listener = second.declare_matching_listener()
    assert not second.matching_status
    router.declare_subscriber("a", lambda _: None)
    assert listener.recv(PATIENCE)


# --- life ---


def test_closed_session_rejects_every_call(router: Session, client: Session) -> None:
    subscriber = client.declare_subscriber("a")
    publisher = client.declare_publisher("a")
    querier = client.declare_querier("a")
    waiting = router.declare_queryable("slow")
    found = client.get("slow", timeout=PATIENCE)
    query = waiting.recv(PATIENCE)
    client.close()
    client.close()
    assert client.is_closed()
    assert list(found) == []
    assert list(subscriber) == []
    calls: list[Callable[[], object]] = [
        lambda: client.put("a", b""),
        lambda: client.delete("a"),
        lambda: client.get("a"),
        lambda: client.declare_subscriber("a"),
        lambda: client.declare_queryable("a"),
        lambda: client.declare_publisher("a"),
        lambda: client.declare_querier("a"),
        lambda: client.declare_keyexpr("a"),
        lambda: client.liveliness().declare_token("a"),
        lambda: client.liveliness().declare_subscriber("a"),
        lambda: client.liveliness().get("a"),
        lambda: client.info.declare_link_events_listener(),
        lambda: publisher.put(b""),
        lambda: publisher.delete(),
        lambda: querier.get(),
    ]
    for call in calls:
        with pytest.raises(SessionClosed):
            call()
    assert client.info.links() == []
    assert not publisher.matching_status
    subscriber.undeclare()
    publisher.undeclare()
    query.drop()


def test_what_was_published_before_closing_arrives(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("a", FifoChannel(100_000))
    for _ in range(50):
        client.put("a", b"x" * 1_000_000, congestion_control=CongestionControl.BLOCK)
    client.close()
    assert all(len(subscriber.recv(PATIENCE).payload) == 1_000_000 for _ in range(50))


def test_unreferenced_session_closes(router: Session) -> None:
    session = connected("client", router)
    gone = weakref.ref(session)
    subscriber = session.declare_subscriber("a")
    session.declare_subscriber("b", lambda _: None)
    publisher = session.declare_publisher("c")
    del session
    assert gone() is None
    assert list(subscriber) == []
    until(lambda: not router.info.transports())
    with pytest.raises(SessionClosed):
        publisher.put(b"")


@pytest.mark.parametrize("indirect", [True, False])
def test_session_methods_can_be_called_from_callbacks(router: Session, client: Session, indirect: bool) -> None:
    router.declare_queryable("q", lambda query: query.reply("q", b"yes"))
    echo = router.declare_subscriber("echo")
    done = threading.Event()
    trouble: list[BaseException] = []

    def act(sample: Sample) -> None:
        try:
            client.put("echo", sample.payload, congestion_control=CongestionControl.BLOCK)
            client.get("q", lambda _: None)
            client.declare_subscriber("other").undeclare()
            client.declare_publisher("other").undeclare()
            client.declare_queryable("other").undeclare()
            client.liveliness().declare_token("other").undeclare()
            list(client.info.links())
            client.close()
        except BaseException as error:
            trouble.append(error)
        done.set()

    client.declare_subscriber("go", Callback(act, indirect=indirect))
    publisher = router.declare_publisher("go")
    until(lambda: publisher.matching_status)
    publisher.put(b"ping")
    assert done.wait(PATIENCE)
    assert trouble == []
    assert echo.recv(PATIENCE).payload == b"ping"
    until(lambda: not router.info.transports())
    client.close()


def test_callback_runs_without_the_session_lock(peer: Session) -> None:
    """Whoever waits in one for a thread that uses the session must not wait for ever."""
    done = threading.Event()

    def act(_: Sample) -> None:
        helper = threading.Thread(target=lambda: peer.declare_subscriber("other").undeclare())
        helper.start()
        helper.join(PATIENCE)
        if not helper.is_alive():
            done.set()

    peer.declare_subscriber("a", Callback(act, indirect=False))
    peer.put("a", b"")
    assert done.wait(PATIENCE)


@pytest.mark.slow
def test_session_is_thread_safe(router: Session, client: Session) -> None:
    subscriber = router.declare_subscriber("t/*", FifoChannel(100_000))
    router.declare_queryable("q", lambda query: query.reply("q", b"yes"))
    trouble: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for count in range(50):
                client.put(f"t/{number}", str(count), congestion_control=CongestionControl.BLOCK)
                client.declare_subscriber(f"x/{number}").undeclare()
                assert len(list(client.get("q", timeout=PATIENCE))) == 1
        except BaseException as error:
            trouble.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * PATIENCE)
    assert trouble == []
    assert len([subscriber.recv(PATIENCE) for _ in range(400)]) == 400


def test_declare_keyexpr_returns_a_key_expression(router: Session, client: Session) -> None:
    key = client.declare_keyexpr("demo/a")
    subscriber = router.declare_subscriber(key)
    client.put(key, b"1")
    assert subscriber.recv(PATIENCE).key_expr == key
    router.declare_queryable(key, lambda query: query.reply(key, b"2"))
    assert replies_of(client.get(key, timeout=PATIENCE)) == ["demo/a"]
    assert replies_of(client.get(Selector(key, "x=1"), timeout=PATIENCE)) == ["demo/a"]
    client.liveliness().declare_token(key).undeclare()
    client.undeclare(key)
    assert isinstance(key, KeyExpr)
    client.put(key, b"3")
    assert subscriber.recv(PATIENCE).payload == b"3"


def test_declarations_wait_for_backlogged_links_first(peer: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    entities, waits = peer._runtime.entities, []
    monkeypatch.setattr(peer._runtime, "wait_for_links", lambda: waits.append(len(entities)))
    before, liveliness = len(entities), peer.liveliness()
    declarations: list[Callable[[str], object]] = [
        peer.declare_publisher,
        peer.declare_subscriber,
        peer.declare_queryable,
        peer.declare_querier,
        liveliness.declare_token,
        liveliness.declare_subscriber,
    ]
    held = [declare("a") for declare in declarations]
    assert waits == list(range(before, before + len(held)))


def test_session_undeclare_ends_every_kind_of_entity(peer: Session) -> None:
    publisher = peer.declare_publisher("a")
    peer.undeclare(publisher)
    with pytest.raises(UsageError, match="publisher was undeclared"):
        publisher.put(b"")
    with pytest.raises(TypeError, match="expected a KeyExpr"):
        peer.undeclare("a")  # type: ignore[arg-type]  # that is the point


def test_ids_and_timestamps_of_a_session(peer: Session) -> None:
    assert peer.id.zid == peer.zid() == peer.info.zid()
    first, second = peer.new_timestamp(), peer.new_timestamp()
    assert first < second
    assert peer.declare_subscriber("a").id != peer.declare_subscriber("a").id


def test_invalid_key_expression_is_rejected(peer: Session) -> None:
    for call in (peer.put, peer.declare_subscriber):
        with pytest.raises(ZError):
            call("a//b", b"")  # type: ignore[call-overload]


def test_entities_work_again_after_reconnection() -> None:
    with listening("router") as first:
        where = address(first)
        client = connected("client", first)
        subscriber = client.declare_subscriber("down/*")
        publisher = client.declare_publisher("up/a")
        client.declare_queryable("q", lambda query: query.reply("q", b"yes"))
        token = client.liveliness().declare_token("live/client")
        port = int(where.rpartition(":")[2])
    until(lambda: not client.info.transports())
    with client, open(config("router", [f"tcp/127.0.0.1:{port}"])) as second:
        up = second.declare_subscriber("up/*")
        until(lambda: publisher.matching_status)
        publisher.put(b"again")
        assert up.recv(PATIENCE).payload == b"again"
        until(lambda: second.declare_publisher("down/a").matching_status)
        second.put("down/a", b"back")
        assert subscriber.recv(PATIENCE).payload == b"back"
        assert replies_of(second.get("q", timeout=PATIENCE)) == ["q"]
        assert replies_of(second.liveliness().get("live/*")) == ["live/client"]
        token.undeclare()


def test_unread_queries_end_when_the_queryable_is_undeclared(router: Session, client: Session) -> None:
    held = [router.declare_queryable("q")]
    found = client.get("q", timeout=PATIENCE)
    until(lambda: len(held[0].handler._items) == 1)
    started = time.monotonic()
    held.clear()
    gc.collect()
    assert list(found) == []
    assert time.monotonic() - started < PATIENCE / 2


def test_undeclare_of_an_undeclared_key_expression_is_rejected(router: Session) -> None:
    key = router.declare_keyexpr("a/b")
    router.undeclare(key)
    with pytest.raises(UsageError, match="was not declared"):
        router.undeclare(KeyExpr("a/c"))
    with pytest.raises(TypeError):
        router.undeclare(3)  # type: ignore[arg-type]


def test_undeclare_of_a_key_expression_after_close_raises(peer: Session) -> None:
    key = peer.declare_keyexpr("a")
    peer.close()
    with pytest.raises(SessionClosed):
        peer.undeclare(key)


def test_get_on_a_key_over_the_limit_raises() -> None:
    with listening("peer", limits__key__bytes=64) as peer, pytest.raises(KeyLimitExceeded, match="has 65 bytes"):
        peer.get("k" * 65)


def test_repr_of_a_session_has_its_zid(router: Session) -> None:
    assert repr(router) == f"Session {{ zid: {router.zid()}, closed: false }}"


@pytest.mark.parametrize("indirect", [True, False])
def test_cancelling_waits_for_the_callback(router: Session, client: Session, indirect: bool) -> None:
    queryable = router.declare_queryable("a")
    token, entered, leave = CancellationToken(), threading.Event(), threading.Event()
    seen: list[str] = []

    def on_reply(_: object) -> None:
        entered.set()
        leave.wait(PATIENCE)
        seen.append("reply")

    handler = Callback(on_reply, lambda: seen.append("dropped"), indirect=indirect)
    client.get("a", handler, cancellation_token=token, consolidation=ConsolidationMode.NONE)
    with queryable.recv(PATIENCE) as query:
        query.reply("a", b"")
    assert entered.wait(PATIENCE)
    threading.Timer(0.05, leave.set).start()
    token.cancel()
    assert seen == ["reply", "dropped"]


def test_callback_can_cancel_its_own_query(router: Session, client: Session) -> None:
    queryable = router.declare_queryable("a")
    token, dropped = CancellationToken(), threading.Event()
    handler: Callback[object] = Callback(lambda _: token.cancel(), dropped.set)
    client.get("a", (handler, "mine"), cancellation_token=token, consolidation=ConsolidationMode.NONE)
    with queryable.recv(PATIENCE) as query:
        query.reply("a", b"")
    assert dropped.wait(PATIENCE)


def points(stack: TimestampStack) -> list[str]:
    return [record.point.name for record in stack.records]


def test_timestamp_stack_of_query_and_reply(router: Session, client: Session) -> None:
    wanted = TimestampInstrumentationBuilder().set_send(True).set_route(True).set_receive(True).build()
    there = ["SEND", "ROUTE", "ROUTE", "RECEIVE"]
    for asking, expected in ((client, there), (router, ["SEND", "RECEIVE"])):
        stacks: list[Any] = []

        def answer(query: Query, stacks: list[Any] = stacks) -> None:
            stacks.append(query.timestamp_stack)
            query.reply("a", b"")

        with router.declare_queryable("a", answer):
            until(lambda: list(client.get("a")))
            stacks.clear()
            (reply,) = asking.get("a", timestamp_instrumentation=wanted)
        assert points(stacks[0]) == expected
        assert reply.ok is not None
        assert reply.ok.timestamp_stack is not None
        assert points(reply.ok.timestamp_stack) == expected * 2


def test_recv_of_an_entity_with_callback_raises(router: Session) -> None:
    plain = router.declare_subscriber("a", print)
    filled = router.declare_subscriber("a", (print, ["mine"]))
    for error in (UsageError, AttributeError):
        with pytest.raises(error, match="no channel"):
            plain.recv()  # type: ignore[misc]
        with pytest.raises(error, match="no channel"):
            filled.try_recv()  # type: ignore[misc]
    with pytest.raises(TypeError, match="no channel"):
        iter(plain)
    assert list(filled) == ["mine"]


def test_router_adds_the_same_timestamp_for_local_and_remote_subscribers(router: Session, client: Session) -> None:
    with connected("client", router) as other:
        own, batches = router.declare_subscriber("demo/*"), router.declare_subscriber("demo/*", ArrowBatches())
        there = other.declare_subscriber("demo/*")
        publisher = client.declare_publisher("demo/a", congestion_control=CongestionControl.BLOCK)
        router.declare_queryable("here", lambda query: query.reply("here", "yes"))
        assert replies_of(other.get("here", timeout=PATIENCE)) == ["here"]  # so the router knows what was declared
        for number in range(5):
            publisher.put(str(number))
        stamps = [own.recv(PATIENCE).timestamp for _ in range(5)]
        assert [there.recv(PATIENCE).timestamp for _ in range(5)] == stamps
        assert all(stamp is not None and str(stamp.get_id()) == str(router.zid()) for stamp in stamps)
        assert sorted(set(map(str, stamps))) == list(map(str, stamps))
        rows: list[str] = []
        while len(rows) < 5:
            rows += batches.recv(PATIENCE).column("timestamp_id").to_pylist()
        assert rows == [str(router.zid())] * 5


def test_runtime_of_a_session_belongs_to_its_node() -> None:
    with listening("peer") as session:
        assert str(runtime_of(session).node.identity.zid) == str(session.zid())
