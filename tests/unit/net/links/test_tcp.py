import contextlib
import socket

import pytest

from tests.unit.net.ends import accept, connect, connected_links, listen, meanwhile, readable, receive, send
from zenspark.errors import LinkError
from zenspark.net.links.base import WOULD_BLOCK
from zenspark.net.links.interfaces import interface_names_with
from zenspark.net.links.tcp import TcpLink, mtu_of

needs_ipv6 = pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", pytest.param("[::1]", marks=needs_ipv6)])
def test_both_ends_are_named_as_zenohd_names_them(address: str) -> None:
    with connected_links(f"tcp/{address}:0") as (left, right):
        assert (left.src, left.dst) == (right.dst, right.src)
        assert left.src.startswith("tcp/" if address == "localhost" else f"tcp/{address}:")
        assert left.is_streamed
        assert left.is_reliable
        assert left.auth_identifier is None
        assert left.interfaces == right.interfaces == interface_names_with("127.0.0.1")


def test_metadata_is_part_of_both_ends() -> None:
    with connected_links("tcp/127.0.0.1:0?rel=1;prio=1-5", "?rel=0") as (left, right):
        assert left.src.endswith("?rel=0")
        assert left.dst.endswith("?rel=0")
        assert left.endpoint.reliable is False
        assert right.src.endswith("?prio=1-5;rel=1")


@needs_ipv6
def test_the_wildcard_serves_both_families() -> None:
    with contextlib.closing(listen("tcp/[::]:0")) as listener:
        for host, seen in (("127.0.0.1", "tcp/[::ffff:127.0.0.1]:"), ("[::1]", "tcp/[::1]:")):
            with contextlib.closing(connect(listener, host=host)), contextlib.closing(accept(listener)) as right:
                assert right.src.startswith(seen)
                assert right.interfaces == interface_names_with("127.0.0.1")


def test_listener_locator_has_the_bound_port() -> None:
    with contextlib.closing(listen("tcp/127.0.0.1:0?rel=1#so_rcvbuf=65536")) as listener:
        port = listener.locator.address.rpartition(":")[2]
        assert int(port) > 0
        assert listener.locator.text == f"tcp/127.0.0.1:{port}?rel=1"
        assert listener.locators(loopback=False) == (listener.locator,)
        assert listener.accept() is None


def test_data_arrives_in_both_directions_at_once() -> None:
    out, back = bytes(range(256)) * 10_000, b"back" * 500_000
    with (
        connected_links("tcp/127.0.0.1:0") as (left, right),
        meanwhile(lambda: send(left, out)),
        meanwhile(lambda: send(right, back)),
        meanwhile(lambda: receive(left, len(back))) as received,
    ):
        assert receive(right, len(out)) == out
        assert received() == back


def test_close_by_the_peer_is_the_end_of_the_stream() -> None:
    with connected_links("tcp/127.0.0.1:0") as (left, right):
        left.close()
        assert readable(right)
        assert right.recv_into(memoryview(bytearray(1))) == 0


def test_connection_reset_by_the_peer_raises_link_error() -> None:
    with contextlib.closing(listen("tcp/127.0.0.1:0")) as listener:
        host, port = listener.locator.address.split(":")
        raw = socket.create_connection((host, int(port)))
        with contextlib.closing(accept(listener)) as link:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            raw.close()
            assert readable(link)
            with pytest.raises(LinkError, match="Connection reset") as failed:
                link.recv_into(memoryview(bytearray(1)))
            assert isinstance(failed.value.__cause__, ConnectionResetError)


def test_links_outlive_their_listener() -> None:
    listener = listen("tcp/127.0.0.1:0")
    with contextlib.closing(connect(listener)) as left, contextlib.closing(accept(listener)) as right:
        listener.close()
        listener.close()
        send(left, b"hello")
        assert receive(right, 5) == b"hello"
        assert right.recv_into(memoryview(bytearray(1))) == WOULD_BLOCK


class Segments(socket.socket):
    """A socket with a maximum segment size of the test's choice."""

    size = 0

    def getsockopt(self, *_: object) -> int:  # type: ignore[override]
        return self.size


@pytest.mark.parametrize(
    ("size", "mtu"),
    [(32741, 65480), (32732, 65464), (32768, 49152), (1448, 65160), (0, 65535), (1, 65535), (200_000, 65535)],
)
def test_tcp_mtu_is_a_multiple_of_half_a_segment(size: int, mtu: int) -> None:
    with Segments() as connection:
        connection.size = size
        assert mtu_of(connection) == mtu  # the first three as eclipse-zenoh showed them


def test_tcp_nodelay_is_set() -> None:
    with connected_links("tcp/127.0.0.1:0") as (left, _):
        assert isinstance(left, TcpLink)
        assert left._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
