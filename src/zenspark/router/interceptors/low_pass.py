"""Low-pass filter: drop messages that are larger than a limit."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import TypeAlias

from zenspark.key.tree import KeyTree
from zenspark.router.interceptors.actions import DATA_ACTIONS
from zenspark.router.interceptors.rules import Flow, InterceptedAction, LowPassItem, NeighbourAttributes

LinkScope: TypeAlias = tuple[str | None, str | None]
"""Interface and link protocol, None for any."""


class LowPassFilter:
    """Size limits of one direction of one face.

    The smallest limit applies among the items whose keys include that of a message. If two items differ only in their
    limit, the later one replaces the earlier.
    """

    def __init__(self, items: Iterable[LowPassItem], neighbour: NeighbourAttributes, flow: Flow) -> None:
        self._limits: dict[tuple[LinkScope, InterceptedAction], KeyTree[int]] = {}
        for item in items:
            if item.matches(neighbour, flow):
                self._add(item, neighbour)

    def _add(self, item: LowPassItem, neighbour: NeighbourAttributes) -> None:
        interfaces = (
            [None]
            if item.interfaces is None
            else [interface for interface in item.interfaces if interface in neighbour.interfaces]
        )
        protocol = None if item.link_protocols is None else neighbour.protocol
        for interface, action, key in product(interfaces, item.messages, item.key_exprs):
            limits = self._limits.setdefault(((interface, protocol), action), KeyTree())
            limits.insert(key, item.size_limit)

    def __bool__(self) -> bool:
        return bool(self._limits)

    def limit(self, action: InterceptedAction, key: str | None) -> int | None:
        """Maximum bytes of payload and attachment of a message; None for no limit."""
        if not self._limits or action not in DATA_ACTIONS:
            return None
        if key is None:
            return 0
        matching_limits = [
            limit
            for (_, limited), limits in self._limits.items()
            if limited == action
            for _, limit in limits.including(key)
        ]
        return min(matching_limits, default=None)
