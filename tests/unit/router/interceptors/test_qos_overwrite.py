"""Which messages are treated in another way, and how."""

from __future__ import annotations

import pytest

from tests.unit.router.interceptors.sample_messages import delete, put, query, reply
from zenspark.key import KeyExpr
from zenspark.router.interceptors.qos_overwrite import QosOverwrite
from zenspark.router.interceptors.rules import OverwriteItem, QosChange, QosMatch
from zenspark.wire.messages import Put
from zenspark.wire.values import Congestion, Priority, QoS

HIGH = QosChange(priority="data_high")


def overwriting(
    treatment: QosChange = HIGH, qos: QosMatch | None = None, size: str | None = None, *keys: str
) -> QosOverwrite:
    item = OverwriteItem(
        messages=("put", "query"),
        key_exprs=tuple(map(KeyExpr, keys)) or None,
        overwrite=treatment,
        qos=qos,
        payload_size=size,
    )
    return QosOverwrite(item)


def test_overwrite_applies_to_its_actions_and_key_expressions() -> None:
    found = overwriting(HIGH, None, None, "a/*", "b")
    assert found.applies_to("put", "a/b")
    assert found.applies_to("query", "b")
    assert not found.applies_to("delete", "b")
    assert not found.applies_to("put", "a/**")
    assert not found.applies_to("put", None)
    assert overwriting().applies_to("put", None)


@pytest.mark.parametrize(
    ("treatment", "expected"),
    [
        (QosChange(), QoS.DEFAULT),
        (QosChange(priority="real_time"), QoS(priority=Priority.REAL_TIME)),
        (QosChange(priority=1), QoS(priority=Priority.DATA_LOW)),
        (QosChange(priority=7), QoS(priority=Priority.BACKGROUND)),
        (QosChange(priority=-2), QoS.DEFAULT),
        (QosChange(congestion_control="block_first"), QoS(congestion=Congestion.BLOCK_FIRST)),
        (QosChange(express=True), QoS(express=True)),
        (QosChange(express=False, congestion_control="block"), QoS(congestion=Congestion.BLOCK)),
    ],
)
def test_qos_changes(treatment: QosChange, expected: QoS) -> None:
    assert overwriting(treatment).apply(put("a"), True).qos == expected
    assert overwriting(treatment).apply(query("a"), True).qos == expected


def test_qos_of_replies_is_not_overwritten() -> None:
    response = reply("a", Put(payload=b""))
    assert overwriting().apply(response, True) is response


@pytest.mark.parametrize(
    ("qos", "is_meant"),
    [
        (QosMatch(), True),
        (QosMatch(priority="data"), True),
        (QosMatch(priority="data_low"), False),
        (QosMatch(congestion_control="drop"), True),
        (QosMatch(congestion_control="block"), False),
        (QosMatch(express=False), True),
        (QosMatch(express=True), False),
        (QosMatch(reliability="reliable"), True),
        (QosMatch(reliability="best_effort"), False),
        (QosMatch(priority="data", express=True), False),
    ],
)
def test_only_messages_with_matching_qos_change(qos: QosMatch, is_meant: bool) -> None:
    changed = overwriting(HIGH, qos).apply(put("a"), True)
    assert (changed.qos.priority is Priority.DATA_HIGH) is is_meant
    unreliable = overwriting(HIGH, QosMatch(reliability="best_effort")).apply(put("a"), False)
    assert unreliable.qos.priority is Priority.DATA_HIGH


@pytest.mark.parametrize(
    ("size", "meant"), [("2..3", [2, 3]), ("3..", [3, 4]), ("..2", [1, 2]), ("..", [1, 2, 3, 4]), ("4..2", [])]
)
def test_overwrite_applies_to_payload_sizes_in_its_range(size: str, meant: list[int]) -> None:
    found = overwriting(HIGH, None, size)
    changed = [n for n in (1, 2, 3, 4) if found.apply(put("a", b"x" * n, b"long"), True).qos != QoS.DEFAULT]
    assert changed == meant
    assert (found.apply(delete("a"), True).qos != QoS.DEFAULT) is size.startswith("..")
