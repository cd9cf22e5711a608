import contextlib
import errno
import socket
from collections.abc import Iterator

import pytest

from tests.unit.net.ends import accept, connect, connected_links, listen, meanwhile, readable, receive, send
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import LinkError
from zenspark.net.links import udp
from zenspark.net.links.base import WOULD_BLOCK, Link, Listener
from zenspark.net.links.interfaces import interface_names_with
from zenspark.net.links.sockets import MAX_DATAGRAMS_PER_READ
from zenspark.net.links.udp import UDP_MTU, UdpListener


@pytest.fixture
def listener() -> Iterator[Listener]:
    with contextlib.closing(listen("udp/127.0.0.1:0")) as listener:
        yield listener


@pytest.fixture
def raw(listener: Listener) -> Iterator[socket.socket]:
    """A socket that sends to the listener."""
    host, port = listener.locator.address.split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
        raw.connect((host, int(port)))
        yield raw


def accept_next(listener: Listener) -> Link | None:
    """Let the listener assign waiting datagrams to links; return a new link, if there is one."""
    assert readable(listener)
    return listener.accept()


@pytest.mark.parametrize(
    "address", ["127.0.0.1", pytest.param("[::1]", marks=pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6"))]
)
def test_both_ends_are_named_as_zenohd_names_them(address: str) -> None:
    with connected_links(f"udp/{address}:0?rel=0", "?rel=0") as (left, right):
        assert (left.src, left.dst) == (right.dst, right.src)
        assert left.src.startswith(f"udp/{address}:")
        assert left.src.endswith("?rel=0")
        assert left.mtu == right.mtu == 65487
        assert not left.is_streamed
        assert not right.is_reliable
        assert left.interfaces == right.interfaces == interface_names_with("127.0.0.1")
        assert right.send(b"back") == 4
        assert receive(left) == b"back"


def test_each_sender_is_a_link(listener: Listener) -> None:
    with contextlib.ExitStack() as stack:
        senders = [stack.enter_context(contextlib.closing(connect(listener))) for _ in range(3)]
        for number, sender in enumerate(senders):
            sender.send(b"hello %d" % number)
        links = [stack.enter_context(contextlib.closing(accept(listener))) for _ in senders]
        for number, sender in enumerate(senders):
            sender.send(b"again %d" % number)
        by_sender = {link.dst: link for link in links}
        for number, sender in enumerate(senders):
            link = by_sender[sender.src]
            assert receive(link) == b"hello %d" % number
            while link.recv_into(memoryview(bytearray(UDP_MTU))) == WOULD_BLOCK:
                assert accept_next(listener) is None
        assert listener.accept() is None


def test_descriptor_is_readable_while_datagrams_are_queued(listener: Listener, raw: socket.socket) -> None:
    buffer = memoryview(bytearray(UDP_MTU))
    raw.send(b"one")
    raw.send(b"two")
    with contextlib.closing(accept(listener)) as link:
        assert accept_next(listener) is None
        assert readable(link, 0)
        assert link.recv_into(buffer) == 3
        assert readable(link, 0)
        assert link.recv_into(buffer) == 3
        assert not readable(link, 0)
        assert link.recv_into(buffer) == WOULD_BLOCK
        raw.send(b"three")
        assert accept_next(listener) is None
        assert readable(link, 0)


def test_batch_of_the_udp_mtu_arrives() -> None:
    batch = bytes(range(251)) * 260 + bytes(227)
    assert len(batch) == UDP_MTU
    with connected_links("udp/127.0.0.1:0") as (left, right):
        right.send(batch)
        assert receive(left) == batch


def test_a_datagram_that_is_too_large_is_refused() -> None:
    with connected_links("udp/127.0.0.1:0") as (left, right):
        for link in (left, right):
            with pytest.raises(LinkError, match="Message too long"):
                link.send(bytes(65_508))


def test_empty_datagrams_are_ignored(listener: Listener, raw: socket.socket) -> None:
    raw.send(b"")
    assert accept_next(listener) is None
    raw.send(b"hello")
    with contextlib.closing(accept(listener)) as link:
        raw.send(b"")
        assert accept_next(listener) is None
        assert receive(link) == b"hello"
        assert link.recv_into(memoryview(bytearray(UDP_MTU))) == WOULD_BLOCK


def test_missing_listener_is_noticed_after_sending(listener: Listener) -> None:
    left = connect(listener)
    listener.close()
    with contextlib.closing(left):
        left.send(b"hello?")
        assert readable(left)
        with pytest.raises(LinkError, match="Connection refused"):
            left.recv_into(memoryview(bytearray(UDP_MTU)))


def test_datagram_after_close_opens_a_new_link(listener: Listener, raw: socket.socket) -> None:
    raw.send(b"one")
    link = accept(listener)
    link.close()
    link.close()
    assert link.fileno() == -1
    assert link.recv_into(memoryview(bytearray(UDP_MTU))) == 0
    assert link.wait_writable(TIMEOUT_SECONDS)
    with pytest.raises(LinkError, match="closed"):
        link.send(b"x")
    raw.send(b"two")
    with contextlib.closing(accept(listener)) as again:
        assert receive(again) == b"two"


def test_closing_the_listener_ends_its_links(listener: Listener, raw: socket.socket) -> None:
    raw.send(b"one")
    with contextlib.closing(accept(listener)) as link:
        assert link.wait_writable(0)
        listener.close()
        listener.close()
        assert listener.fileno() == -1
        assert receive(link) == b"one"
        assert receive(link) == b""
        with pytest.raises(LinkError, match="closed"):
            link.send(b"x")
        with pytest.raises(LinkError):
            listener.accept()


def test_the_number_of_senders_is_limited(
    listener: Listener, raw: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(udp, "MAX_LINKS_PER_LISTENER", 1)
    raw.send(b"one")
    with contextlib.closing(accept(listener)) as link, contextlib.closing(connect(listener)) as other:
        other.send(b"me too")
        assert accept_next(listener) is None
        raw.send(b"two")
        assert accept_next(listener) is None
        assert [receive(link), receive(link)] == [b"one", b"two"]


def test_accept_without_free_descriptors_raises_link_error(
    listener: Listener, raw: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> tuple[socket.socket, socket.socket]:
        raise OSError(errno.EMFILE, "Too many open files")

    raw.send(b"one")
    with monkeypatch.context() as context:
        context.setattr(socket, "socketpair", none_left)
        with pytest.raises(LinkError, match="Too many open files"):
            accept_next(listener)
    raw.send(b"two")
    with contextlib.closing(accept(listener)) as link:
        assert receive(link) == b"two"


def test_receive_queue_is_limited(listener: Listener, raw: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp, "MAX_QUEUED_DATAGRAM_BYTES", 10)
    raw.send(b"12345678")
    with contextlib.closing(accept(listener)) as link:
        raw.send(b"lost")
        assert accept_next(listener) is None
        raw.send(b"9")
        assert accept_next(listener) is None
        assert [receive(link), receive(link)] == [b"12345678", b"9"]


def test_accept_reads_at_most_max_datagrams_per_read(listener: Listener, raw: socket.socket) -> None:
    raw.send(b"first")
    with contextlib.closing(accept(listener)):
        for _ in range(MAX_DATAGRAMS_PER_READ + 1):
            raw.send(b"more")
        assert accept_next(listener) is None
        assert readable(listener, 0)


def test_links_can_be_closed_while_others_send(listener: Listener, raw: socket.socket) -> None:
    raw.send(b"one")
    link = accept(listener)

    def talk() -> None:
        while True:
            link.send(b"x")
            link.wait_writable(0.01)

    def talk_on() -> None:
        with pytest.raises(LinkError, match="closed"):
            talk()

    with meanwhile(talk_on):
        listener.close()
        link.close()


class FailingSocket(socket.socket):
    """A socket that does what Linux does not do on loopback."""

    def sendto(self, *_: object) -> int:
        raise OSError(errno.ENOBUFS, "no room")

    def recvfrom_into(self, *_: object) -> tuple[int, object]:
        raise ConnectionResetError


def test_enobufs_and_connection_reset_are_not_raised(listener: Listener, raw: socket.socket) -> None:
    raw.send(b"one")
    with contextlib.closing(accept(listener)) as link:
        assert isinstance(listener, UdpListener)
        listener._socket.close()
        listener._socket = FailingSocket(socket.AF_INET, socket.SOCK_DGRAM)
        assert link.send(b"x") == 0
        assert listener.accept() is None
        listener._socket.close()
        assert link.wait_writable(TIMEOUT_SECONDS)


def test_wildcards_are_advertised_as_real_addresses() -> None:
    with contextlib.closing(listen("udp/0.0.0.0:0")) as listener:
        port = listener.locator.address.rpartition(":")[2]
        assert f"udp/127.0.0.1:{port}" in [locator.text for locator in listener.locators(loopback=True)]
        with contextlib.closing(connect(listener, host="127.0.0.1")) as left:
            send(left, b"hello")
            with contextlib.closing(accept(listener)) as right:
                assert receive(right) == b"hello"
