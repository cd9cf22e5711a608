"""A neighbour that never reads: whatever is sent to it, a router's memory stays bounded and others are served."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from tests.hostile.raw import RawPeer
from tests.hostile.routers import MIB, RouterProcess, router
from tests.unit.api.sessions import address, connected, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.transport.connection import ConnectionState
from zenspark.wire.messages import (
    Declare,
    DeclareQueryable,
    DeclareToken,
    Interest,
    NetworkMessage,
    Put,
    Query,
    Reply,
    Request,
    Response,
    ResponseFinal,
    UndeclareToken,
)
from zenspark.wire.values import Encoding, InterestMode, QueryableInfo, QueryBody, QueryTarget, WireExpr

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

WAIT_SECONDS = 1.0
"""How long a link may take nothing before its neighbour is given up, in these tests."""
FLOOD_BYTES = 160 * MIB
"""What an attacker sends at most, or has sent."""
MAX_GROWTH_MIB = 64
"""What the memory of a router may grow by, whatever is sent to a neighbour that never reads."""
KEY = WireExpr(0, "attack/key")
COMPLETE = QueryableInfo(complete=True)


@contextlib.contextmanager
def attacked() -> Iterator[RouterProcess]:
    """A router, an honest client of eclipse-zenoh that is served all along, and the growth of memory at the end."""
    wait = f"{WAIT_SECONDS * 1e6:.0f}"
    with (
        router(transport__link__tx__queue__congestion_control__block__wait_before_close=wait) as target,
        honest(target.locator) as querier,
        honest(target.locator) as responder,
    ):
        queryable = responder.declare_queryable("honest", lambda query: query.reply("honest", "served"))
        until(lambda: is_served(querier))
        yield target
        assert is_served(querier)
        queryable.undeclare()


@contextlib.contextmanager
def honest(locator: str) -> Iterator[Any]:
    config = zenoh.Config()
    settings = {"mode": "client", "connect/endpoints": [locator], "scouting/multicast/enabled": False}
    for key, value in {**settings, "transport/shared_memory/enabled": False}.items():
        config.insert_json5(key, json.dumps(value))
    with zenoh.open(config) as session:
        yield session


def is_served(session: Any) -> bool:  # noqa: ANN401 - of eclipse-zenoh
    return [reply.ok.payload.to_string() for reply in session.get("honest", timeout=TIMEOUT_SECONDS) if reply.ok] == [
        "served"
    ]


Chunk = Callable[[], tuple[list[NetworkMessage], int]]
"""Makes the next messages of an attack; with how many bytes they are about."""


def assert_backlog_is_bounded(target: RouterProcess, deaf: RawPeer, source: RawPeer, chunk: Chunk) -> None:
    """Flood a neighbour that does not read: memory does not grow much, and the neighbour is given up."""
    sent, growth, deadline = 0, 0.0, time.monotonic() + 4 * TIMEOUT_SECONDS
    while not (end := ended(target, deaf)):
        assert time.monotonic() < deadline, f"not given up after {sent / MIB:.0f} MiB"
        if source.send(timeout=0.1) and sent < FLOOD_BYTES:
            messages, size = chunk()
            source.send(*messages, timeout=0.1)
            sent += size
        growth = max(growth, target.growth)
        assert growth < MAX_GROWTH_MIB
    print(f"sent {sent / MIB:.1f} MiB, memory grew by {growth:.1f} MiB; {end}")
    assert "WARN" in end
    assert "slow consumer: " in end


def ended(target: RouterProcess, peer: RawPeer) -> str:
    """What the router has logged about the end of a link, once."""
    port = peer.socket.getsockname()[1]
    lines = [line for line in target.log.splitlines() if f"(tcp/127.0.0.1:{port}) closed: " in line]
    assert len(lines) < 2
    return "".join(lines)


def has_request(peer: RawPeer) -> bool:
    return peer.read(0.02) and any(isinstance(message, Request) for message in peer.received)


def test_replies_to_a_querier_that_never_reads_are_bounded() -> None:
    with attacked() as target, RawPeer(target.locator) as deaf, RawPeer(target.locator) as responder:
        assert responder.send(Declare(body=DeclareQueryable(id=1, wire_expr=KEY, info=COMPLETE)))
        numbers, body = count(1), Reply(body=Put(payload=bytes(20_000)))
        until(
            lambda: deaf.send(Request(request_id=next(numbers), wire_expr=KEY, body=Query())) and has_request(responder)
        )

        def chunk() -> tuple[list[NetworkMessage], int]:
            deaf.send(*(Request(request_id=next(numbers), wire_expr=KEY, body=Query()) for _ in range(20)), timeout=0.1)
            responder.read(0.05)
            replies: list[NetworkMessage] = []
            for request in [one for one in responder.received if isinstance(one, Request)]:
                replies += [Response(request_id=request.request_id, wire_expr=KEY, body=body)] * 10
                replies.append(ResponseFinal(request_id=request.request_id))
            responder.received.clear()
            return replies, 20_000 * len(replies)

        assert_backlog_is_bounded(target, deaf, responder, chunk)


def test_requests_to_a_queryable_that_never_reads_are_bounded() -> None:
    with attacked() as target, RawPeer(target.locator) as deaf, RawPeer(target.locator) as querier:
        assert deaf.send(Declare(body=DeclareQueryable(id=1, wire_expr=KEY, info=COMPLETE)))
        numbers, question = count(1), Query(body=QueryBody(Encoding.BYTES, bytes(30_000)))
        until(
            lambda: querier.send(Request(request_id=next(numbers), wire_expr=KEY, body=question)) and has_request(deaf)
        )

        def chunk() -> tuple[list[NetworkMessage], int]:
            return [Request(request_id=next(numbers), wire_expr=KEY, body=question) for _ in range(10)], 300_000

        assert_backlog_is_bounded(target, deaf, querier, chunk)


TOKENS = 3_000


def tokens() -> list[NetworkMessage]:
    """Declarations with long keys, about 3 MB in all."""
    names = [WireExpr(0, f"attack/{number}/{'k' * 1000}") for number in range(TOKENS)]
    return [Declare(body=DeclareToken(id=number, wire_expr=name)) for number, name in enumerate(names, 1)]


def settle(declarer: RawPeer) -> None:
    """Wait until the router has read what a neighbour has sent before: it replies in order."""
    assert declarer.send(Interest(id=1, mode=InterestMode.CURRENT, tokens=True, wire_expr=WireExpr(0, "nothing")))
    until(lambda: declarer.read(0.02) and any(map(is_final, declarer.received)))


@pytest.mark.parametrize("mode", [InterestMode.CURRENT, InterestMode.CURRENT_FUTURE])
def test_declarations_for_interests_of_a_peer_that_never_reads_are_bounded(
    mode: InterestMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reply is small, as keys have ids by then: here a link is backlogged sooner than it would be."""
    monkeypatch.setattr("zenspark.net.io.writer.BACKLOG_HIGH_WATER_BYTES", 100_000)
    wait = "transport__link__tx__queue__congestion_control__block__wait_before_close"
    with (
        listening("router", **{wait: int(WAIT_SECONDS * 1e6)}) as session,
        RawPeer(address(session)) as declarer,
        RawPeer(address(session), receive_buffer=4096) as deaf,
    ):
        node = session._runtime.node
        assert declarer.send(*tokens())
        settle(declarer)
        (driver,) = [each for face, each in node.drivers.items() if face.zid == deaf.zid]
        driver.link._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # type: ignore[attr-defined]
        numbers, most = count(1), 0
        while any(face.zid == deaf.zid for face in node.drivers):
            interest = Interest(id=next(numbers) % 100, mode=mode, tokens=True, wire_expr=WireExpr(0, "attack/**"))
            deaf.send(interest, timeout=0.01)
            most = max(most, driver.backlog)
        assert most < 500_000
        assert driver.connection.state is ConnectionState.CLOSED


def test_declarations_to_a_peer_that_never_reads_are_bounded() -> None:
    with attacked() as target, RawPeer(target.locator) as deaf, RawPeer(target.locator) as declarer:
        everything = WireExpr(0, "attack/**")
        assert deaf.send(Interest(id=1, mode=InterestMode.CURRENT_FUTURE, tokens=True, wire_expr=everything))
        until(lambda: deaf.read(0.02))
        numbers = count(1)

        def chunk() -> tuple[list[NetworkMessage], int]:
            made: list[NetworkMessage] = []
            for number in (next(numbers) for _ in range(100)):
                name = WireExpr(0, f"attack/{number}/{'k' * 4000}")
                made += [Declare(body=DeclareToken(id=1, wire_expr=name)), Declare(body=UndeclareToken(id=1))]
            return made, 400_000

        assert_backlog_is_bounded(target, deaf, declarer, chunk)


def test_admin_space_replies_to_a_querier_that_never_reads_are_bounded() -> None:
    with attacked() as target, RawPeer(target.locator) as deaf:
        numbers, everything = count(1), WireExpr(0, "@/**")

        def chunk() -> tuple[list[NetworkMessage], int]:
            interests = [
                Request(request_id=next(numbers), wire_expr=everything, target=QueryTarget.ALL, body=Query())
                for _ in range(100)
            ]
            return list(interests), 100_000

        assert_backlog_is_bounded(target, deaf, deaf, chunk)


def test_slow_reader_gets_every_declaration_for_its_interests() -> None:
    """Answers in portions are complete, in order, and end with D_FINAL."""
    with (
        attacked() as target,
        RawPeer(target.locator) as declarer,
        RawPeer(target.locator, receive_buffer=4096) as slow,
    ):
        assert declarer.send(*tokens())
        settle(declarer)
        for number in (1, 2):
            interest = Interest(id=number, mode=InterestMode.CURRENT, tokens=True, wire_expr=WireExpr(0, "attack/**"))
            assert slow.send(interest)
        until(lambda: slow.read(0.02) and sum(is_final(message) for message in slow.received) == 2, 2 * TIMEOUT_SECONDS)
        declared = [one for one in slow.received if isinstance(one, Declare) and isinstance(one.body, DeclareToken)]
        assert len(declared) == 2 * TOKENS


def is_final(message: NetworkMessage) -> bool:
    return isinstance(message, Declare) and type(message.body).__name__ == "DeclareFinal"


QUERIES = 200


def query_each_other(one: Any, other: Any, payload: Any) -> None:  # noqa: ANN401 - of either package
    """Two sessions send large queries to each other at the same time, and send large replies in callbacks."""
    with ThreadPoolExecutor(2) as pool:
        served = [
            session.declare_queryable(key, lambda query, key=key: query.reply(key, payload))
            for session, key in ((one, "of/one"), (other, "of/other"))
        ]
        for session, key in ((one, "of/other"), (other, "of/one")):
            until(lambda: [reply.ok for reply in session.get(key, timeout=TIMEOUT_SECONDS)])  # noqa: B023

        def query_all(session: Any, key: str) -> int:  # noqa: ANN401 - of either package
            waiting = [session.get(key, payload=payload, timeout=4 * TIMEOUT_SECONDS) for _ in range(QUERIES)]
            return sum(reply.ok is not None for replies in waiting for reply in replies)

        queries = [pool.submit(query_all, one, "of/other"), pool.submit(query_all, other, "of/one")]
        assert [each.result(8 * TIMEOUT_SECONDS) for each in queries] == [QUERIES] * 2
        for queryable in served:
            queryable.undeclare()


def test_two_sessions_that_flood_each_other_are_both_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenspark.net.io.writer.BACKLOG_HIGH_WATER_BYTES", 100_000)
    with listening("router") as middle, connected("client", middle) as one, connected("client", middle) as other:
        query_each_other(one, other, bytes(200_000))
        assert len(middle.info.transports()) == 2


def test_two_sessions_of_eclipse_that_flood_each_other_are_both_served() -> None:
    with router() as middle, honest(middle.locator) as one, honest(middle.locator) as other:
        query_each_other(one, other, bytes(200_000))
        assert " closed: " not in middle.log
