"""Which limit counts."""

from __future__ import annotations

from tests.unit.router.interceptors.sample_messages import PEER_ATTRIBUTES, UNKNOWN_PEER
from zenspark.key import KeyExpr
from zenspark.router.interceptors.low_pass import LowPassFilter
from zenspark.router.interceptors.rules import Flow, LowPassItem, ProtocolName


def item(
    limit: int,
    *keys: str,
    interfaces: tuple[str, ...] | None = None,
    protocols: tuple[ProtocolName, ...] | None = None,
    flows: tuple[Flow, ...] | None = None,
) -> LowPassItem:
    return LowPassItem(
        messages=("put",),
        key_exprs=tuple(map(KeyExpr, keys)),
        size_limit=limit,
        interfaces=interfaces,
        link_protocols=protocols,
        flows=flows,
    )


def test_smallest_limit_of_items_that_include_the_key_applies() -> None:
    found = LowPassFilter(
        [item(10, "a/**"), item(4, "a/b", "c"), item(99, "a/*", interfaces=("lo",))], PEER_ATTRIBUTES, "ingress"
    )
    assert found
    assert found.limit("put", "a/b") == 4
    assert found.limit("put", "a/c") == 10
    assert found.limit("put", "a/**") == 10
    assert found.limit("put", "**") is None
    assert found.limit("delete", "a/b") is None
    assert found.limit("liveliness_query", None) is None


def test_only_items_matching_peer_and_flow_apply() -> None:
    items = [
        item(1, "a", interfaces=("eth0",)),
        item(2, "a", protocols=("udp",)),
        item(3, "a", flows=("egress",)),
        item(4, "a", interfaces=("eth0", "lo"), protocols=("udp", "tcp"), flows=("ingress",)),
    ]
    assert LowPassFilter(items, PEER_ATTRIBUTES, "ingress").limit("put", "a") == 4
    assert LowPassFilter(items, PEER_ATTRIBUTES, "egress").limit("put", "a") == 3
    nothing = LowPassFilter(items, UNKNOWN_PEER, "ingress")
    assert not nothing
    assert nothing.limit("put", "a") is None
    assert nothing.limit("put", None) is None


def test_later_item_replaces_one_that_differs_only_in_its_limit() -> None:
    assert LowPassFilter([item(4, "a"), item(10, "a")], PEER_ATTRIBUTES, "ingress").limit("put", "a") == 10
    elsewhere = [item(4, "a", protocols=("tcp",)), item(10, "a")]
    assert LowPassFilter(elsewhere, PEER_ATTRIBUTES, "ingress").limit("put", "a") == 4


def test_message_without_key_has_limit_zero() -> None:
    assert LowPassFilter([item(4, "a")], PEER_ATTRIBUTES, "ingress").limit("reply", None) == 0
