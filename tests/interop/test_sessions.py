"""Sessions with eclipse-zenoh on loopback: every role, every operation, both directions.

Both sides have the same API, so a test is written once for a side that acts and a side that watches, and runs with
each of the two as either. Where a process must die, the other side is one of its own and prints when it is ready.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, TypeAlias

import msgspec
import psutil
import pytest

import zenspark
from tests.ports import free_port
from tests.wait import TIMEOUT_SECONDS, until

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

"""Seconds after which a test fails instead of waiting on."""

ROLES = {
    "our client of its router": ("client", "router", True),
    "our client of its peer": ("client", "peer", True),
    "our peer calls its peer": ("peer", "peer", True),
    "its peer calls our peer": ("peer", "peer", False),
    "our peer under its router": ("peer", "router", True),
    "its client of our peer": ("peer", "client", False),
    "its client of our router": ("router", "client", False),
}
"""Our role, its role, and whether it is we who connect."""

NODE = """
import json, sys, zenoh
zenoh.init_log_from_env_or("error")
config = zenoh.Config()
for key, value in json.loads(sys.argv[1]).items():
    config.insert_json5(key, json.dumps(value))
session = zenoh.open(config)
{more}
print("ready", flush=True)
sys.stdin.read()
"""

NUMBERS = count()

Api: TypeAlias = Any
Found: TypeAlias = Any
"""A session, query, sample or reply of either side."""


class Side(msgspec.Struct):
    """One of the two: its session, and the module its names come from."""

    session: Any
    api: Api


def settings(mode: str, listen: Iterable[str] = (), connect: Iterable[str] = ()) -> dict[str, object]:
    return {
        "mode": mode,
        "listen/endpoints": list(listen),
        "connect/endpoints": list(connect),
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
        "connect/retry": {"period_init_ms": 50, "period_max_ms": 200, "period_increase_factor": 2},
    }


def start(api: Api, mode: str, listen: Iterable[str] = (), connect: Iterable[str] = ()) -> Found:
    config = api.Config()
    for key, value in settings(mode, listen, connect).items():
        config.insert_json5(key, json.dumps(value))
    return api.open(config)


@contextlib.contextmanager
def process(mode: str, listen: Iterable[str] = (), connect: Iterable[str] = (), more: str = "") -> Iterator[Any]:
    """A process of eclipse-zenoh, ready when the block begins and dead when it ends."""
    command = [sys.executable, "-c", NODE.format(more=more), json.dumps(settings(mode, listen, connect))]
    node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert node.stdout is not None
    assert node.stdin is not None
    try:
        assert node.stdout.readline() == "ready\n"
        yield node
    finally:
        node.kill()
        node.wait()
        node.stdin.close()
        node.stdout.close()


@contextlib.contextmanager
def joined(role: str) -> Iterator[tuple[Side, Side]]:
    """Ours and theirs, with a session between them."""
    our_role, its_role, we_call = ROLES[role]
    where = [f"tcp/127.0.0.1:{free_port()}"]
    with contextlib.ExitStack() as stack:
        if we_call:
            theirs = stack.enter_context(start(zenoh, its_role, listen=where))
            ours = stack.enter_context(start(zenspark, our_role, connect=where))
        else:
            ours = stack.enter_context(start(zenspark, our_role, listen=where))
            theirs = stack.enter_context(start(zenoh, its_role, connect=where))
        until(lambda: ours.info.transports() and theirs.info.transports())
        yield Side(ours, zenspark), Side(theirs, zenoh)


@pytest.fixture(params=list(ROLES), scope="module")
def sides(request: pytest.FixtureRequest) -> Iterator[tuple[Side, Side]]:
    with joined(request.param) as pair:
        yield pair


@pytest.fixture(params=["we act", "it acts"])
def acting(request: pytest.FixtureRequest, sides: tuple[Side, Side]) -> tuple[Side, Side]:
    """The side that publishes or queries, and the side that receives or replies."""
    ours, theirs = sides
    return (ours, theirs) if request.param == "we act" else (theirs, ours)


@contextlib.contextmanager
def subscribed(acting: tuple[Side, Side], key: str, **options: Found) -> Iterator[tuple[Any, list[Any]]]:
    """A publisher on one side and what a subscriber on the other has received."""
    actor, watcher = acting
    found: list[Any] = []
    key = f"{key}/{next(NUMBERS)}"  # between the end of one subscriber and the begin of the next, data may be filtered
    with watcher.session.declare_subscriber(key, found.append), actor.session.declare_publisher(key, **options) as out:
        until(lambda: out.matching_status.matching)
        yield out, found


def replies(found: Found) -> list[tuple[str, bytes]]:
    return sorted(
        (str(reply.ok.key_expr), reply.ok.payload.to_bytes()) if reply.ok else ("error", reply.err.payload.to_bytes())
        for reply in found
    )


# --- publish and subscribe ------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 1000, 65_000, 70_000, 1_000_000, 10 << 20])
@pytest.mark.parametrize("reliability", ["RELIABLE", "BEST_EFFORT"])
def test_payloads_of_any_size(acting: tuple[Side, Side], size: int, reliability: str) -> None:
    api = acting[0].api
    payload = os.urandom(min(size, 1000)) * (size // min(size, 1000)) if size else b""
    options = {
        "reliability": getattr(api.Reliability, reliability),
        "congestion_control": api.CongestionControl.BLOCK,
    }
    with subscribed(acting, "sizes/a", **options) as (publisher, found):
        publisher.put(payload)
        for _ in range(20 if reliability == "BEST_EFFORT" else 0):
            with contextlib.suppress(AssertionError):  # eclipse-zenoh drops such fragments in a hurry, also with BLOCK
                until(lambda: found, 1.0)
                break
            publisher.put(payload)
        until(lambda: found)
        assert found[0].payload.to_bytes() == payload
        assert str(found[0].key_expr) == str(publisher.key_expr)


@pytest.mark.parametrize("priority", [priority.name for priority in zenspark.Priority])
def test_priority_congestion_control_and_express_are_delivered(acting: tuple[Side, Side], priority: str) -> None:
    sender, receiver = acting[0].api, acting[1].api
    for congestion in ("DROP", "BLOCK"):
        for express in (False, True):
            options = {
                "priority": getattr(sender.Priority, priority),
                "congestion_control": getattr(sender.CongestionControl, congestion),
                "express": express,
            }
            with subscribed(acting, "treatment", **options) as (publisher, found):
                for number in range(20):
                    publisher.put(str(number))
                    if congestion == "DROP":  # in a hurry it may well be dropped
                        until(lambda: len(found) > number)  # noqa: B023 - called at once
                until(lambda: len(found) == 20)
                assert [sample.payload.to_string() for sample in found] == [str(number) for number in range(20)]
                assert found[0].priority == getattr(receiver.Priority, priority)
                assert found[0].congestion_control == getattr(receiver.CongestionControl, congestion)
                assert found[0].express is express


@pytest.mark.parametrize("encoding", ["zenoh/bytes", "text/plain", "text/plain;utf-8", "application/x-own;v=1"])
def test_encoding_attachment_timestamp_and_source_info_are_delivered(acting: tuple[Side, Side], encoding: str) -> None:
    actor, _ = acting
    stamp = actor.session.new_timestamp()
    with subscribed(acting, "extras") as (publisher, found):
        source = actor.api.SourceInfo(publisher.id, 42)
        publisher.put("1", encoding=encoding, attachment=b"more", timestamp=stamp, source_info=source)
        actor.session.put(
            publisher.key_expr, "2", encoding=encoding, attachment="more", timestamp=stamp, source_info=source
        )
        publisher.delete(attachment=b"why", timestamp=stamp)
        actor.session.delete(publisher.key_expr)
        until(lambda: len(found) == 4)
        for sample in found[:2]:
            assert str(sample.encoding) == encoding
            assert sample.attachment.to_bytes() == b"more"
            assert str(sample.timestamp) == str(stamp)
            assert sample.source_info.source_sn == 42
            assert str(sample.source_info.source_id.zid) == str(actor.session.zid())
        assert [str(sample.kind) for sample in found] == ["SampleKind.PUT"] * 2 + ["SampleKind.DELETE"] * 2
        assert found[2].attachment.to_bytes() == b"why"
        assert found[3].attachment is None


def test_wildcards_and_many_keys(acting: tuple[Side, Side]) -> None:
    actor, watcher = acting
    found: list[Any] = []
    with watcher.session.declare_subscriber("wild/*/end", found.append):
        with actor.session.declare_publisher("wild/0/end") as probe:
            until(lambda: probe.matching_status.matching)
        for number in range(500):
            actor.session.put(f"wild/{number}/end", b"", congestion_control=actor.api.CongestionControl.BLOCK)
            actor.session.put(f"wild/{number}/other", b"", congestion_control=actor.api.CongestionControl.BLOCK)
        until(lambda: len(found) == 500)
        assert [str(sample.key_expr) for sample in found] == [f"wild/{number}/end" for number in range(500)]


def test_undeclared_subscriber_receives_nothing(acting: tuple[Side, Side]) -> None:
    actor, watcher = acting
    first: list[Any] = []
    second: list[Any] = []
    one = watcher.session.declare_subscriber("silent/a", first.append)
    with (
        watcher.session.declare_subscriber("silent/a", second.append),
        actor.session.declare_publisher("silent/a") as publisher,
    ):
        until(lambda: publisher.matching_status.matching)
        publisher.put("1")
        until(lambda: first and second)
        one.undeclare()
        publisher.put("2")
        until(lambda: len(second) == 2)
        assert len(first) == 1
        until(lambda: publisher.matching_status.matching)
    with actor.session.declare_publisher("silent/a") as publisher:
        until(lambda: not publisher.matching_status.matching)


# --- queries and replies --------------------------------------------------------------------------


@contextlib.contextmanager
def queryable_on(
    acting: tuple[Side, Side], key: str, on_query: Callable[[Any], object], **options: Found
) -> Iterator[Any]:
    """A queryable on one side that the other side knows of."""
    actor, watcher = acting
    with watcher.session.declare_queryable(key, on_query, **options) as queryable:
        with actor.session.declare_querier(key) as querier:
            until(lambda: querier.matching_status.matching)
        yield queryable


def test_query_with_all_fields_is_delivered(acting: tuple[Side, Side]) -> None:
    actor, watcher = acting
    queried: list[Any] = []

    def on_query(query: Found) -> None:
        with query:
            queried.append((str(query.selector), query.payload.to_bytes(), str(query.encoding)))
            queried.append((query.attachment.to_bytes(), query.source_info.source_sn))
            query.reply("q/a", query.payload, encoding="text/plain", attachment=b"so", timestamp=stamp)
            query.reply_del("q/b", attachment=b"gone")
            query.reply_err("no", encoding="application/json")

    stamp = watcher.session.new_timestamp()
    with queryable_on(acting, "q/**", on_query) as queryable:
        found = list(
            actor.session.get(
                "q/*?x=1;y",
                payload=b"why",
                encoding="text/csv",
                attachment=b"please",
                source_info=actor.api.SourceInfo(actor.session.id, 9),
                priority=actor.api.Priority.INTERACTIVE_HIGH,
                express=True,
                timeout=TIMEOUT_SECONDS,
            )
        )
        assert queried == [("q/*?x=1;y", b"why", "text/csv"), (b"please", 9)]
        assert replies(found) == [("error", b"no"), ("q/a", b"why"), ("q/b", b"")]
        value = next(reply for reply in found if reply.ok and str(reply.ok.key_expr) == "q/a")
        assert (str(value.ok.encoding), value.ok.attachment.to_bytes()) == ("text/plain", b"so")
        assert str(value.ok.timestamp) == str(stamp)
        assert str(value.replier_id.zid) == str(watcher.session.zid())
        assert value.replier_id.eid == queryable.id.eid
        gone = next(reply for reply in found if reply.ok and str(reply.ok.key_expr) == "q/b")
        assert str(gone.ok.kind) == "SampleKind.DELETE"
        assert gone.ok.attachment.to_bytes() == b"gone"
        error = next(reply for reply in found if reply.err)
        assert str(error.err.encoding) == "application/json"


def test_query_without_optional_fields_is_delivered(acting: tuple[Side, Side]) -> None:
    queried: list[Any] = []

    def on_query(query: Found) -> None:
        queried.append((query.payload, query.encoding, query.attachment, query.source_info, str(query.parameters)))

    with queryable_on(acting, "bare", on_query):
        assert list(acting[0].session.get("bare", timeout=TIMEOUT_SECONDS)) == []
        assert queried == [(None, None, None, None, "")]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("NONE", [b"0", b"1", b"2"]), ("MONOTONIC", [b"0", b"2"]), ("LATEST", [b"2"]), ("AUTO", [b"2"])],
)
def test_consolidation_mode_selects_replies(acting: tuple[Side, Side], mode: str, expected: list[bytes]) -> None:
    actor, watcher = acting
    stamps = [watcher.session.new_timestamp() for _ in range(3)]

    def on_query(query: Found) -> None:
        for number in (0, 2, 1):
            query.reply("merge", str(number), timestamp=stamps[number])

    with queryable_on(acting, "merge", on_query):
        consolidation = getattr(actor.api.ConsolidationMode, mode)
        found = actor.session.get("merge", consolidation=consolidation, timeout=TIMEOUT_SECONDS)
        assert sorted(reply.ok.payload.to_bytes() for reply in found) == expected


def test_query_target_selects_queryables(acting: tuple[Side, Side]) -> None:
    actor, watcher = acting

    def offer(name: str, complete: bool) -> Found:
        def on_query(query: Found) -> None:
            query.reply(f"target/{name}", b"")

        return watcher.session.declare_queryable("target/**", on_query, complete=complete)

    with queryable_on(acting, "target/a", lambda query: None), offer("part", False):
        targets = actor.api.QueryTarget
        until(lambda: replies(actor.session.get("target/*", target=targets.ALL)) == [("target/part", b"")])
        assert replies(actor.session.get("target/*", target=targets.ALL_COMPLETE, timeout=TIMEOUT_SECONDS)) == []
        with offer("whole", True):
            until(
                lambda: replies(actor.session.get("target/*", target=targets.ALL_COMPLETE)) == [("target/whole", b"")]
            )
            both = [("target/part", b""), ("target/whole", b"")]
            assert replies(actor.session.get("target/*", target=targets.ALL, timeout=TIMEOUT_SECONDS)) == both
            assert ("target/whole", b"") in replies(actor.session.get("target/*", timeout=TIMEOUT_SECONDS))


def test_reply_on_any_key_is_delivered_only_if_accepted(acting: tuple[Side, Side]) -> None:
    actor, watcher = acting
    accepted: list[str] = []

    def on_query(query: Found) -> None:
        accepted.append(str(query.accepts_replies()))
        with contextlib.suppress(watcher.api.ZError):
            query.reply("elsewhere", b"")

    with queryable_on(acting, "here", on_query):
        any_key = actor.api.ReplyKeyExpr.ANY
        assert replies(actor.session.get("here", timeout=TIMEOUT_SECONDS)) == []
        found = actor.session.get("here", accept_replies=any_key, timeout=TIMEOUT_SECONDS)
        assert replies(found) == [("elsewhere", b"")]
        assert accepted == ["ReplyKeyExpr.MATCHING_QUERY", "ReplyKeyExpr.ANY"]


def test_silent_queryable_gives_a_timeout_error(acting: tuple[Side, Side]) -> None:
    actor, _ = acting
    held: list[Any] = []
    with queryable_on(acting, "slow", held.append):
        assert replies(actor.session.get("slow", timeout=0.2))[-1] == ("error", b"Timeout")
        assert len(held) == 1
        held.pop().drop()


def test_raising_queryable_finishes_the_query(sides: tuple[Side, Side], caplog: pytest.LogCaptureFixture) -> None:
    ours, theirs = sides

    def on_query(query: Found) -> None:
        query.reply("raise", b"first")
        raise RuntimeError("on purpose")

    with queryable_on((theirs, ours), "raise", on_query):
        started = time.monotonic()
        assert replies(theirs.session.get("raise", timeout=TIMEOUT_SECONDS)) == [("raise", b"first")]
        assert time.monotonic() - started < TIMEOUT_SECONDS / 2


def test_query_without_queryable_ends_without_replies(acting: tuple[Side, Side]) -> None:
    started = time.monotonic()
    assert list(acting[0].session.get("nobody/at/all", timeout=TIMEOUT_SECONDS)) == []
    assert time.monotonic() - started < TIMEOUT_SECONDS / 2


def test_querier_gets_replies_and_matching_status(acting: tuple[Side, Side]) -> None:
    actor, _ = acting
    with (
        queryable_on(acting, "querier", lambda query: query.reply("querier", str(query.parameters))),
        actor.session.declare_querier("querier", timeout=TIMEOUT_SECONDS) as querier,
    ):
        listener: list[Any] = []
        querier.declare_matching_listener(listener.append)
        until(lambda: listener)
        assert listener[0].matching
        assert replies(querier.get(parameters="a=1")) == [("querier", b"a=1")]
        assert replies(querier.get()) == [("querier", b"")]


def test_large_reply_is_delivered(acting: tuple[Side, Side]) -> None:
    actor, _ = acting
    payload = os.urandom(1000) * 10_000
    with queryable_on(acting, "large", lambda query: query.reply("large", payload)):
        (reply,) = actor.session.get("large", timeout=TIMEOUT_SECONDS)
        assert reply.ok.payload.to_bytes() == payload


# --- liveliness -----------------------------------------------------------------------------------


def test_liveliness_subscribers_receive_tokens_and_history(acting: tuple[Side, Side]) -> None:
    actor, watcher = acting
    first = actor.session.liveliness().declare_token("live/first")
    old: list[Any] = []
    new: list[Any] = []
    liveliness = watcher.session.liveliness()
    with liveliness.declare_subscriber("live/**", old.append, history=True):
        until(lambda: old)
        with liveliness.declare_subscriber("live/**", new.append):
            second = actor.session.liveliness().declare_token("live/second")
            until(lambda: len(old) == 2 and new)
            second.undeclare()
            first.undeclare()
            until(lambda: len(old) == 4 and len(new) == 3)
    story = [
        ("live/first", "SampleKind.PUT"),
        ("live/second", "SampleKind.PUT"),
        ("live/second", "SampleKind.DELETE"),
        ("live/first", "SampleKind.DELETE"),
    ]
    assert [(str(sample.key_expr), str(sample.kind)) for sample in old] == story
    assert [(str(sample.key_expr), str(sample.kind)) for sample in new] == story[1:]


def test_liveliness_get_returns_matching_tokens(acting: tuple[Side, Side]) -> None:
    """Queries again if necessary: a loaded eclipse-zenoh client can end such a query before its replies are there."""
    actor, watcher = acting
    get_tokens = watcher.session.liveliness().get
    with actor.session.liveliness().declare_token("live/first"):
        until(lambda: replies(get_tokens("live/**")) == [("live/first", b"")])
        assert list(get_tokens("dead/**")) == []
    until(lambda: not list(get_tokens("live/**")))


def test_a_killed_process_loses_its_tokens() -> None:
    where = [f"tcp/127.0.0.1:{free_port()}"]
    token = 'token = session.liveliness().declare_token("live/doomed")'
    with start(zenspark, "router", listen=where) as router, start(zenspark, "client", connect=where) as client:
        announced: list[Any] = []
        client.liveliness().declare_subscriber("live/*", announced.append, history=True)
        with process("client", connect=where, more=token) as node:
            until(lambda: announced)
            node.kill()
            until(lambda: len(announced) == 2)
            assert [str(sample.kind) for sample in announced] == ["SampleKind.PUT", "SampleKind.DELETE"]
        assert list(router.liveliness().get("live/*")) == []


# --- matching -------------------------------------------------------------------------------------


def test_matching_status_follows_subscribers(acting: tuple[Side, Side]) -> None:
    actor, watcher = acting
    announced: list[Any] = []
    with actor.session.declare_publisher("match/a") as publisher:
        publisher.declare_matching_listener(announced.append)
        assert not publisher.matching_status.matching
        with watcher.session.declare_subscriber("match/**"):
            until(lambda: publisher.matching_status.matching and announced)
        until(lambda: not publisher.matching_status.matching and len(announced) == 2)
    assert [status.matching for status in announced] == [True, False]


# --- reconnecting ---------------------------------------------------------------------------------


def test_client_redeclares_after_router_restart() -> None:
    where = [f"tcp/127.0.0.1:{free_port()}"]
    with contextlib.ExitStack() as stack:
        router = stack.enter_context(process("router", listen=where))
        ours = stack.enter_context(start(zenspark, "client", connect=where))
        found: list[Any] = []
        announced: list[Any] = []
        events = ours.info.declare_transport_events_listener(history=True)
        ours.declare_subscriber("down/*", found.append)
        ours.declare_queryable("q", lambda query: query.reply("q", b"yes"))
        ours.liveliness().declare_subscriber("live/*", announced.append)
        token = stack.enter_context(ours.liveliness().declare_token("live/ours"))
        publisher = stack.enter_context(ours.declare_publisher("up/a"))
        for _ in range(2):
            until(lambda: ours.info.routers_zid())
            theirs = start(zenoh, "client", connect=where)
            up: list[Any] = []
            theirs.declare_subscriber("up/*", up.append)
            until(lambda: publisher.matching_status)
            publisher.put(b"again")
            until(lambda: up)  # noqa: B023 - called at once
            found.clear()
            until(lambda: (theirs.put("down/a", b"back"), found)[1])  # noqa: B023 - called at once
            assert replies(theirs.get("q", timeout=TIMEOUT_SECONDS)) == [("q", b"yes")]
            until(lambda: replies(theirs.liveliness().get("live/*")) == [("live/ours", b"")])  # noqa: B023
            token_there = theirs.liveliness().declare_token("live/theirs")
            until(lambda: [sample for sample in announced if str(sample.key_expr) == "live/theirs"])
            announced.clear()
            token_there.undeclare()
            theirs.close()
            router.kill()
            router.wait()
            until(lambda: not ours.info.transports())
            assert not publisher.matching_status
            publisher.put(b"to nobody")
            router = stack.enter_context(process("router", listen=where))
        kinds = [str(events.try_recv().kind) for _ in range(4)]
        assert kinds == ["SampleKind.PUT", "SampleKind.DELETE"] * 2
        assert token.id.zid == ours.zid()


# --- much -----------------------------------------------------------------------------------------


def grown(work: Callable[[], object]) -> int:
    """By how many bytes this process grew while it worked."""
    gc.collect()
    before = psutil.Process().memory_info().rss
    work()
    gc.collect()
    return int(psutil.Process().memory_info().rss - before)


def test_a_hundred_thousand_puts_arrive_in_order() -> None:
    where = [f"tcp/127.0.0.1:{free_port()}"]
    priorities = [zenspark.Priority.REAL_TIME, zenspark.Priority.DATA, zenspark.Priority.BACKGROUND]
    count = 100_000
    with (
        process("router", listen=where),
        start(zenspark, "client", connect=where) as sender,
        start(zenspark, "client", connect=where) as receiver,
    ):
        last = dict.fromkeys(priorities, -1)
        done = threading.Event()
        seen = [0]
        wrong: list[int] = []

        def check(sample: Found) -> None:
            number = int.from_bytes(sample.payload.to_bytes()[:4], "big")
            if number <= last[sample.priority]:
                wrong.append(number)
            last[sample.priority] = number
            seen[0] += 1
            if seen[0] == count:
                done.set()

        receiver.declare_subscriber("much", check)
        block = zenspark.CongestionControl.BLOCK
        publishers = [sender.declare_publisher("much", priority=one, congestion_control=block) for one in priorities]
        until(lambda: all(publisher.matching_status for publisher in publishers))

        def publish() -> None:
            for number in range(count):
                publishers[number % 3].put(number.to_bytes(4, "big") + b"x" * 60)
            assert done.wait(2 * TIMEOUT_SECONDS)

        growth = grown(publish)
        assert wrong == []
        assert seen == [count]
        assert growth < 64 << 20


def test_thousand_queries_with_large_replies_do_not_grow_memory() -> None:
    where = [f"tcp/127.0.0.1:{free_port()}"]
    queryable = (
        "payload = bytes(128 << 10)\n"
        'queryable = session.declare_queryable("its", lambda query: query.reply("its", payload))'
    )
    with (
        process("router", listen=where, more=queryable),
        start(zenspark, "client", connect=where) as ours,
        start(zenspark, "client", connect=where) as other,
    ):
        payload = os.urandom(128 << 10)
        other.declare_queryable("ours", lambda query: query.reply("ours", payload))
        with ours.declare_querier("ours") as querier:
            until(lambda: querier.matching_status)

        def get_repeatedly(count: int) -> None:
            for number in range(count):
                (reply,) = ours.get("its" if number % 2 else "ours", timeout=TIMEOUT_SECONDS)
                assert len(reply.ok.payload) == 128 << 10

        get_repeatedly(100)
        assert grown(lambda: get_repeatedly(1000)) < 32 << 20
