"""EntityRegistry: the ids of a session's entities, and the function that undeclares each of them.

It does not refer to the objects users hold. So an object without references is collected at once, and decides itself
whether its entity ends with it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from zenspark.wire.values import EntityId, ZenohId


class EntityRegistry:
    """The declared entities of one session."""

    def __init__(self, zid: ZenohId) -> None:
        self._zid = zid
        self._ids = count(1)
        self._finalizers: dict[int, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._finalizers)

    def next_id(self) -> int:
        """Return an entity id that is unique in this session."""
        return next(self._ids)

    def global_id(self, entity_id: int) -> EntityId:
        """Return the id of an entity that is unique in the network."""
        return EntityId(self._zid, entity_id)

    def add(self, entity_id: int, finalizer: Callable[[], None]) -> None:
        """Register an entity with the function that undeclares it."""
        self._finalizers[entity_id] = finalizer

    def undeclare(self, entity_id: int) -> None:
        """Undeclare an entity; does nothing if it is undeclared already."""
        finalizer = self._finalizers.pop(entity_id, None)
        if finalizer is not None:
            finalizer()

    def undeclare_all(self) -> None:
        """Undeclare every entity, in the order of registration."""
        for entity_id in list(self._finalizers):
            self.undeclare(entity_id)
