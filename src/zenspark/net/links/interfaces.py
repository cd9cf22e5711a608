"""The network interfaces of this machine: which there are, which one an address belongs to, which can multicast.

From psutil, because the standard library lists names but neither IPv6 addresses nor flags.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

import msgspec
import psutil

from zenspark.errors import UsageError
from zenspark.net.links.endpoint import IPAddress

AUTO = "auto"


class Interface(msgspec.Struct, frozen=True):
    """One network interface; its addresses are without scope."""

    name: str
    index: int
    addresses: tuple[IPAddress, ...]
    is_up: bool = True
    is_loopback: bool = False
    can_multicast: bool = True

    @property
    def ipv4(self) -> ipaddress.IPv4Address | None:
        """Its first IPv4 address."""
        return next((address for address in self.addresses if address.version == 4), None)


def interfaces() -> list[Interface]:
    """All interfaces, as they are now, in the order of their numbers."""
    stats = psutil.net_if_stats()
    numbers = {name: index for index, name in socket.if_nameindex()}
    found = []
    for name, entries in psutil.net_if_addrs().items():
        flags = set(stats[name].flags.split(",")) if name in stats else set()
        found.append(
            Interface(
                name,
                numbers.get(name, 0),
                tuple(
                    parse_address(entry.address)
                    for entry in entries
                    if entry.family in (socket.AF_INET, socket.AF_INET6)
                ),
                is_up=name in stats and stats[name].isup,
                is_loopback="loopback" in flags,
                can_multicast="multicast" in flags,
            )
        )
    return sorted(found, key=lambda interface: interface.index)


def parse_address(address: str) -> IPAddress:
    """An address without its scope (`fe80::1%eth0`); one that is IPv4 in the clothes of IPv6 comes out as IPv4."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        return found.ipv4_mapped
    return found


def find_interface(name: str, among: Iterable[Interface] | None = None) -> Interface:
    """The interface of this name, or the one that has this address."""
    known = list(interfaces() if among is None else among)
    for interface in known:
        if name == interface.name or name in map(str, interface.addresses):
            return interface
    raise UsageError(f"there is no network interface {name!r}; there are {', '.join(i.name for i in known)}")


def interface_names_with(address: str) -> tuple[str, ...]:
    """The names of the interfaces that have a local address."""
    wanted = parse_address(address)
    return tuple(interface.name for interface in interfaces() if wanted in interface.addresses)


def multicast_interfaces(setting: str = AUTO, among: Iterable[Interface] | None = None) -> list[Interface]:
    """The interfaces a setting means: names separated by commas, or `auto`.

    `auto` is every interface that is up, has an IPv4 address and can multicast; loopback only if there is no other,
    so that nodes on a machine without network find each other.
    """
    known = list(interfaces() if among is None else among)
    if setting.strip() not in ("", AUTO):
        return [find_interface(name.strip(), known) for name in setting.split(",") if name.strip()]
    ready = [interface for interface in known if interface.is_up and interface.ipv4]
    outer = [interface for interface in ready if interface.can_multicast and not interface.is_loopback]
    return outer or [interface for interface in ready if interface.is_loopback]


def reachable_addresses(
    wildcard: IPAddress, only: str | None = None, among: Iterable[Interface] | None = None
) -> list[IPAddress]:
    """The real addresses a wildcard stands for, loopback ones first.

    `0.0.0.0` stands for IPv4 addresses, `::` for those of both families. `only` names one interface.
    """
    known = list(interfaces() if among is None else among)
    chosen = known if only is None else [find_interface(only, known)]
    found = [
        address
        for interface in chosen
        if interface.is_up
        for address in interface.addresses
        if wildcard.version == 6 or address.version == 4
    ]
    return sorted(found, key=lambda address: not address.is_loopback)
