import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
from websockets.client import ClientProtocol
from websockets.frames import CloseCode
from websockets.uri import parse_uri

from tests.unit.net.ends import accept, connected_links, fill, listen, meanwhile, readable, receive, send
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import LinkError
from zenspark.net.links import websocket
from zenspark.net.links.base import MAX_MTU, WOULD_BLOCK, Link, Listener
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.websocket import MAX_HANDSHAKE_BYTES

HANDSHAKE = 0.3
"""Seconds that a bad peer is given."""
REQUEST = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


class RawClient:
    """A WebSocket client that sends what a link would not send."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.protocol = ClientProtocol(parse_uri(f"ws://{listener.locator.address}/"))
        self.socket = raw_connection(listener)

    def open(self) -> Link:
        """The accepted link of this client."""
        self.protocol.send_request(self.protocol.connect())
        self.flush()
        link = accept(self.listener)
        self.read()
        return link

    def read(self) -> list[object]:
        self.protocol.receive_data(self.socket.recv(1 << 16))
        return list(self.protocol.events_received())

    def flush(self) -> None:
        for data in self.protocol.data_to_send():
            self.socket.sendall(data)

    def send(self, data: bytes, fin: bool = True) -> None:
        self.protocol.send_binary(data, fin)
        self.flush()


@pytest.fixture
def listener() -> Iterator[Listener]:
    with contextlib.closing(listen("ws/127.0.0.1:0")) as listener:
        yield listener


@pytest.fixture
def client(listener: Listener) -> Iterator[RawClient]:
    client = RawClient(listener)
    with client.socket:
        yield client


@pytest.fixture
def link(client: RawClient) -> Iterator[Link]:
    with contextlib.closing(client.open()) as link:
        yield link


def raw_connection(listener: Listener) -> socket.socket:
    host, port = listener.locator.address.split(":")
    return socket.create_connection((host, int(port)), TIMEOUT_SECONDS)


def accept_unestablished(listener: Listener) -> Link:
    assert readable(listener)
    link = listener.accept()
    assert link is not None
    return link


def test_batch_is_one_websocket_message() -> None:
    with connected_links("ws/127.0.0.1:0?rel=1", "?rel=1") as (left, right):
        assert (left.src, left.dst) == (right.dst, right.src)
        assert left.src.startswith("ws/127.0.0.1:")
        assert not left.is_streamed
        assert left.is_reliable
        assert left.is_established
        assert right.is_established
        assert left.mtu == right.mtu == MAX_MTU
        for batch in (b"one", b"two", bytes(MAX_MTU)):
            assert left.send(batch) == len(batch)
            assert receive(right) == batch
        right.send(b"back")
        assert receive(left) == b"back"


def test_has_buffered_reports_batches_received_together() -> None:
    with connected_links("ws/127.0.0.1:0") as (left, right):
        left.send(b"one")
        left.send(b"")
        left.send(memoryview(b"two"))
        found = [receive(right)]
        while len(found) < 2:
            if not right.has_buffered:
                assert readable(right)
            found.append(receive(right))
        assert found == [b"one", b"two"]
        assert not right.has_buffered
        assert right.recv_into(memoryview(bytearray(MAX_MTU))) == WOULD_BLOCK


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_bytes_arrive_over_ipv6() -> None:
    with connected_links("ws/[::1]:0") as (left, right):
        send(left, b"hello")
        assert receive(right) == b"hello"


def test_data_arrives_in_both_directions_at_once() -> None:
    batches = [bytes([number]) * 50_000 for number in range(100)]

    def send_all(link: Link) -> None:
        for batch in batches:
            send(link, batch)

    with (
        connected_links("ws/127.0.0.1:0") as (left, right),
        meanwhile(lambda: send_all(left)),
        meanwhile(lambda: send_all(right)),
        meanwhile(lambda: [receive(left) for _ in batches]) as received,
    ):
        assert [receive(right) for _ in batches] == batches
        assert received() == batches


def test_a_full_link_goes_on_with_the_same_batch() -> None:
    batch = bytes(range(250)) * 200
    with connected_links("ws/127.0.0.1:0") as (left, right):
        count = fill(left, batch) // len(batch)
        assert left.send(batch) == 0
        assert not left.wait_writable(0.0)
        with meanwhile(lambda: [receive(right) for _ in range(count + 1)]) as received:
            send(left, batch)
            assert received() == [batch] * (count + 1)


def test_a_batch_may_come_in_fragments(client: RawClient, link: Link) -> None:
    client.send(b"one ", fin=False)
    client.protocol.send_continuation(b"", fin=False)
    client.protocol.send_continuation(b"batch", fin=True)
    client.flush()
    assert receive(link) == b"one batch"


def test_pings_get_pongs(client: RawClient, link: Link) -> None:
    client.protocol.send_ping(b"there?")
    client.flush()
    client.send(b"batch")
    assert receive(link) == b"batch"
    (pong,) = client.read()
    assert "PONG" in str(pong)


def test_pings_wait_behind_a_batch_that_is_half_written(client: RawClient, link: Link) -> None:
    batch = bytes(60_000)
    written = fill(link, batch) // len(batch) + 1
    client.protocol.send_ping(b"there?")
    client.flush()
    while link.recv_into(memoryview(bytearray(MAX_MTU))) == WOULD_BLOCK and not readable(client.socket, 0.0):
        assert readable(link)
    frames: list[object] = []
    with meanwhile(lambda: send(link, batch)):
        while len(frames) < written + 1:
            frames += client.read()
    assert sum("PONG" in str(frame) for frame in frames) == 1
    assert "PONG" in str(frames[-1])


def test_close_by_the_peer_is_the_end_of_the_stream() -> None:
    with connected_links("ws/127.0.0.1:0") as (left, right):
        left.send(b"bye")
        left.close()
        left.close()
        assert receive(right) == b"bye"
        assert receive(right) == b""
        with pytest.raises(LinkError, match="closed"):
            left.send(b"x")
        with pytest.raises(LinkError, match="closed"):
            left.recv_into(memoryview(bytearray(MAX_MTU)))
        with pytest.raises(LinkError):
            send(right, b"too late")


def test_connection_reset_by_the_peer_raises_link_error(client: RawClient, link: Link) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.socket.close()
    with pytest.raises(LinkError, match="Connection reset"):
        receive(link)
    with pytest.raises(LinkError, match="Broken pipe"):
        link.send(b"x")


def test_disconnect_without_close_frame_is_the_end_of_the_stream(client: RawClient, link: Link) -> None:
    client.socket.close()
    assert receive(link) == b""
    assert receive(link) == b""


# -- bad peers in a session --------------------------------------------------------------------------------------


def test_an_oversized_batch_ends_the_link(client: RawClient, link: Link) -> None:
    client.send(b"fine")
    client.send(bytes(MAX_MTU + 1))
    assert receive(link) == b"fine"
    with pytest.raises(LinkError, match=r"WebSocket: .*65536 bytes"):
        receive(link)
    assert link.has_buffered
    with pytest.raises(LinkError, match="WebSocket"):
        link.send(b"x")


def test_fragments_larger_than_a_batch_in_total_end_the_link(client: RawClient, link: Link) -> None:
    client.send(bytes(40_000), fin=False)
    client.protocol.send_continuation(bytes(40_000), fin=True)
    client.flush()
    with pytest.raises(LinkError, match="WebSocket"):
        receive(link)


def test_text_ends_the_link(client: RawClient, link: Link) -> None:
    client.protocol.send_text(b"hello")
    client.flush()
    with pytest.raises(LinkError, match="text"):
        receive(link)


def test_garbage_ends_the_link(client: RawClient, link: Link) -> None:
    client.socket.sendall(b"\xff" * 100)
    with pytest.raises(LinkError, match="WebSocket: "):
        receive(link)


@pytest.mark.slow
def test_peer_that_pings_and_does_not_read_is_disconnected(client: RawClient, link: Link) -> None:
    fill(link, bytes(60_000))
    client.socket.setblocking(False)

    def take_pings() -> None:
        while True:
            with contextlib.suppress(BlockingIOError):
                client.protocol.send_ping(b"x" * 125)
                client.flush()
            assert link.recv_into(memoryview(bytearray(MAX_MTU))) == WOULD_BLOCK

    with pytest.raises(LinkError, match=r"does not read the pongs|WebSocket: "):
        take_pings()


def test_close_frame_is_reported_after_the_last_batch(client: RawClient, link: Link) -> None:
    client.protocol.send_binary(b"last")
    client.protocol.send_close(CloseCode.NORMAL_CLOSURE)
    client.socket.sendall(b"".join(client.protocol.data_to_send()))
    assert receive(link) == b"last"
    assert link.has_buffered
    assert link.recv_into(memoryview(bytearray(MAX_MTU))) == 0


def test_a_close_with_a_reason_is_the_end(client: RawClient, link: Link) -> None:
    client.protocol.send_close(CloseCode.GOING_AWAY)
    client.flush()
    assert receive(link) == b""


# -- bad peers in the handshake ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\n\r\n",
        REQUEST.replace(b"13", b"12") + b"\r\n",
        REQUEST + b"X: " + b"a" * 10_000 + b"\r\n\r\n",
    ],
    ids=["zeros", "plain", "post", "version", "long"],
)
def test_invalid_handshake_raises_link_error_for_that_link_only(listener: Listener, garbage: bytes) -> None:
    with raw_connection(listener) as raw:
        raw.sendall(garbage)
        with (
            contextlib.closing(accept_unestablished(listener)) as link,
            pytest.raises(LinkError, match="WebSocket handshake: "),
        ):
            link.establish(TIMEOUT_SECONDS)
    client = RawClient(listener)
    with client.socket, contextlib.closing(client.open()) as good:
        assert good.send(b"fine") == 4


def test_plain_http_request_gets_an_error_response(listener: Listener) -> None:
    with raw_connection(listener) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        with contextlib.closing(accept_unestablished(listener)) as link, pytest.raises(LinkError):
            link.establish(TIMEOUT_SECONDS)
        assert raw.recv(1 << 16).startswith(b"HTTP/1.1 426 Upgrade Required")


def test_oversized_handshake_headers_raise_link_error(listener: Listener) -> None:
    with raw_connection(listener) as raw:
        raw.sendall(REQUEST + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 1000) for n in range(100)))
        with (
            contextlib.closing(accept_unestablished(listener)) as link,
            pytest.raises(LinkError, match=f"more than {MAX_HANDSHAKE_BYTES}"),
        ):
            link.establish(TIMEOUT_SECONDS)


@pytest.mark.slow
def test_handshake_with_a_silent_peer_times_out(listener: Listener) -> None:
    with raw_connection(listener) as raw, contextlib.closing(accept_unestablished(listener)) as link:
        raw.sendall(REQUEST)
        started = time.monotonic()
        with pytest.raises(LinkError, match=r"no WebSocket handshake within 0.3 s"):
            link.establish(HANDSHAKE)
        assert time.monotonic() - started < TIMEOUT_SECONDS


def test_peer_that_disconnects_before_the_handshake_raises_link_error(listener: Listener) -> None:
    raw_connection(listener).close()
    with (
        contextlib.closing(accept_unestablished(listener)) as link,
        pytest.raises(LinkError, match="WebSocket handshake: "),
    ):
        link.establish(TIMEOUT_SECONDS)


def test_connect_to_a_listener_without_websocket_raises_link_error() -> None:
    with contextlib.closing(listen("tcp/127.0.0.1:0")) as listener:

        def accept_and_send() -> None:
            with contextlib.closing(accept(listener)) as link:
                receive(link)
                link.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        with meanwhile(accept_and_send), pytest.raises(LinkError, match="WebSocket handshake: "):
            websocket.connect(Endpoint.parse(f"ws/{listener.locator.address}"), TIMEOUT_SECONDS)
