import contextlib
import random
import socket
import sys
from collections.abc import Iterator

import pytest

from tests.unit.net.ends import free_group, readable
from tests.wait import TIMEOUT_SECONDS
from zenspark.errors import LinkError, UsageError
from zenspark.net.links import multicast
from zenspark.net.links.base import WOULD_BLOCK
from zenspark.net.links.endpoint import Endpoint
from zenspark.net.links.interfaces import Interface, find_interface
from zenspark.net.links.multicast import MulticastLink, join

LO = find_interface("127.0.0.1")

needs_ipv6 = pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")


@pytest.fixture
def endpoint() -> Endpoint:
    """A group of the loopback interface that no other test uses."""
    return Endpoint.parse(f"udp/{free_group()}#iface={LO.name}")


@pytest.fixture
def groups(endpoint: Endpoint) -> Iterator[tuple[MulticastLink, MulticastLink, MulticastLink]]:
    with contextlib.ExitStack() as stack:
        first, second, third = (stack.enter_context(contextlib.closing(join(endpoint))) for _ in range(3))
        yield first, second, third


def receive(group: MulticastLink) -> tuple[bytes, str]:
    buffer = memoryview(bytearray(1 << 16))
    while True:
        assert readable(group), "nothing was received"
        size, source = group.recv_from(buffer)
        if size != WOULD_BLOCK:
            return bytes(buffer[:size]), source


def test_datagram_reaches_other_members_with_its_sender(
    groups: tuple[MulticastLink, MulticastLink, MulticastLink],
) -> None:
    first, second, third = groups
    assert first.send(b"hello") == 5
    assert receive(second) == receive(third) == (b"hello", first.src)
    buffer = memoryview(bytearray(1 << 16))
    assert readable(first)
    assert first.recv_from(buffer) == (WOULD_BLOCK, "")  # its own voice
    assert first.recv_from(buffer) == (WOULD_BLOCK, "")
    second.send(b"back")
    assert receive(first) == (b"back", second.src)


def test_a_group_is_named_as_zenohd_names_it(
    groups: tuple[MulticastLink, MulticastLink, MulticastLink], endpoint: Endpoint
) -> None:
    group = groups[0]
    assert group.dst == endpoint.locator.text
    assert group.src.startswith("udp/127.0.0.1:")
    assert (group.mtu, group.is_streamed, group.is_reliable) == (65487, False, False)
    assert group.interfaces == (LO.name,)
    assert repr(group) == f"<MulticastLink {group.src} -> {group.dst}>"


def test_empty_datagrams_are_ignored(groups: tuple[MulticastLink, MulticastLink, MulticastLink]) -> None:
    groups[0].send(b"")
    assert readable(groups[1])
    assert groups[1].recv_from(memoryview(bytearray(10))) == (WOULD_BLOCK, "")


def test_closed_group_link_raises_link_error(groups: tuple[MulticastLink, MulticastLink, MulticastLink]) -> None:
    group = groups[0]
    assert group.wait_writable(0)
    group.close()
    group.close()
    assert group.fileno() == -1
    assert group.wait_writable(TIMEOUT_SECONDS)
    for use in (lambda: group.send(b"x"), lambda: group.recv_from(memoryview(bytearray(1)))):
        with pytest.raises(LinkError, match="closed"):
            use()


def test_a_datagram_that_is_too_large_is_refused(groups: tuple[MulticastLink, MulticastLink, MulticastLink]) -> None:
    with pytest.raises(LinkError, match="Message too long"):
        groups[0].send(bytes(65_508))


@needs_ipv6
def test_ipv6_group_can_be_joined() -> None:
    """Joined only: Linux has no IPv6 multicast route on loopback, and tests send nowhere else."""
    address = f"[ff01::{random.randrange(1, 1 << 16):x}]:{free_group().rpartition(':')[2]}"
    with contextlib.closing(join(Endpoint.parse(f"udp/{address}#iface={LO.name}"))) as group:
        assert group.dst == f"udp/{address}"
        assert group.src.startswith("udp/[::1]:")
        assert group._address[3:] == (LO.index,)
        assert group._sender.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF) == LO.index
        assert group.recv_from(memoryview(bytearray(10))) == (WOULD_BLOCK, "")


@pytest.mark.parametrize("platform", ["darwin", "win32"])
@pytest.mark.parametrize("group", ["239.255.255.254", pytest.param("[ff01::fffe]", marks=needs_ipv6)])
def test_group_can_be_joined_on_macos_and_windows(platform: str, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    endpoint = Endpoint.parse(f"udp/{group}:{free_group().rpartition(':')[2]}#iface={LO.name}")
    with contextlib.closing(join(endpoint)) as group_link:
        assert group_link.fileno() > 0


def test_ttl_is_set() -> None:
    endpoint = Endpoint.parse(f"udp/{free_group()}#iface={LO.name};ttl=3")
    with contextlib.closing(join(endpoint)) as group:
        assert group._sender.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL) == 3


def test_further_groups_are_joined_too() -> None:
    endpoint = f"udp/{free_group()}#iface={LO.name}"
    with contextlib.closing(join(Endpoint.parse(f"{endpoint};join=239.255.1.2|239.255.1.3"))) as group:
        assert group.fileno() > 0
    for wrong in ("nonsense", "127.0.0.1", "ff01::1"):
        with pytest.raises(UsageError, match=f"has join={wrong}"):
            join(Endpoint.parse(f"{endpoint};join={wrong}"))


def test_burst_is_limited_to_max_bytes_per_second(
    groups: tuple[MulticastLink, MulticastLink, MulticastLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = groups[0]._credit_updated_at
    monkeypatch.setattr("zenspark.net.links.multicast.time.monotonic", lambda: now)
    datagram = bytes(multicast.MAX_BURST_BYTES // 8)
    assert [groups[0].send(datagram) for _ in range(9)] == [len(datagram)] * 8 + [0]
    now += len(datagram) / multicast.MAX_BYTES_PER_SECOND
    assert [groups[0].send(datagram) for _ in range(2)] == [len(datagram), 0]
    now += 1000
    assert groups[0].send(bytes(65_000)) == 65_000


def test_recv_into_returns_the_size_only(groups: tuple[MulticastLink, MulticastLink, MulticastLink]) -> None:
    groups[0].send(b"hello")
    assert readable(groups[1])
    assert groups[1].recv_into(memoryview(bytearray(100))) == 5


def test_full_socket_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(socket.socket):
        def sendto(self, *_: object) -> int:
            raise BlockingIOError(11, "full")

    with contextlib.closing(join(Endpoint.parse(f"udp/{free_group()}#iface={LO.name}"))) as group:
        group._sender.close()
        group._sender = Full(socket.AF_INET, socket.SOCK_DGRAM)
        assert group.send(b"x") == 0


def test_invalid_group_cannot_be_joined() -> None:
    with pytest.raises(UsageError, match="is not a multicast group"):
        join(Endpoint.parse(f"udp/127.0.0.1:1#iface={LO.name}"))
    with pytest.raises(UsageError, match="no network interface 'nope'"):
        join(Endpoint.parse("udp/239.255.0.1:1#iface=nope"))


def test_join_without_a_multicast_interface_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multicast, "multicast_interfaces", lambda _: [])
    with pytest.raises(UsageError, match="there is none"):
        join(Endpoint.parse("udp/239.255.0.1:1"))


def test_interface_without_an_address_of_the_family_raises_link_error() -> None:
    bare = Interface("bare0", 99, ())
    with pytest.raises(LinkError, match="bare0 has no IPv4 address"):
        MulticastLink(Endpoint.parse("udp/239.255.0.1:1"), bare, 1)
