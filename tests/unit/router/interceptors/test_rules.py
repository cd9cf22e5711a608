"""Which neighbours and flows an item of the configuration is about."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.router.interceptors.said import NOBODY, PARTY
from zenspark.key import KeyExpr
from zenspark.router.interceptors.rules import Item, LowPassItem, OverwriteItem, Treatment


@pytest.mark.parametrize(
    ("item", "covered"),
    [
        (Item(), True),
        (Item(flows=("ingress",)), True),
        (Item(flows=("egress",)), False),
        (Item(interfaces=("eth0", "lo")), True),
        (Item(interfaces=("eth0",)), False),
        (Item(link_protocols=("udp", "tcp")), True),
        (Item(link_protocols=("udp",)), False),
        (Item(interfaces=("lo",), link_protocols=("udp",)), False),
        (OverwriteItem(zids=("a1",), messages=("put",), overwrite=Treatment()), True),
        (OverwriteItem(zids=("b2",), messages=("put",), overwrite=Treatment()), False),
        (OverwriteItem(interfaces=("eth0",), messages=("put",), overwrite=Treatment()), False),
        (OverwriteItem(messages=("put",), overwrite=Treatment()), True),
    ],
)
def test_whom_an_item_covers(item: Item, covered: bool) -> None:
    assert item.covers(PARTY, "ingress") is covered


def test_a_link_without_interfaces_is_at_none_of_them() -> None:
    assert not Item(interfaces=("lo",)).covers(NOBODY, "egress")


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
def test_items_that_cannot_be(given: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(given, LowPassItem, dec_hook=lambda _, value: KeyExpr(value))
