"""Overrides: how publications of some keys are sent, whatever the program says; `qos/publication` of the configuration.

The first rule that includes the key counts. (In eclipse-zenoh 1.10.2 it is any of those that include it.)
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zenspark.config.settings import PublicationRule, PublicationTreatment
from zenspark.engine.publisher import Publishing
from zenspark.key import KeyExpr
from zenspark.types.enums import CongestionControl, Locality, Priority, Reliability


class Overrides:
    """The rules of one session."""

    def __init__(self, rules: Iterable[PublicationRule] = ()) -> None:
        self._rules = [(KeyExpr(key), rule.config) for rule in rules for key in rule.key_exprs]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def of(self, key_expr: KeyExpr, publishing: Publishing) -> Publishing:
        """How to publish on a key, given how the program would."""
        treatment = next((config for key, config in self._rules if key.includes(key_expr)), None)
        return publishing if treatment is None else _treated(publishing, treatment)


def _treated(publishing: Publishing, rule: PublicationTreatment) -> Publishing:
    qos = publishing.qos
    if rule.priority is not None:
        qos = msgspec.structs.replace(qos, priority=Priority[rule.priority.upper()].to_wire())
    if rule.congestion_control is not None:
        qos = msgspec.structs.replace(qos, congestion=CongestionControl[rule.congestion_control.upper()].to_wire())
    if rule.express is not None:
        qos = msgspec.structs.replace(qos, express=rule.express)
    reliable, destination = publishing.reliable, publishing.destination
    if rule.reliability is not None:
        reliable = Reliability[rule.reliability.upper()] is Reliability.RELIABLE
    if rule.allowed_destination is not None:
        destination = Locality[rule.allowed_destination.upper()]
    return Publishing(publishing.encoding, qos, reliable, destination, _fixed(rule), publishing.stamps)


def _fixed(rule: PublicationTreatment) -> frozenset[str]:
    said = {
        "priority": rule.priority,
        "congestion": rule.congestion_control,
        "express": rule.express,
        "reliable": rule.reliability,
    }
    return frozenset(column for column, value in said.items() if value is not None)
