"""The network interfaces of this machine, with their addresses and flags.

They come from psutil, because the standard library lists names but neither IPv6 addresses nor flags.
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
    """One network interface; its addresses have no scope id."""

    name: str
    index: int
    addresses: tuple[IPAddress, ...]
    is_up: bool = True
    is_loopback: bool = False
    can_multicast: bool = True

    @property
    def ipv4(self) -> ipaddress.IPv4Address | None:
        """The first IPv4 address, None if there is none."""
        return next((address for address in self.addresses if address.version == 4), None)


def interfaces() -> list[Interface]:
    """Return all interfaces, as they are now, by index."""
    stats = psutil.net_if_stats()
    numbers = {name: index for index, name in socket.if_nameindex()}
    result = []
    for name, entries in psutil.net_if_addrs().items():
        flags = set(stats[name].flags.split(",")) if name in stats else set()
        result.append(
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
    return sorted(result, key=lambda interface: interface.index)


def parse_address(address: str) -> IPAddress:
    """Parse an address, without its scope id (`fe80::1%eth0`); an IPv4-mapped IPv6 address is returned as IPv4."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
        return parsed.ipv4_mapped
    return parsed


def find_interface(name: str, candidates: Iterable[Interface] | None = None) -> Interface:
    """Return the interface with a name or an address; raises UsageError if there is none."""
    available = list(interfaces() if candidates is None else candidates)
    for interface in available:
        if name == interface.name or name in map(str, interface.addresses):
            return interface
    raise UsageError(f"there is no network interface {name!r}; there are {', '.join(i.name for i in available)}")


def interface_names_with(address: str) -> tuple[str, ...]:
    """Return the names of the interfaces with a local address."""
    local_address = parse_address(address)
    return tuple(interface.name for interface in interfaces() if local_address in interface.addresses)


def multicast_interfaces(setting: str = AUTO, candidates: Iterable[Interface] | None = None) -> list[Interface]:
    """Return the interfaces of a setting: names separated by commas, or `auto`.

    `auto` is every interface that is up, has an IPv4 address and supports multicast; loopback only if there is no
    other, so that nodes on a machine without network discover each other.
    """
    available = list(interfaces() if candidates is None else candidates)
    if setting.strip() not in ("", AUTO):
        return [find_interface(name.strip(), available) for name in setting.split(",") if name.strip()]
    ready = [interface for interface in available if interface.is_up and interface.ipv4]
    outer = [interface for interface in ready if interface.can_multicast and not interface.is_loopback]
    return outer or [interface for interface in ready if interface.is_loopback]


def reachable_addresses(
    wildcard: IPAddress, interface_name: str | None = None, candidates: Iterable[Interface] | None = None
) -> list[IPAddress]:
    """Return the addresses that a wildcard address includes, those of loopback first.

    `0.0.0.0` includes IPv4 addresses, `::` those of both families. `interface_name` selects one interface.
    """
    available = list(interfaces() if candidates is None else candidates)
    chosen = available if interface_name is None else [find_interface(interface_name, available)]
    addresses = [
        address
        for interface in chosen
        if interface.is_up
        for address in interface.addresses
        if wildcard.version == 6 or address.version == 4
    ]
    return sorted(addresses, key=lambda address: not address.is_loopback)
