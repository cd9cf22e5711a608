"""Which messages are treated in another way, and how."""

from __future__ import annotations

import pytest

from tests.unit.router.interceptors.said import delete, put, query, reply
from zenspark.key import KeyExpr
from zenspark.router.interceptors.qos_overwrite import Overwriting
from zenspark.router.interceptors.rules import OverwriteItem, Treated, Treatment
from zenspark.wire.messages import Put
from zenspark.wire.values import Congestion, Priority, QoS

HIGH = Treatment(priority="data_high")


def overwriting(
    treatment: Treatment = HIGH, qos: Treated | None = None, size: str | None = None, *keys: str
) -> Overwriting:
    item = OverwriteItem(
        messages=("put", "query"),
        key_exprs=tuple(map(KeyExpr, keys)) or None,
        overwrite=treatment,
        qos=qos,
        payload_size=size,
    )
    return Overwriting(item)


def test_only_some_messages_on_some_keys() -> None:
    found = overwriting(HIGH, None, None, "a/*", "b")
    assert found.concerns("put", "a/b")
    assert found.concerns("query", "b")
    assert not found.concerns("delete", "b")
    assert not found.concerns("put", "a/**")
    assert not found.concerns("put", None)
    assert overwriting().concerns("put", None)


@pytest.mark.parametrize(
    ("treatment", "expected"),
    [
        (Treatment(), QoS.DEFAULT),
        (Treatment(priority="real_time"), QoS(priority=Priority.REAL_TIME)),
        (Treatment(priority=1), QoS(priority=Priority.DATA_LOW)),
        (Treatment(priority=7), QoS(priority=Priority.BACKGROUND)),
        (Treatment(priority=-2), QoS.DEFAULT),
        (Treatment(congestion_control="block_first"), QoS(congestion=Congestion.BLOCK_FIRST)),
        (Treatment(express=True), QoS(express=True)),
        (Treatment(express=False, congestion_control="block"), QoS(congestion=Congestion.BLOCK)),
    ],
)
def test_treatments(treatment: Treatment, expected: QoS) -> None:
    assert overwriting(treatment).applied(put("a"), True).qos == expected
    assert overwriting(treatment).applied(query("a"), True).qos == expected


def test_replies_are_left_as_they_are() -> None:
    answer = reply("a", Put(payload=b""))
    assert overwriting().applied(answer, True) is answer


@pytest.mark.parametrize(
    ("qos", "is_meant"),
    [
        (Treated(), True),
        (Treated(priority="data"), True),
        (Treated(priority="data_low"), False),
        (Treated(congestion_control="drop"), True),
        (Treated(congestion_control="block"), False),
        (Treated(express=False), True),
        (Treated(express=True), False),
        (Treated(reliability="reliable"), True),
        (Treated(reliability="best_effort"), False),
        (Treated(priority="data", express=True), False),
    ],
)
def test_only_what_wanted_to_be_treated_in_some_way(qos: Treated, is_meant: bool) -> None:
    changed = overwriting(HIGH, qos).applied(put("a"), True)
    assert (changed.qos.priority is Priority.DATA_HIGH) is is_meant
    unreliable = overwriting(HIGH, Treated(reliability="best_effort")).applied(put("a"), False)
    assert unreliable.qos.priority is Priority.DATA_HIGH


@pytest.mark.parametrize(
    ("size", "meant"), [("2..3", [2, 3]), ("3..", [3, 4]), ("..2", [1, 2]), ("..", [1, 2, 3, 4]), ("4..2", [])]
)
def test_only_values_of_some_size(size: str, meant: list[int]) -> None:
    found = overwriting(HIGH, None, size)
    changed = [n for n in (1, 2, 3, 4) if found.applied(put("a", b"x" * n, b"long"), True).qos != QoS.DEFAULT]
    assert changed == meant
    assert (found.applied(delete("a"), True).qos != QoS.DEFAULT) is size.startswith("..")
