"""QoS overrides: `qos/publication` of the configuration, which replaces the settings of publications on some keys.

The first rule that includes the key applies. (In eclipse-zenoh 1.10.2 it is any of those that include it.)
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zenspark.config.settings import PublicationQos, PublicationRule
from zenspark.engine.publisher import PublishSettings
from zenspark.key import KeyExpr
from zenspark.types.enums import CongestionControl, Locality, Priority, Reliability


class QosOverrides:
    """The override rules of one session."""

    def __init__(self, rules: Iterable[PublicationRule] = ()) -> None:
        self._rules = [(KeyExpr(key), rule.config) for rule in rules for key in rule.key_exprs]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def apply(self, key_expr: KeyExpr, settings: PublishSettings) -> PublishSettings:
        """Return the settings of publications on a key, given those the program chose."""
        override = next((config for key, config in self._rules if key.includes(key_expr)), None)
        return settings if override is None else _apply_override(settings, override)


def _apply_override(settings: PublishSettings, override: PublicationQos) -> PublishSettings:
    qos = settings.qos
    if override.priority is not None:
        qos = msgspec.structs.replace(qos, priority=Priority[override.priority.upper()].to_wire())
    if override.congestion_control is not None:
        qos = msgspec.structs.replace(qos, congestion=CongestionControl[override.congestion_control.upper()].to_wire())
    if override.express is not None:
        qos = msgspec.structs.replace(qos, express=override.express)
    reliable, destination = settings.reliable, settings.destination
    if override.reliability is not None:
        reliable = Reliability[override.reliability.upper()] is Reliability.RELIABLE
    if override.allowed_destination is not None:
        destination = Locality[override.allowed_destination.upper()]
    return PublishSettings(
        settings.encoding, qos, reliable, destination, _overridden_columns(override), settings.add_timestamps
    )


def _overridden_columns(override: PublicationQos) -> frozenset[str]:
    overridden = {
        "priority": override.priority,
        "congestion": override.congestion_control,
        "express": override.express,
        "reliable": override.reliability,
    }
    return frozenset(column for column, value in overridden.items() if value is not None)
