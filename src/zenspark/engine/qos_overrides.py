"""Overrides: how publications of some keys are sent, whatever the program says; `qos/publication` of the configuration.

The first rule that includes the key counts. (In eclipse-zenoh 1.10.2 it is any of those that include it.)
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zenspark.config.settings import PublicationQos, PublicationRule
from zenspark.engine.publisher import PublishSettings
from zenspark.key import KeyExpr
from zenspark.types.enums import CongestionControl, Locality, Priority, Reliability


class QosOverrides:
    """The rules of one session."""

    def __init__(self, rules: Iterable[PublicationRule] = ()) -> None:
        self._rules = [(KeyExpr(key), rule.config) for rule in rules for key in rule.key_exprs]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def of(self, key_expr: KeyExpr, publishing: PublishSettings) -> PublishSettings:
        """How to publish on a key, given how the program would."""
        treatment = next((config for key, config in self._rules if key.includes(key_expr)), None)
        return publishing if treatment is None else _apply_override(publishing, treatment)


def _apply_override(publishing: PublishSettings, rule: PublicationQos) -> PublishSettings:
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
    return PublishSettings(
        publishing.encoding, qos, reliable, destination, _overridden_columns(rule), publishing.stamps
    )


def _overridden_columns(rule: PublicationQos) -> frozenset[str]:
    said = {
        "priority": rule.priority,
        "congestion": rule.congestion_control,
        "express": rule.express,
        "reliable": rule.reliability,
    }
    return frozenset(column for column, value in said.items() if value is not None)
