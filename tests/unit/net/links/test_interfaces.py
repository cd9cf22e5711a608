from ipaddress import ip_address

import pytest

from zenspark.errors import UsageError
from zenspark.net.links.interfaces import (
    Interface,
    find_interface,
    interface_names_with,
    interfaces,
    multicast_interfaces,
    parse_address,
    reachable_addresses,
)

LO = Interface("lo", 1, (ip_address("127.0.0.1"), ip_address("::1")), is_loopback=True, can_multicast=False)
ETH = Interface("eth0", 2, (ip_address("192.0.2.2"), ip_address("fe80::1")))
DOWN = Interface("eth1", 3, (ip_address("192.0.2.3"),), is_up=False)
SIX = Interface("tun0", 4, (ip_address("fd00::2"),))
TUNNEL = Interface("tun1", 5, (ip_address("192.0.2.5"),), can_multicast=False)
ALL = [LO, ETH, DOWN, SIX, TUNNEL]


def test_this_machine_has_a_loopback_interface() -> None:
    found = next(interface for interface in interfaces() if interface.is_loopback)
    assert found.is_up
    assert found.ipv4 == ip_address("127.0.0.1")
    assert found.index > 0
    assert found.name in interface_names_with("127.0.0.1")
    assert found.name in interface_names_with("::ffff:127.0.0.1")
    assert interface_names_with("203.0.113.77") == ()


def test_addresses_are_compared_without_scope() -> None:
    assert parse_address("fe80::1%eth0") == ip_address("fe80::1")
    assert parse_address("::ffff:192.0.2.2") == ip_address("192.0.2.2")


def test_interfaces_are_found_by_name_or_address() -> None:
    assert find_interface("eth0", ALL) is ETH
    assert find_interface("fe80::1", ALL) is ETH
    with pytest.raises(UsageError, match=r"no network interface 'wlan0'; there are lo, eth0"):
        find_interface("wlan0", ALL)


def test_auto_selects_interfaces_that_are_up_and_support_multicast() -> None:
    assert multicast_interfaces("auto", ALL) == [ETH]
    assert multicast_interfaces("", ALL) == [ETH]
    assert multicast_interfaces("auto", [LO, DOWN, SIX]) == [LO]
    assert multicast_interfaces("auto", [DOWN]) == []
    assert multicast_interfaces("lo, eth0", ALL) == [LO, ETH]
    with pytest.raises(UsageError, match="wlan0"):
        multicast_interfaces("lo,wlan0", ALL)


def test_a_wildcard_stands_for_real_addresses() -> None:
    four, both = ip_address("0.0.0.0"), ip_address("::")
    assert reachable_addresses(four, None, [ETH, LO, DOWN]) == [ip_address("127.0.0.1"), ip_address("192.0.2.2")]
    assert [str(address) for address in reachable_addresses(both, None, [ETH, LO])] == [
        "127.0.0.1",
        "::1",
        "192.0.2.2",
        "fe80::1",
    ]
    assert reachable_addresses(four, "lo", ALL) == [ip_address("127.0.0.1")]
