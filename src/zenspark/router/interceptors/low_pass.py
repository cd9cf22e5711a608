"""The low-pass filter: messages that are larger than a limit do not pass."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import TypeAlias

from zenspark.key.tree import KeyTree
from zenspark.router.interceptors.actions import DATA_ACTIONS
from zenspark.router.interceptors.rules import Action, Flow, LowPassItem, PeerAttributes

LinkScope: TypeAlias = tuple[str | None, str | None]
"""An interface and a protocol, or None for any."""


class LowPassFilter:
    """The limits on one flow of one face.

    The smallest one counts of those whose keys include that of a message. An item that says the same as one before it,
    but for the limit, takes its place.
    """

    def __init__(self, items: Iterable[LowPassItem], party: PeerAttributes, flow: Flow) -> None:
        self._limits: dict[tuple[LinkScope, Action], KeyTree[int]] = {}
        for item in items:
            if item.matches(party, flow):
                self._add(item, party)

    def _add(self, item: LowPassItem, party: PeerAttributes) -> None:
        interfaces = [None] if item.interfaces is None else [one for one in item.interfaces if one in party.interfaces]
        protocol = None if item.link_protocols is None else party.protocol
        for interface, action, key in product(interfaces, item.messages, item.key_exprs):
            limits = self._limits.setdefault(((interface, protocol), action), KeyTree())
            limits.insert(key, item.size_limit)

    def __bool__(self) -> bool:
        return bool(self._limits)

    def limit(self, action: Action, key: str | None) -> int | None:
        """How large payload and attachment of a message may be; None for any size."""
        if not self._limits or action not in DATA_ACTIONS:
            return None
        if key is None:
            return 0
        found = [
            limit
            for (_, limited), limits in self._limits.items()
            if limited == action
            for _, limit in limits.including(key)
        ]
        return min(found, default=None)
