"""Which neighbours and flows an item of the configuration is about."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.router.interceptors.sample_messages import PEER_ATTRIBUTES, UNKNOWN_PEER
from zenspark.key import KeyExpr
from zenspark.router.interceptors.rules import (
    InterceptorItem,
    LowPassItem,
    NeighbourAttributes,
    OverwriteItem,
    QosChange,
    RouterSubject,
)
from zenspark.wire.values import ZenohId


@pytest.mark.parametrize(
    ("item", "covered"),
    [
        (InterceptorItem(), True),
        (InterceptorItem(flows=("ingress",)), True),
        (InterceptorItem(flows=("egress",)), False),
        (InterceptorItem(interfaces=("eth0", "lo")), True),
        (InterceptorItem(interfaces=("eth0",)), False),
        (InterceptorItem(link_protocols=("udp", "tcp")), True),
        (InterceptorItem(link_protocols=("udp",)), False),
        (InterceptorItem(interfaces=("lo",), link_protocols=("udp",)), False),
        (OverwriteItem(zids=("a1",), messages=("put",), overwrite=QosChange()), True),
        (OverwriteItem(zids=("b2",), messages=("put",), overwrite=QosChange()), False),
        (OverwriteItem(interfaces=("eth0",), messages=("put",), overwrite=QosChange()), False),
        (OverwriteItem(messages=("put",), overwrite=QosChange()), True),
    ],
)
def test_item_matches_peer_and_flow(item: InterceptorItem, covered: bool) -> None:
    assert item.matches(PEER_ATTRIBUTES, "ingress") is covered


def test_item_with_interfaces_does_not_match_a_link_without_interfaces() -> None:
    assert not InterceptorItem(interfaces=("lo",)).matches(UNKNOWN_PEER, "egress")


@pytest.mark.parametrize(
    "given",
    [
        {"messages": [], "key_exprs": ["a"], "size_limit": 1},
        {"messages": ["push"], "key_exprs": ["a"], "size_limit": 1},
        {"messages": ["put"], "key_exprs": ["a"], "size_limit": -1},
        {"messages": ["put"], "key_exprs": ["a"]},
        {"messages": ["put"], "key_exprs": ["a"], "size_limit": 1, "flows": []},
        {"messages": ["put"], "key_exprs": ["a"], "size_limit": 1, "foo": 1},
    ],
)
def test_invalid_items_are_rejected(given: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(given, LowPassItem, dec_hook=lambda _, value: KeyExpr(value))


HOME = NeighbourAttributes(ZenohId(0xA1), ("lo",), "tls", "fleet", "r1", "192.0.2.7")


@pytest.mark.parametrize(
    ("subject", "covered"),
    [
        (RouterSubject(), True),
        (RouterSubject(addresses=("198.51.100.0/24", "192.0.2.0/24")), True),
        (RouterSubject(addresses=("192.0.2.8",)), False),
        (RouterSubject(addresses=("2001:db8::/32",)), False),
        (RouterSubject(interfaces=("eth0",)), False),
        (RouterSubject(cert_common_names=("r1", "r2"), usernames=("fleet",)), True),
        (RouterSubject(cert_common_names=("r1",), usernames=("other",)), False),
        (RouterSubject(zids=("a1",)), True),
        (RouterSubject(zids=("b1",)), False),
    ],
)
def test_router_subject_matches_peers(subject: RouterSubject, covered: bool) -> None:
    assert subject.matches(HOME) is covered


@pytest.mark.parametrize(("address", "covered"), [(None, False), ("::ffff:192.0.2.7", True), ("fe80::1%eth0", False)])
def test_router_subject_matches_ipv4_mapped_addresses(address: str | None, covered: bool) -> None:
    party = msgspec.structs.replace(HOME, address=address)
    assert RouterSubject(addresses=("192.0.2.0/24",)).matches(party) is covered


@pytest.mark.parametrize(
    ("neighbour", "text"),
    [
        (HOME, "a1 (tls/192.0.2.7)"),
        (NeighbourAttributes(ZenohId(0xA1), protocol="unixsock-stream"), "a1 (unixsock-stream)"),
        (NeighbourAttributes(None, protocol="http"), "a client without zid (http)"),
        (NeighbourAttributes(None, protocol="http", address="192.0.2.7"), "a client without zid (http/192.0.2.7)"),
        (NeighbourAttributes(None, protocol="http", username="ann"), "user ann (http)"),
    ],
)
def test_neighbour_is_logged_with_zid_or_user_and_protocol_and_address(
    neighbour: NeighbourAttributes, text: str
) -> None:
    assert str(neighbour) == text
