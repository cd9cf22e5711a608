"""Event streams: one subscriber for all of a key, and clients that do not read are dropped, never waited for."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tests.unit.api.sessions import connected
from tests.unit.web.served import context_of, dial, opened, serving
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.types.enums import CongestionControl
from zenspark.web import limits
from zenspark.web.events import MAX_WRITE_BYTES, join_events
from zenspark.web.server import HttpServer

REQUEST = b"GET /demo/** HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with opened() as made:
        yield made


@pytest.fixture
def server(session: Session) -> Iterator[HttpServer]:
    with serving(session) as made:
        yield made


def stream(server: HttpServer, receive_buffer: int | None = None) -> socket.socket:
    """A client of events; the response has begun when this returns."""
    client = socket.socket()
    client.settimeout(TIMEOUT_SECONDS)
    if receive_buffer is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    client.connect(server.address)
    client.sendall(REQUEST)
    assert client.recv(15).startswith(b"HTTP/1.1 200")
    return client


def test_streams_of_a_key_share_a_subscriber(session: Session, server: HttpServer) -> None:
    clients = [stream(server) for _ in range(3)]
    assert len(context_of(server).hubs._hubs) == 1
    session.put("demo/a", json.dumps({"x": 1}), encoding="application/json")
    for client in clients:
        received = b""
        while b"\n\n" not in received.partition(b"event:")[2]:
            received += client.recv(4096)
        assert b'event: PUT\ndata: {"key":"demo/a","value":{"x":1},"encoding":"application/json"' in received
        client.close()
    assert until(lambda: not context_of(server).hubs._hubs)
    assert until(lambda: context_of(server).counts.event_streams == 0)


@pytest.mark.slow
def test_a_client_that_never_reads_is_dropped_and_no_publisher_waits(
    session: Session, server: HttpServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A publisher beside it, and one that may drop, lose nothing on the way to a subscriber that reads."""
    monkeypatch.setattr(limits, "MAX_STREAM_BYTES", 64 << 10)
    client = stream(server, 4096)
    with connected("client", session) as publisher, connected("client", session) as receiver:
        subscriber = receiver.declare_subscriber("demo/**")
        counts = context_of(server).counts
        sent = 0
        topic = publisher.declare_publisher("demo/a", congestion_control=CongestionControl.DROP)
        assert until(lambda: topic.matching_status.matching)
        while not counts.disconnected:
            topic.put(bytes(8192))
            assert subscriber.recv(TIMEOUT_SECONDS).payload.to_bytes() == bytes(8192)
            sent += 1
        assert counts.disconnected == {"slow_stream": 1}
        host, port = client.getsockname()
        slow = f"disconnected HTTP client {host}:{port}: slow consumer of an event stream; 1 in all"
        assert until(lambda: slow in caplog.messages)
        assert sum(publisher.info.link_counters()[0].dropped.values()) == 0
    client.close()
    assert until(lambda: counts.event_streams == 0)


@pytest.mark.slow
def test_many_clients_that_never_read_cost_little_memory(
    session: Session, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for clients is bounded, and forgotten when they are dropped."""
    monkeypatch.setattr(limits, "MAX_ALL_STREAM_BYTES", 8 << 20)
    clients = [stream(server, 4096) for _ in range(30)]
    counts = context_of(server).counts

    def put() -> bool:
        session.put("demo/a", bytes(64 << 10))
        return counts.disconnected.get("slow_stream", 0) + counts.disconnected.get("stalled", 0) == len(clients)

    assert until(put)
    assert until(lambda: counts.event_streams == 0)
    assert counts.stream_bytes == 0
    for client in clients:
        client.close()


def test_all_clients_are_disconnected_when_the_server_is_overloaded(
    session: Session, server: HttpServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no fault of the clients: the reason is another one than that of a slow client."""
    clients = [stream(server) for _ in range(2)]
    counts = context_of(server).counts
    (hub,) = context_of(server).hubs._hubs.values()
    monkeypatch.setattr(hub._queue, "take", lambda: ([], 7))
    session.put("demo/a", b"1")
    assert until(lambda: counts.event_streams == 0)
    assert counts.disconnected == {"server_overload": 2}
    assert caplog.messages == [
        "disconnected 2 HTTP clients of event streams on demo/**: this server is overloaded, dropped 7 events"
    ]
    for client in clients:
        client.close()


def test_a_burst_reaches_a_client_that_reads(session: Session, server: HttpServer) -> None:
    """More at once than may wait for long is no reason to drop a client."""
    with stream(server) as client:
        for _ in range(8):
            session.put("demo/a", bytes(limits.MAX_STREAM_BYTES // 2))
        events = 0
        while events < 8:
            events += client.recv(1 << 16).count(b"event: PUT")
    assert context_of(server).counts.disconnected == {}


def test_events_are_joined_to_parts() -> None:
    small, large = b"x" * 100, b"x" * (MAX_WRITE_BYTES + 1)
    joined = join_events([small, small, large, small])
    assert [(len(data), events) for data, events in joined] == [(200, 2), (len(large), 1), (100, 1)]
    assert join_events([]) == []


def test_event_stream_over_the_limit_is_status_503(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_STREAMS", 1)
    with stream(server), dial(server) as other:
        other.sendall(REQUEST)
        reply = other.recv(1 << 16)
        assert reply.startswith(b"HTTP/1.1 503 ")
        assert b"there are 1 event streams and WebSockets already" in reply + other.recv(1 << 16)
    assert context_of(server).counts.refused == {"streams": 1}


def test_a_stream_ends_with_its_session() -> None:
    with opened() as session, serving(session) as server:
        client = stream(server)
        session.close()
        while client.recv(4096):
            pass
        client.close()
