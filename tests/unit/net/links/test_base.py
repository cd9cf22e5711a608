import contextlib
import errno
import os
import pickle
import socket
from collections.abc import Iterator

import pytest

from tests.unit.net.ends import fill, in_thread, link_pair, meanwhile, readable, receive, send
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import LinkError, ZError
from zenspark.net.links.base import (
    WOULD_BLOCK,
    IpSocketAddress,
    Link,
    SocketLink,
    SocketListener,
    error_reason,
    format_address,
)
from zenspark.net.links.endpoint import Endpoint
from zenspark.wire.values import Locator

Ends = tuple[Link, Link]


@pytest.fixture
def ends() -> Iterator[Ends]:
    left, right = link_pair(buffer_size=4096)
    with contextlib.closing(left), contextlib.closing(right):
        yield left, right


def test_sent_bytes_are_received_and_an_empty_link_would_block(ends: Ends) -> None:
    left, right = ends
    buffer = memoryview(bytearray(16))
    assert right.recv_into(buffer) == WOULD_BLOCK
    assert left.send(b"hello") == 5
    assert receive(right, 5) == b"hello"
    assert right.recv_into(buffer) == WOULD_BLOCK
    assert not right.has_buffered
    left.establish(0.0)
    assert left.is_established
    assert (left.src, left.dst) == (right.dst, right.src) == ("pair/left", "pair/right")


def test_recv_into_returns_0_at_the_end_of_the_stream(ends: Ends) -> None:
    left, right = ends
    left.send(b"bye")
    left.close()
    assert receive(right, 100) == b"bye"
    assert right.recv_into(memoryview(bytearray(16))) == 0


def test_a_full_link_takes_nothing_until_the_other_side_reads(ends: Ends) -> None:
    left, right = ends
    taken = fill(left, bytes(1000))
    assert left.send(b"more") == 0
    assert not left.wait_writable(0.0)
    with meanwhile(lambda: left.wait_writable(TIMEOUT_SECONDS)) as waited:
        assert len(receive(right, taken)) == taken
        assert waited()
    assert left.send(b"more") == 4


def test_close_wakes_waiting_threads(ends: Ends) -> None:
    left, _ = ends
    fill(left, bytes(1000))
    with meanwhile(lambda: left.wait_writable(TIMEOUT_SECONDS)) as waited:
        left.close()
        assert waited()
    with pytest.raises(LinkError, match=r"^pair/right: the link is closed$"):
        left.send(b"x")
    assert left.wait_writable(TIMEOUT_SECONDS)


def test_wait_writable_without_free_descriptors_raises_link_error(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "dup", none_left)
    with pytest.raises(LinkError, match="Too many open files"):
        ends[0].wait_writable(0)


def test_close_is_idempotent(ends: Ends) -> None:
    left, right = ends
    left.close()
    left.close()
    assert left.fileno() == -1
    with pytest.raises(LinkError, match="closed"):
        left.recv_into(memoryview(bytearray(1)))
    assert readable(right)


def test_concurrent_close_raises_only_link_error_in_other_threads() -> None:
    for _ in range(20):
        left, right = link_pair(buffer_size=4096)
        errors: list[BaseException] = []

        def use(link: Link = left, errors: list[BaseException] = errors) -> None:
            buffer = memoryview(bytearray(1000))
            try:
                while True:
                    link.send(b"x" * 1000)
                    link.wait_writable(0.001)
                    link.recv_into(buffer)
            except LinkError:
                return
            except BaseException as error:
                errors.append(error)

        threads = [in_thread(use)]
        send(right, b"y" * 2000)
        threads += [in_thread(left.close), in_thread(left.close)]
        for thread in threads:
            thread.join(TIMEOUT_SECONDS)
            assert not thread.is_alive()
        assert errors == []
        right.close()


def test_oserror_is_the_cause_of_link_error(ends: Ends) -> None:
    left, right = ends
    right.close()
    with pytest.raises(LinkError, match=r"^pair/right: Broken pipe$") as failed:
        left.send(b"x")
    assert isinstance(failed.value.__cause__, BrokenPipeError)
    assert isinstance(failed.value, ZError)
    assert failed.value.endpoint == "pair/right"


def test_link_error_can_be_pickled() -> None:
    copy = pickle.loads(pickle.dumps(LinkError("tcp/a:1", "gone")))
    assert (copy.endpoint, copy.problem, str(copy)) == ("tcp/a:1", "gone", "tcp/a:1: gone")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_end_its_parents_link(ends: Ends) -> None:
    left, right = ends
    child = os.fork()
    if not child:
        left.close()
        right.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    left.send(b"still here")
    assert receive(right, 10) == b"still here"


def test_close_in_another_process_does_not_shut_down_the_connection(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = ends
    with socket.socket(fileno=socket.dup(left.fileno())) as parents:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        left.close()
        parents.send(b"still here")
        assert receive(right, 10) == b"still here"


def test_datagram_boundaries_are_kept() -> None:
    left, right = link_pair(streamed=False)
    with contextlib.closing(left), contextlib.closing(right):
        assert not left.is_streamed
        assert not left.is_reliable
        for datagram in (b"one", b"", b"three"):
            left.send(datagram)
        buffer = memoryview(bytearray(16))
        assert right.recv_into(buffer) == 3
        assert right.recv_into(buffer) == WOULD_BLOCK  # the empty one: not the end
        assert right.recv_into(buffer) == 5
        assert bytes(buffer[:5]) == b"three"


class FailingListener(SocketListener):
    """A listener whose links cannot be made."""

    def link(self, connection: socket.socket, address: IpSocketAddress) -> Link:
        raise OSError(errno.ENOTCONN, "gone again")


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_peer_that_disconnects_before_accept_is_ignored(listening: socket.socket) -> None:
    listener = FailingListener(listening, Endpoint("tcp", "x"), Locator("tcp/x"))
    assert listener.accept() is None
    with socket.create_connection(listening.getsockname()):
        assert readable(listener)
        assert listener.accept() is None
    assert listener.locators(loopback=False) == (Locator("tcp/x"),)
    assert repr(listener) == "<FailingListener tcp/x>"


def test_failed_accept_raises_link_error(listening: socket.socket) -> None:
    listener = FailingListener(listening, Endpoint("tcp", "x"), Locator("tcp/x"))
    listener.close()
    assert listener.fileno() == -1
    with pytest.raises(LinkError, match="tcp/x"):
        listener.accept()


def test_format_address_puts_ipv6_in_brackets() -> None:
    assert format_address(("127.0.0.1", 1)) == "127.0.0.1:1"
    assert format_address(("::1", 1, 0, 0)) == "[::1]:1"


def test_error_reason_omits_the_errno() -> None:
    assert error_reason(OSError(errno.ECONNREFUSED, "Connection refused")) == "Connection refused"
    assert error_reason(OSError("text only")) == "text only"
    assert error_reason(TimeoutError()) == "TimeoutError"


def test_links_are_shown_with_both_ends(ends: Ends) -> None:
    assert repr(ends[0]) == "<SocketLink pair/left -> pair/right>"
    assert isinstance(ends[0], SocketLink)
