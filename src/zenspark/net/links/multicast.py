"""Multicast links: a datagram reaches every member of a group. For scouting, and for `udp/<group>` endpoints.

On an interface there are two sockets. The *receiver* is bound to the group and receives only datagrams that arrive on
its interface; many processes may have one. The *sender* has a port of its own, which identifies this node: datagrams
received from there are its own.

A multicast link has many peers: `recv_from` returns the sender. Options of its endpoint: `iface` (a name or an address;
by default the first interface that supports multicast), `ttl` (hops, 1 by default) and `join` (further groups to be a
member of, separated by `|`).
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
import threading
import time

from zenspark.errors import LinkError
from zenspark.net.links.base import (
    WOULD_BLOCK,
    WRITE,
    Buffer,
    IpSocketAddress,
    Link,
    close_on_error,
    duplicate_descriptor,
    format_address,
    poll_descriptor,
)
from zenspark.net.links.endpoint import Endpoint, IPAddress
from zenspark.net.links.interfaces import AUTO, Interface, multicast_interfaces
from zenspark.net.links.udp import BUSY_ERRNOS, UDP_MTU

IP_MULTICAST_ALL, IPV6_MULTICAST_ALL = 49, 29
"""Socket options of Linux without a name in the socket module: 0 is to receive only from groups this socket joined."""
RECEIVE_BUFFER_BYTES = 1 << 22
"""Requested size of the receive buffer: a burst of many members is buffered instead of lost."""
MAX_BURST_BYTES, MAX_BYTES_PER_SECOND = 1 << 16, 1 << 25
"""Rate limit, because a group has no flow control. In the 208 KiB that Linux buffers for a socket by default, 100 kB in
datagrams of 8 KiB survived and 200 kB did not."""


class MulticastLink(Link):
    """A multicast group, joined on one interface. `dst` is the group, `src` the address of this node's sender."""

    is_streamed = False
    is_reliable = False
    mtu = UDP_MTU
    has_buffered = True  # several datagrams may be there, and one more read is cheaper than a poll

    def __init__(self, endpoint: Endpoint, interface: Interface, ttl: int) -> None:
        self.endpoint = endpoint
        self.interfaces = (interface.name,)
        self._address = group_address(endpoint, interface)
        self._receiver = open_receiver(endpoint, interface)
        with close_on_error(self._receiver, endpoint):
            self._sender = open_sender(endpoint, interface, ttl)
        self._receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self._local_address = self._sender.getsockname()[:2]
        self._credit_bytes, self._credit_updated_at = float(MAX_BURST_BYTES), time.monotonic()
        self.src = endpoint.locator_at(format_address(self._sender.getsockname())).text
        self.dst = endpoint.locator.text
        self._recv_lock = threading.Lock()
        self._send_lock = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor to watch for reading; -1 once closed."""
        return self._receiver.fileno()

    def recv_into(self, buffer: memoryview) -> int:
        return self.recv_from(buffer)[0]

    def recv_from(self, buffer: memoryview) -> tuple[int, str]:
        """Receive one datagram without waiting; returns its size and the locator of its sender.

        The size is WOULD_BLOCK if none is there, or if it was empty or sent by this node. `buffer` must have the size
        of the mtu.
        """
        try:
            with self._recv_lock:
                size, address = self._receiver.recvfrom_into(buffer)
        except BlockingIOError:
            return WOULD_BLOCK, ""
        except OSError as error:
            raise self.make_error(error) from error
        if not size or address[:2] == self._local_address:
            return WOULD_BLOCK, ""
        return size, self.endpoint.locator_at(format_address(address)).text

    def send(self, data: Buffer) -> int:
        """Send one datagram to all members without waiting; returns its size, 0 if buffer or rate do not allow it."""
        try:
            with self._send_lock:
                if not self._may_send(len(data)):
                    return 0
                return self._sender.sendto(data, self._address)
        except OSError as error:
            if error.errno in BUSY_ERRNOS:
                return 0
            raise self.make_error(error) from error

    def _may_send(self, size: int) -> bool:
        """Return whether the rate limit allows a datagram; if so, it is counted."""
        now = time.monotonic()
        self._credit_bytes = min(
            MAX_BURST_BYTES, self._credit_bytes + (now - self._credit_updated_at) * MAX_BYTES_PER_SECOND
        )
        self._credit_updated_at = now
        if self._credit_bytes < min(size, MAX_BURST_BYTES):
            return False
        self._credit_bytes -= size
        return True

    def wait_writable(self, timeout: float) -> bool:
        """Wait until the socket is writable or closed; False after `timeout` seconds."""
        with self._send_lock:
            if self._sender.fileno() < 0:
                return True
            descriptor = duplicate_descriptor(self._sender)
        try:
            return poll_descriptor(descriptor, WRITE, timeout)
        finally:
            socket.close(descriptor)

    def close(self) -> None:
        """Leave the group; a second call does nothing."""
        with self._recv_lock, self._send_lock:
            self._receiver.close()
            self._sender.close()

    def make_error(self, cause: Exception | None, problem: str | None = None) -> LinkError:
        return super().make_error(cause, "the link is closed" if self._receiver.fileno() < 0 else problem)


def join(endpoint: Endpoint) -> MulticastLink:
    """Join the group of an endpoint such as `udp/224.0.0.224:7447#iface=lo`."""
    chosen = multicast_interfaces(endpoint.option("iface") or AUTO)
    if not chosen:
        raise endpoint.error("needs a network interface that supports multicast, and there is none")
    ttl = endpoint.number("ttl")
    return MulticastLink(endpoint, chosen[0], 1 if ttl is None else ttl)


# -- sockets of a group on an interface --------------------------------------------------------------------------


def group_address(endpoint: Endpoint, interface: Interface) -> IpSocketAddress:
    """Return the socket address of a group on an interface."""
    group, port = _group(endpoint), endpoint.host_port[1]
    return (str(group), port) if group.version == 4 else (str(group), port, 0, interface.index)


def open_receiver(endpoint: Endpoint, interface: Interface) -> socket.socket:
    """Open a socket that receives the datagrams sent to a group on one interface."""
    group = _group(endpoint)
    receiver = socket.socket(_family(group), socket.SOCK_DGRAM)
    with close_on_error(receiver, endpoint):
        receiver.setblocking(False)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform not in ("linux", "win32"):  # elsewhere it takes this one for several processes to share
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if sys.platform == "win32":  # which cannot bind to a group
            receiver.bind(("", endpoint.host_port[1]))
        else:
            receiver.bind(group_address(endpoint, interface))
        for joined_group in (group, *_further_groups(endpoint)):
            _join(receiver, joined_group, interface)
    return receiver


def _further_groups(endpoint: Endpoint) -> list[IPAddress]:
    """Return the groups of the option `join`."""
    option = endpoint.option("join")
    try:
        groups = [] if option is None else [ipaddress.ip_address(text) for text in option.split("|")]
    except ValueError:
        raise endpoint.error(f"has join={option}, which is not a list of addresses with | between them") from None
    for group in groups:
        if not group.is_multicast or group.version != _group(endpoint).version:
            raise endpoint.error(f"has join={option}, where {group} is not a multicast group of the same kind")
    return groups


def _join(receiver: socket.socket, group: IPAddress, interface: Interface) -> None:
    if group.version == 4:
        membership = struct.pack("=4s4si", group.packed, _interface_address(group, interface).packed, interface.index)
        receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        if sys.platform == "linux":
            receiver.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
    else:
        receiver.setsockopt(
            socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, struct.pack("=16sI", group.packed, interface.index)
        )
        if sys.platform == "linux":
            receiver.setsockopt(socket.IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)


def open_sender(endpoint: Endpoint, interface: Interface, ttl: int) -> socket.socket:
    """Open a socket that sends on one interface, also to receivers on this machine."""
    group = _group(endpoint)
    local_address = _interface_address(group, interface)
    sender = socket.socket(_family(group), socket.SOCK_DGRAM)
    with close_on_error(sender, endpoint):
        sender.setblocking(False)
        if group.version == 4:
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, local_address.packed)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            sender.bind((str(local_address), 0))
        else:
            sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface.index)
            sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, ttl)
            sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
            sender.bind((str(local_address), 0, 0, interface.index))
    return sender


def _group(endpoint: Endpoint) -> IPAddress:
    group = endpoint.ip
    if group is None or not group.is_multicast:
        raise endpoint.error("is not a multicast group")
    return group


def _family(group: IPAddress) -> socket.AddressFamily:
    return socket.AF_INET if group.version == 4 else socket.AF_INET6


def _interface_address(group: IPAddress, interface: Interface) -> IPAddress:
    """Return the address of an interface to send to a group from; raises LinkError if it has none."""
    for address in interface.addresses:
        if address.version == group.version:
            return address
    kind = ipaddress.ip_address(group).version
    raise LinkError(f"udp/{group}", f"interface {interface.name} has no IPv{kind} address")
