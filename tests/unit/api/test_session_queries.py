"""Queries between sessions joined over loopback: the queryables of one reply to the other."""

from __future__ import annotations

import gc
import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.optional import some
from tests.unit.api.sessions import PAIRS, address, config, connected, listening, pair, replies_of
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.cancellation import CancellationToken
from zenspark.api.open import open
from zenspark.api.session import Session
from zenspark.errors import KeyLimitExceeded, UsageError, ZError
from zenspark.handlers.handler import Callback
from zenspark.net.loop.event_loop import Timer
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
from zenspark.types.selector import Selector
from zenspark.types.timestamp_stack import TimestampInstrumentationBuilder, TimestampStack
from zenspark.wire import values as wire


@pytest.mark.parametrize(("listener", "caller"), PAIRS)
def test_get_receives_replies_in_both_directions(listener: str, caller: str) -> None:
    def on_query(query: Query) -> None:
        with query:
            query.reply("q/a", query.payload or b"none", encoding="text/plain", attachment=query.attachment or b"")
            query.reply_del("q/b")
            query.reply_err(str(query.parameters), encoding="text/plain")

    with pair(listener, caller) as (one, other):
        for here, there in [(one, other), (other, one)]:
            queryable = here.declare_queryable("q/**", on_query)
            querier = there.declare_querier("q/*")
            until(lambda: querier.matching_status)  # noqa: B023 - called at once
            found = list(there.get("q/*?x=1;y", payload="why", attachment=b"more", timeout=TIMEOUT_SECONDS))
            by_key = {str(reply.ok.key_expr): reply for reply in found if reply.ok}
            assert some(by_key["q/a"].ok).payload == b"why"
            assert some(by_key["q/a"].ok).attachment == b"more"
            assert by_key["q/a"].replier_id == queryable.id
            assert some(by_key["q/b"].ok).kind is SampleKind.DELETE
            assert [reply.err.payload.to_string() for reply in found if reply.err] == ["x=1;y"]
            queryable.undeclare()
            until(lambda: not querier.matching_status)  # noqa: B023 - called at once
            assert list(there.get("q/*", timeout=TIMEOUT_SECONDS)) == []


def test_query_ends_when_the_callback_raises(
    router: Session, client: Session, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(query: Query) -> None:
        query.reply("q/a", b"first")
        raise RuntimeError("on purpose")

    router.declare_queryable("q/**", fail)
    assert replies_of(client.get("q/**", timeout=TIMEOUT_SECONDS)) == ["q/a"]
    assert replies_of(router.get("q/**", timeout=TIMEOUT_SECONDS)) == ["q/a"]
    assert "on purpose" in caplog.text


def test_all_queryables_of_a_session_reply(router: Session, client: Session) -> None:
    """RE-77: each as an entity of its own."""
    offered = [router.declare_queryable("q", lambda query: query.reply("q", b"yes")) for _ in range(2)]
    until(lambda: client.declare_querier("q").matching_status)
    for session in (client, router):
        found = list(session.get("q", consolidation=ConsolidationMode.NONE, timeout=TIMEOUT_SECONDS))
        assert {some(reply.replier_id).eid for reply in found} == {queryable.id.eid for queryable in offered}
        assert len(found) == 2


def test_query_ends_when_the_last_queried_neighbour_finishes() -> None:
    """RE-78: past the router."""
    with listening("peer") as one, listening("peer") as two:
        held = [session.declare_queryable("q") for session in (one, two)]
        with open(config("peer", (), [address(one), address(two)])) as client:
            until(lambda: len(client.info.declarations()) == 2)
            found = client.get("q", target=QueryTarget.ALL, timeout=TIMEOUT_SECONDS)
            first, second = (queryable.recv(TIMEOUT_SECONDS) for queryable in held)
            first.drop()
            until(lambda: sum(map(len, client._runtime.direct_queries._pending.values())) == 1)
            with second:
                second.reply("q", b"late")
            assert [some(reply.ok).payload.to_bytes() for reply in found] == [b"late"]


def test_query_target_selects_the_queryables_that_reply(router: Session, client: Session) -> None:
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


def test_consolidation_mode_selects_the_delivered_replies(peer: Session) -> None:
    stamps = [peer.new_timestamp() for _ in range(3)]

    def on_query(query: Query) -> None:
        for number in (0, 2, 1):
            query.reply("q", str(number), timestamp=stamps[number])

    peer.declare_queryable("q", on_query)
    modes: dict[ConsolidationMode | QueryConsolidation, list[str]] = {
        ConsolidationMode.NONE: ["0", "2", "1"],
        ConsolidationMode.MONOTONIC: ["0", "2"],
        ConsolidationMode.LATEST: ["2"],
        ConsolidationMode.AUTO: ["2"],
        QueryConsolidation.AUTO: ["2"],
    }
    for mode, expected in modes.items():
        found = peer.get("q", consolidation=mode, timeout=TIMEOUT_SECONDS)
        assert [some(reply.ok).payload.to_string() for reply in found] == expected
    found = peer.get("q?_time=[now()..]", timeout=TIMEOUT_SECONDS)
    assert len(list(found)) == 3


@pytest.mark.parametrize("where", ["here", "direct", "routed"])
@pytest.mark.parametrize("preferred", list(ConsolidationMode))
def test_consolidation_preferred_by_the_queryable_applies_with_auto(where: str, preferred: ConsolidationMode) -> None:
    """QU-56, RE-50: REPLY has the mode that the queryable prefers, which counts if the querier has chosen nothing."""
    others: dict[str, object] = {"namespace": "n"} if where == "routed" else {}
    seen: list[ConsolidationMode] = []

    def on_query(query: Query) -> None:
        seen.append(query.consolidation)
        for number in (0, 2, 1):
            query.reply("q", str(number), timestamp=stamps[number], consolidation=preferred)
        query.reply("q/plain", "plain", consolidation=preferred)
        query.reply_del("q/gone", consolidation=preferred)

    with listening("router", **others) as router, connected("client", router, **others) as client:
        stamps = [router.new_timestamp() for _ in range(3)]
        (client if where == "here" else router).declare_queryable("q/**", on_query)
        until(lambda: client.declare_querier("q/**").matching_status)
        expected = {ConsolidationMode.NONE: ["0", "2", "1"], ConsolidationMode.MONOTONIC: ["0", "2"]}
        chosen: ConsolidationMode | None
        for chosen in (None, ConsolidationMode.AUTO, ConsolidationMode.LATEST):
            found = list(client.get("q/**", consolidation=chosen, timeout=TIMEOUT_SECONDS))
            texts = [some(reply.ok).payload.to_string() for reply in found if str(some(reply.ok).key_expr) == "q"]
            assert texts == (["2"] if chosen is ConsolidationMode.LATEST else expected.get(preferred, ["2"]))
            assert {reply.consolidation for reply in found} == {preferred}
            assert {str(some(reply.ok).key_expr) for reply in found} == {"q", "q/plain", "q/gone"}
        assert seen == [ConsolidationMode.AUTO, ConsolidationMode.AUTO, ConsolidationMode.LATEST]
        assert len(list(client.get("q/**?_time=[now()..]", timeout=TIMEOUT_SECONDS))) == (
            4 if preferred is ConsolidationMode.MONOTONIC else 3
        ) + (2 * (preferred in (ConsolidationMode.NONE, ConsolidationMode.AUTO)))


@pytest.mark.parametrize("where", ["here", "direct", "routed"])
def test_replies_have_the_given_source_info(where: str) -> None:
    """RE-45, RE-66: SourceInfo of a value, a deletion and an error; none by default."""
    others: dict[str, object] = {"namespace": "n"} if where == "routed" else {}
    source = SourceInfo.from_wire(wire.SourceInfo(wire.ZenohId(3), 4, 5))

    def on_query(query: Query) -> None:
        for info in (source, None):
            query.reply("q/put", b"", source_info=info)
            query.reply_del("q/del", source_info=info)
            query.reply_err(b"", source_info=info)

    with listening("router", **others) as router, connected("client", router, **others) as client:
        (client if where == "here" else router).declare_queryable("q/*", on_query)
        until(lambda: client.declare_querier("q/put").matching_status)
        found = list(client.get("q/*", consolidation=ConsolidationMode.NONE, timeout=TIMEOUT_SECONDS))
        assert [reply.result.source_info for reply in found] == [source] * 3 + [None] * 3


@pytest.mark.parametrize("where", ["here", "direct", "routed"])
def test_query_and_error_reply_have_the_given_timestamp(where: str) -> None:
    """QU-18, RE-25: a query has its timestamp at the queryable; that of a response counts where its value has none."""
    others: dict[str, object] = {"namespace": "n"} if where == "routed" else {}
    with listening("router", **others) as router, connected("client", router, **others) as client:
        queries = (client if where == "here" else router).declare_queryable("q")
        until(lambda: client.declare_querier("q").matching_status)
        stamp = client.new_timestamp()
        ways: list[Callable[..., Any]] = [partial(client.get, "q"), client.declare_querier("q").get]
        for send_query in ways:
            for given in (stamp, None):
                found = send_query(timestamp=given)
                with queries.recv(TIMEOUT_SECONDS) as query:
                    assert query.timestamp == given
                    query.reply_err(b"no", timestamp=given)
                assert [reply.err.timestamp for reply in found] == [given]
        with pytest.raises(TypeError):
            client.get("q", timestamp=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("where", ["here", "direct", "routed"])
def test_query_ends_after_budget_responses(where: str) -> None:
    """QU-37, QU-76, RE-38: the querier sends its budget and accepts no more, without a RESPONSE_FINAL."""
    others: dict[str, object] = {"namespace": "n"} if where == "routed" else {}
    with listening("router", **others) as router, connected("client", router, **others) as client:
        queries = (client if where == "here" else router).declare_queryable("q")
        until(lambda: client.declare_querier("q").matching_status)
        ways: list[Callable[..., Any]] = [
            partial(client.get, "q", consolidation=ConsolidationMode.NONE, timeout=TIMEOUT_SECONDS, budget=2),
            client.declare_querier("q", consolidation=ConsolidationMode.NONE, timeout=TIMEOUT_SECONDS, budget=2).get,
        ]
        for send_query in ways:
            found = send_query()
            query = queries.recv(TIMEOUT_SECONDS)
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


@pytest.mark.parametrize(("meaning", "count"), [("covering", 0), ("declared", 1)])
def test_all_complete_setting_decides_which_queryables_a_router_queries(meaning: str, count: int) -> None:
    """QU-34, RO-19."""
    with (
        listening("router", routing__router__all_complete=meaning) as router,
        connected("client", router) as client,
        connected("client", router) as other,
    ):
        other.declare_queryable("q/a", lambda query: query.reply("q/a", b"yes"), complete=True)
        until(lambda: replies_of(client.get("q/a", target=QueryTarget.ALL_COMPLETE, timeout=TIMEOUT_SECONDS)))
        assert len(list(client.get("q/*", target=QueryTarget.ALL_COMPLETE, timeout=TIMEOUT_SECONDS))) == count


def test_reply_on_other_key_is_rejected_unless_accepted(peer: Session) -> None:
    refused: list[str] = []

    def on_query(query: Query) -> None:
        try:
            query.reply("elsewhere", b"")
        except UsageError as error:
            refused.append(str(error))  # the error itself would keep the query alive

    peer.declare_queryable("q", on_query)
    assert list(peer.get("q", timeout=TIMEOUT_SECONDS)) == []
    assert "does not match" in refused[0]
    selector = Selector("q", {"a": "1"})
    assert replies_of(peer.get(selector, accept_replies=ReplyKeyExpr.ANY, timeout=TIMEOUT_SECONDS)) == ["elsewhere"]
    assert str(selector) == "q?a=1"


@pytest.mark.slow
def test_query_without_reply_times_out(router: Session, client: Session) -> None:
    held = router.declare_queryable("q")
    until(lambda: client.declare_querier("q").matching_status)
    found = client.get("q", timeout=0.05)
    assert replies_of(found) == ["error Timeout"]
    assert replies_of(router.get("q", timeout=0.05)) == ["error Timeout"]
    with held.recv(TIMEOUT_SECONDS) as query:
        assert query.key_expr == "q"


@pytest.mark.parametrize("where", ["here", "direct", "routed"])
def test_infinite_timeout_is_not_sent_and_starts_no_timer(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """QU-41: it sends no Timeout then, and nothing but the replies ends the query."""
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
        for send_query in (
            partial(client.get, "q", timeout=math.inf),
            client.declare_querier("q", timeout=math.inf).get,
        ):
            found = send_query()
            with queries.recv(TIMEOUT_SECONDS) as query:
                assert query.timeout is None
                query.reply("q", b"yes")
            assert len(list(found)) == 1
        assert not any(getattr(work, "func", None) == client._runtime.queries._finish for work in timers)


def test_request_without_timeout_expires_after_ten_seconds_at_the_queryable(router: Session, client: Session) -> None:
    """QU-41: by the session of the queryable, if no router ends it before."""
    queries = router.declare_queryable("q")
    until(lambda: client.declare_querier("q").matching_status)
    begin = router._runtime.node.loop.now()
    found = client.get("q", timeout=math.inf)
    with queries.recv(TIMEOUT_SECONDS) as query:
        served: Any = getattr(query._require_handle().send_reply, "__self__")  # noqa: B009 - a bound method
        assert 10.0 <= served._timer.when - begin < 10.0 + TIMEOUT_SECONDS
    assert list(found) == []


def test_callback_of_get_is_dropped_after_the_last_reply(router: Session, client: Session) -> None:
    router.declare_queryable("q", lambda query: query.reply("q", b"yes"))
    found: list[object] = []
    over = threading.Event()
    assert client.get("q", Callback(found.append, over.set), timeout=TIMEOUT_SECONDS) is None
    assert over.wait(TIMEOUT_SECONDS)
    assert len(found) == 1


def test_cancellation_ends_pending_queries(router: Session, client: Session) -> None:
    waiting = router.declare_queryable("q")
    token = CancellationToken()
    found = client.get("q", cancellation_token=token, timeout=TIMEOUT_SECONDS)
    query = waiting.recv(TIMEOUT_SECONDS)
    token.cancel()
    assert list(found) == []
    with pytest.raises(ZError, match="cancelled"):
        client.get("q", cancellation_token=token)
    with pytest.raises(ZError, match="cancelled"):
        client.liveliness().get("q", cancellation_token=token)
    query.drop()


def test_allowed_destination_restricts_queries(router: Session, client: Session) -> None:
    router.declare_queryable("q", lambda query: query.reply("q", b"there"))
    client.declare_queryable("q", lambda query: query.reply("q", b"here"), allowed_origin=Locality.SESSION_LOCAL)

    def payloads_from(destination: Locality) -> list[bytes]:
        found = client.get(
            "q",
            allowed_destination=destination,
            consolidation=ConsolidationMode.NONE,
            target=QueryTarget.ALL,
            timeout=TIMEOUT_SECONDS,
        )
        return sorted(some(reply.ok).payload.to_bytes() for reply in found)

    assert payloads_from(Locality.ANY) == [b"here", b"there"]
    assert payloads_from(Locality.REMOTE) == [b"there"]
    assert payloads_from(Locality.SESSION_LOCAL) == [b"here"]
    assert list(router.get("unmatched", allowed_destination=Locality.SESSION_LOCAL)) == []


@pytest.mark.parametrize("where", ["here", "there"])
def test_replies_have_the_qos_of_the_query_unless_given(router: Session, client: Session, where: str) -> None:
    def on_query(query: Query) -> None:
        query.reply("q/1", b"")
        query.reply("q/2", b"", priority=Priority.BACKGROUND, congestion_control=CongestionControl.BLOCK_FIRST)
        query.reply_del("q/3", express=False)
        with pytest.raises(TypeError):
            query.reply("q/4", b"", priority="DATA")  # type: ignore[arg-type]

    (client if where == "here" else router).declare_queryable("q/*", on_query)
    until(lambda: list(client.get("q/*", timeout=TIMEOUT_SECONDS)))
    found = client.get("q/*", priority=Priority.DATA_HIGH, express=True, timeout=TIMEOUT_SECONDS)
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

    def on_query(query: Query) -> None:
        seen.append((str(query.parameters), query.accepts_replies(), query.payload))
        query.reply("other", b"")

    peer.declare_queryable("q", on_query)
    with peer.declare_querier("q", accept_replies=ReplyKeyExpr.ANY, timeout=TIMEOUT_SECONDS) as querier:
        assert querier.accept_replies is ReplyKeyExpr.ANY
        assert replies_of(querier.get(parameters={"a": "1"}, payload=b"p")) == ["other"]
        assert replies_of(querier.get()) == ["other"]
    assert seen == [("a=1;_anyke", ReplyKeyExpr.ANY, b"p"), ("_anyke", ReplyKeyExpr.ANY, None)]
    with pytest.raises(UsageError, match="querier was undeclared"):
        querier.get()


def test_unread_queries_end_when_the_queryable_is_undeclared(router: Session, client: Session) -> None:
    held = [router.declare_queryable("q")]
    found = client.get("q", timeout=TIMEOUT_SECONDS)
    until(lambda: len(held[0].handler._items) == 1)
    started = time.monotonic()
    held.clear()
    gc.collect()
    assert list(found) == []
    assert time.monotonic() - started < TIMEOUT_SECONDS / 2


def test_get_on_a_key_over_the_limit_raises() -> None:
    with listening("peer", limits__key__bytes=64) as peer, pytest.raises(KeyLimitExceeded, match="has 65 bytes"):
        peer.get("k" * 65)


@pytest.mark.parametrize("indirect", [True, False])
def test_cancelling_waits_for_the_callback(router: Session, client: Session, indirect: bool) -> None:
    queryable = router.declare_queryable("a")
    token, entered, leave = CancellationToken(), threading.Event(), threading.Event()
    seen: list[str] = []

    def on_reply(_: object) -> None:
        entered.set()
        leave.wait(TIMEOUT_SECONDS)
        seen.append("reply")

    handler = Callback(on_reply, lambda: seen.append("dropped"), indirect=indirect)
    client.get("a", handler, cancellation_token=token, consolidation=ConsolidationMode.NONE)
    with queryable.recv(TIMEOUT_SECONDS) as query:
        query.reply("a", b"")
    assert entered.wait(TIMEOUT_SECONDS)
    threading.Timer(0.05, leave.set).start()
    token.cancel()
    assert seen == ["reply", "dropped"]


def test_callback_can_cancel_its_own_query(router: Session, client: Session) -> None:
    queryable = router.declare_queryable("a")
    token, dropped = CancellationToken(), threading.Event()
    handler: Callback[object] = Callback(lambda _: token.cancel(), dropped.set)
    client.get("a", (handler, "mine"), cancellation_token=token, consolidation=ConsolidationMode.NONE)
    with queryable.recv(TIMEOUT_SECONDS) as query:
        query.reply("a", b"")
    assert dropped.wait(TIMEOUT_SECONDS)


def points(stack: TimestampStack) -> list[str]:
    return [record.point.name for record in stack.records]


def test_timestamp_stack_of_query_and_reply(router: Session, client: Session) -> None:
    wanted = TimestampInstrumentationBuilder().set_send(True).set_route(True).set_receive(True).build()
    there = ["SEND", "ROUTE", "ROUTE", "RECEIVE"]
    for sender, expected in ((client, there), (router, ["SEND", "RECEIVE"])):
        stacks: list[Any] = []

        def on_query(query: Query, stacks: list[Any] = stacks) -> None:
            stacks.append(query.timestamp_stack)
            query.reply("a", b"")

        with router.declare_queryable("a", on_query):
            until(lambda: list(client.get("a")))
            stacks.clear()
            (reply,) = sender.get("a", timestamp_instrumentation=wanted)
        assert points(stacks[0]) == expected
        assert reply.ok is not None
        assert reply.ok.timestamp_stack is not None
        assert points(reply.ok.timestamp_stack) == expected * 2
