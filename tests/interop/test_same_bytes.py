"""The same bytes, sent to a node of zenspark and to one of eclipse-zenoh 1.10.2."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import zenspark
from tests.hostile.raw import RawPeer
from tests.interop.reference import ours, unused
from tests.optional import some
from tests.wait import until
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    DeclareQueryable,
    Err,
    Interest,
    Push,
    Put,
    Query,
    Reply,
    Request,
    Response,
    ResponseFinal,
)
from zenspark.wire.values import Encoding, Extension, InterestMode, QoS, QueryBody, WireExpr

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

SECONDS = 10.0
"""How long a query may take; none of these should need it."""


def theirs(**config: object) -> object:
    made = zenoh.Config()
    for name, value in {"scouting__multicast__enabled": False, **config}.items():
        made.insert_json5(name.replace("__", "/"), json.dumps(value))
    return made


PACKAGES: dict[str, tuple[Any, Callable[..., object]]] = {"zenspark": (zenspark, ours), "eclipse": (zenoh, theirs)}


@contextlib.contextmanager
def session(package: str, **config: object) -> Iterator[zenspark.Session]:
    """A session of either package; both have the same API."""
    module, settings = PACKAGES[package]
    with module.open(settings(**config)) as opened:
        yield opened


@contextlib.contextmanager
def querier_and_locator(querier_package: str, way: str, **config: object) -> Iterator[tuple[zenspark.Session, str]]:
    """A session that queries, and where a queryable reaches it: directly, or through a router of either package."""
    locator = unused()
    if way == "direct":
        with session(querier_package, mode="peer", listen__endpoints=[locator], **config) as opened:
            yield opened, locator
        return
    with (
        session(way, mode="router", listen__endpoints=[locator]),
        session(querier_package, mode="client", connect__endpoints=[locator], **config) as opened,
    ):
        yield opened, locator


@contextlib.contextmanager
def raw_queryable(locator: str, key: str, on_request: Callable[[RawPeer, Request], None]) -> Iterator[RawPeer]:
    """A queryable by hand that replies to the first request."""
    with RawPeer(locator) as peer:
        assert peer.send(Declare(body=DeclareQueryable(id=1, wire_expr=WireExpr(0, key))))

        def serve() -> None:
            until(lambda: peer.read(0.05) and any(isinstance(each, Request) for each in peer.received))
            on_request(peer, next(each for each in peer.received if isinstance(each, Request)))

        thread = threading.Thread(target=serve)
        thread.start()
        yield peer
        thread.join()


def get_payloads(session: zenspark.Session, key: str) -> list[str]:
    """The payloads of all replies to one query, when the queryable is known."""
    querier = session.declare_querier(key, timeout=SECONDS)
    until(lambda: querier.matching_status.matching)
    replies = list(querier.get())
    querier.undeclare()
    return [
        reply.ok.payload.to_string() if reply.ok else f"error {some(reply.err).payload.to_string()}"
        for reply in replies
    ]


@pytest.mark.parametrize("way", ["direct", "zenspark", "eclipse"])
@pytest.mark.parametrize("querier_package", ["zenspark", "eclipse"])
@pytest.mark.parametrize("key", ["q//x", ""])
def test_only_the_reply_on_an_invalid_key_is_dropped(querier_package: str, way: str, key: str) -> None:
    def on_request(peer: RawPeer, request: Request) -> None:
        number = request.request_id
        for name in (key, "q/good"):
            expr, body = WireExpr(0, name), Reply(body=Put(payload=(name or "empty").encode()))
            assert peer.send(Response(request_id=number, wire_expr=expr, qos=request.qos, body=body))
        assert peer.send(ResponseFinal(request_id=number, qos=request.qos))

    with querier_and_locator(querier_package, way) as (querier, locator):
        links = len(querier.info.transports())
        with raw_queryable(locator, "q/**", on_request) as peer:
            assert get_payloads(querier, "q/**") == ["q/good"]
            assert peer.closed is None
            assert len(querier.info.transports()) == links + (way == "direct")


@pytest.mark.parametrize("way", ["direct", "zenspark", "eclipse"])
@pytest.mark.parametrize("querier_package", PACKAGES)
@pytest.mark.parametrize("key", ["", "ns/q"])
def test_a_session_in_a_namespace_receives_errors(querier_package: str, way: str, key: str) -> None:
    """Those of a router have an empty key, which is in no namespace: eclipse-zenoh drops them."""

    def on_request(peer: RawPeer, request: Request) -> None:
        number, body = request.request_id, Err(payload=b"broken")
        assert peer.send(Response(request_id=number, wire_expr=WireExpr(0, key), qos=request.qos, body=body))
        assert peer.send(ResponseFinal(request_id=number, qos=request.qos))

    with (
        querier_and_locator(querier_package, way, namespace="ns") as (querier, locator),
        raw_queryable(locator, "ns/q", on_request),
    ):
        is_received = bool(key) or querier_package == "zenspark"
        assert get_payloads(querier, "q") == ["error broken"] * is_received


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("way", PACKAGES)
def test_an_encoding_number_of_more_than_16_bits_is_delivered(package: str, way: str) -> None:
    """eclipse-zenoh keeps its lowest 16 bits; zenspark keeps all, also in what it forwards."""
    locator, samples = unused(), list[Any]()
    with (
        session(way, mode="router", listen__endpoints=[locator]),
        session(package, mode="client", connect__endpoints=[locator]) as client,
        RawPeer(locator) as peer,
    ):
        subscriber = client.declare_subscriber("k", samples.append)
        good = Push(wire_expr=WireExpr(0, "k"), body=Put(payload=b"good"))
        until(lambda: peer.send(good) and not peer.read(0.01) and samples)  # the router has got to know it
        for number in (70_000, 0x7FFF_FFFF):
            body = Put(encoding=Encoding(number, "s"), payload=b"large")
            assert peer.send(Push(wire_expr=WireExpr(0, "k"), body=body), good)
        until(lambda: [sample.payload.to_bytes() for sample in samples][-4:] == [b"large", b"good"] * 2)
        first, second = [str(sample.encoding) for sample in samples][-4::2]
        if "eclipse" in (package, way):
            assert (first, second) == ("unknown(4464);s", "s")
        else:
            assert (first, second) == ("unknown(70000);s", "unknown(2147483647);s")
        assert peer.closed is None
        subscriber.undeclare()


@contextlib.contextmanager
def router_with_raw_client(package: str) -> Iterator[tuple[RawPeer, zenspark.Session]]:
    """A client by hand of a router of either package, and a session of that router."""
    locator = unused()
    with session(package, mode="router", listen__endpoints=[locator]) as router, RawPeer(locator) as peer:
        yield peer, router


def read_until(peer: RawPeer, *wanted: type) -> list[object]:
    """What a peer by hand received until something of these types came, or the session ended."""
    until(lambda: not peer.read(0.05) and (peer.closed or any(isinstance(each, wanted) for each in peer.received)))
    return list(peer.received)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_request_in_shared_memory_ends(package: str) -> None:
    """eclipse-zenoh passes over the marker, which is not mandatory, and replies; zenspark sends an error."""
    with router_with_raw_client(package) as (peer, router):
        queryable = router.declare_queryable("q", lambda query: query.reply("q", "value"))
        body = Query(shm=True, body=QueryBody(Encoding(0), b"\x00"))
        assert peer.send(Request(request_id=5, wire_expr=WireExpr(0, "q"), body=body))
        response, final = read_until(peer, ResponseFinal)
        assert isinstance(response, Response)
        assert isinstance(response.body, Err if package == "zenspark" else Reply)
        assert final == ResponseFinal(request_id=5)
        assert peer.closed is None
        queryable.undeclare()


UNKNOWN = (Extension(0x1E),)
"""A mandatory extension that neither package knows."""


@pytest.mark.parametrize("package", PACKAGES)
def test_only_messages_with_an_unknown_mandatory_extension_are_rejected(package: str) -> None:
    """eclipse-zenoh closes the link instead (protocol section 21, row 34)."""
    with router_with_raw_client(package) as (peer, router):
        payloads: list[bytes] = []
        subscriber = router.declare_subscriber("k", lambda sample: payloads.append(sample.payload.to_bytes()))
        queryable = router.declare_queryable("k", lambda query: query.reply("k", "value"))
        key = WireExpr(0, "k")
        assert peer.send(
            Push(wire_expr=key, body=Put(payload=b"first")),
            Push(wire_expr=key, body=Put(payload=b"never", exts=UNKNOWN)),
            Declare(body=DeclareQueryable(id=1, wire_expr=WireExpr(0, "q"), exts=UNKNOWN)),
            Request(request_id=1, wire_expr=key, body=Query(exts=UNKNOWN)),
            Interest(id=1, mode=InterestMode.CURRENT, tokens=True, exts=UNKNOWN),
            Push(wire_expr=key, body=Put(payload=b"last")),
        )
        if package == "eclipse":
            assert peer.read_until_closed().by_peer
            assert payloads in ([], [b"first"])
        else:
            until(lambda: payloads == [b"first", b"last"])
            declared_final, error, final = read_until(peer, ResponseFinal)  # in the order of their priorities
            assert isinstance(error, Response)
            assert error.body == Err(payload=b"a mandatory extension is unknown here")
            assert final == ResponseFinal(request_id=1)
            assert declared_final == Declare(interest_id=1, qos=QoS.DECLARE, body=DeclareFinal())
            assert [counters.lost for counters in router.info.link_counters()] == [{"unknown_extension": 4}]
            assert peer.closed is None
        subscriber.undeclare()
        queryable.undeclare()


@pytest.mark.parametrize("way", ["direct", "zenspark", "eclipse"])
@pytest.mark.parametrize("querier_package", PACKAGES)
def test_replies_with_a_qos_of_their_own_arrive(querier_package: str, way: str) -> None:
    """eclipse-zenoh's routers and queriers treat every reply like its query."""
    locator = unused()
    qos = {"priority": zenspark.Priority.BACKGROUND, "express": True}

    def on_query(query: Any) -> None:  # noqa: ANN401 - of either package
        with query:
            query.reply("q/1", "own", congestion_control=zenspark.CongestionControl.BLOCK, **qos)
            query.reply("q/2", "default")
            query.reply_del("q/3", priority=zenspark.Priority.REAL_TIME)
            query.reply("q/4", "droppable", congestion_control=zenspark.CongestionControl.DROP)

    client = {"mode": "client", "connect__endpoints": [locator]}
    with contextlib.ExitStack() as stack:
        package = "zenspark" if way == "direct" else way
        router = stack.enter_context(session(package, mode="router", listen__endpoints=[locator]))
        queryables = router if way == "direct" else stack.enter_context(session("zenspark", **client))
        queriers = stack.enter_context(session(querier_package, **client))
        queryable = queryables.declare_queryable("q/*", on_query)
        querier = queriers.declare_querier("q/*", timeout=SECONDS)
        until(lambda: querier.matching_status.matching)
        samples = {str(reply.ok.key_expr): reply.ok for reply in querier.get() if reply.ok is not None}
        assert set(samples) == {"q/1", "q/2", "q/3", "q/4"}
        if "eclipse" not in (querier_package, way):
            treated = {
                key: (sample.priority.name, sample.express, sample.congestion_control.name)
                for key, sample in samples.items()
            }
            assert treated == {
                "q/1": ("BACKGROUND", True, "BLOCK"),
                "q/2": ("DATA", False, "BLOCK"),
                "q/3": ("REAL_TIME", False, "BLOCK"),
                "q/4": ("DATA", False, "DROP"),
            }
        queryable.undeclare()
        querier.undeclare()
