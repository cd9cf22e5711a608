"""Overwriting QoS: messages that are treated in another way than they wanted, from here on."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from zenspark.key.tree import KeyTree
from zenspark.router.interceptors.actions import payload_size
from zenspark.router.interceptors.rules import Action, OverwriteItem, QosChange, QosMatch
from zenspark.wire.declare import replace
from zenspark.wire.messages import NetworkMessage, Push, Request
from zenspark.wire.values import Congestion, Priority, QoS

M = TypeVar("M", bound=NetworkMessage)


class QosOverwrite:
    """One item of the configuration."""

    def __init__(self, item: OverwriteItem) -> None:
        self._messages = item.messages
        self._treatment = item.overwrite
        self._only = item.qos or QosMatch()
        low, _, high = (item.payload_size or "..").partition("..")
        self._smallest = int(low or 0)
        self._largest = int(high) if high else None
        self._keys: KeyTree[None] | None = None
        if item.key_exprs is not None:
            self._keys = KeyTree()
            for key in item.key_exprs:
                self._keys.insert(key, None)

    def applies_to(self, action: Action, key: str | None) -> bool:
        """Whether it is about what is done to a key."""
        if action not in self._messages:
            return False
        return self._keys is None or (key is not None and bool(self._keys.including(key)))

    def apply(self, message: M, reliable: bool) -> M:
        """The message as it goes on."""
        if not isinstance(message, Push | Request) or not self._is_meant(message, message.qos, reliable):
            return message
        return replace(message, qos=_overwrite_qos(message.qos, self._treatment))

    def _is_meant(self, message: NetworkMessage, qos: QoS, reliable: bool) -> bool:
        only, size = self._only, payload_size(message)
        return (
            only.congestion_control in (None, qos.congestion.name.lower())
            and only.priority in (None, qos.priority.name.lower())
            and only.express in (None, qos.express)
            and only.reliability in (None, "reliable" if reliable else "best_effort")
            and self._smallest <= size
            and (self._largest is None or size <= self._largest)
        )


def _overwrite_qos(qos: QoS, treatment: QosChange) -> QoS:
    priority, congestion, express = treatment.priority, treatment.congestion_control, treatment.express
    if priority is not None:
        qos = msgspec.structs.replace(qos, priority=_overwrite_priority(qos.priority, priority))
    if congestion is not None:
        qos = msgspec.structs.replace(qos, congestion=Congestion[congestion.upper()])
    return qos if express is None else msgspec.structs.replace(qos, express=express)


def _overwrite_priority(wanted: Priority, change: str | int) -> Priority:
    if isinstance(change, str):
        return Priority[change.upper()]
    # eclipse-zenoh 1.10.2 does nothing for a negative number, so neither do we: its users have set their files by it.
    return Priority(min(wanted + max(change, 0), Priority.BACKGROUND))
