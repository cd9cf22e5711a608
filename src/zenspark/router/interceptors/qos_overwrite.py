"""QoS overwrite: changes priority, congestion control and express flag of matching messages."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from zenspark.key.tree import KeyTree
from zenspark.router.interceptors.actions import payload_size
from zenspark.router.interceptors.rules import InterceptedAction, OverwriteItem, QosChange, QosMatch
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import NetworkMessage, Push, Request
from zenspark.wire.values import Congestion, Priority, QoS

M = TypeVar("M", bound=NetworkMessage)


class QosOverwrite:
    """One item of the configuration."""

    def __init__(self, item: OverwriteItem) -> None:
        self._messages = item.messages
        self._change = item.overwrite
        self._match = item.qos or QosMatch()
        low, _, high = (item.payload_size or "..").partition("..")
        self._min_bytes = int(low or 0)
        self._max_bytes = int(high) if high else None
        self._keys: KeyTree[None] | None = None
        if item.key_exprs is not None:
            self._keys = KeyTree()
            for key in item.key_exprs:
                self._keys.insert(key, None)

    def applies_to(self, action: InterceptedAction, key: str | None) -> bool:
        """Whether the item applies to an action on a key."""
        if action not in self._messages:
            return False
        return self._keys is None or (key is not None and bool(self._keys.including(key)))

    def apply(self, message: M, reliable: bool) -> M:
        """The message with the QoS changed, if it matches."""
        if not isinstance(message, Push | Request) or not self._matches(message, message.qos, reliable):
            return message
        return replace(message, qos=_overwrite_qos(message.qos, self._change))

    def _matches(self, message: NetworkMessage, qos: QoS, reliable: bool) -> bool:
        match, size = self._match, payload_size(message)
        return (
            match.congestion_control in (None, qos.congestion.name.lower())
            and match.priority in (None, qos.priority.name.lower())
            and match.express in (None, qos.express)
            and match.reliability in (None, "reliable" if reliable else "best_effort")
            and self._min_bytes <= size
            and (self._max_bytes is None or size <= self._max_bytes)
        )


def _overwrite_qos(qos: QoS, change: QosChange) -> QoS:
    priority, congestion, express = change.priority, change.congestion_control, change.express
    if priority is not None:
        qos = msgspec.structs.replace(qos, priority=_overwrite_priority(qos.priority, priority))
    if congestion is not None:
        qos = msgspec.structs.replace(qos, congestion=Congestion[congestion.upper()])
    return qos if express is None else msgspec.structs.replace(qos, express=express)


def _overwrite_priority(priority: Priority, change: str | int) -> Priority:
    if isinstance(change, str):
        return Priority[change.upper()]
    # eclipse-zenoh 1.10.2 ignores a negative number; so does this node, because existing configurations rely on it.
    return Priority(min(priority + max(change, 0), Priority.BACKGROUND))
