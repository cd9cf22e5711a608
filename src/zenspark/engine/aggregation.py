"""Aggregation: one declaration for all entities whose keys a configured key expression includes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zenspark.key import KeyExpr


class Aggregate(msgspec.Struct, eq=False):
    """One configured key expression, and the entities it is declared for."""

    key_expr: KeyExpr
    id: int = 0
    """The id it was declared with: that of its first member."""
    members: set[int] = msgspec.field(default_factory=set)


class DeclarationAggregation:
    """The aggregates for entities of one kind. Guarded by the node's lock."""

    def __init__(self, key_exprs: Iterable[str] = ()) -> None:
        self._aggregates = [Aggregate(KeyExpr(key_expr)) for key_expr in key_exprs]

    @property
    def is_used(self) -> bool:
        """Whether any aggregate is configured."""
        return bool(self._aggregates)

    def join(self, entity_id: int, key_expr: KeyExpr) -> tuple[int, KeyExpr] | None:
        """Add an entity; returns id and key expression to declare, None if the aggregate is declared already."""
        aggregate = self._find(key_expr)
        if aggregate is None:
            return entity_id, key_expr
        is_first = not aggregate.members
        aggregate.members.add(entity_id)
        if not is_first:
            return None
        aggregate.id = entity_id
        return entity_id, aggregate.key_expr

    def leave(self, entity_id: int, key_expr: KeyExpr) -> int | None:
        """Remove an entity; returns the id to undeclare, None if others need the aggregate."""
        aggregate = self._find(key_expr)
        if aggregate is None:
            return entity_id
        aggregate.members.discard(entity_id)
        return None if aggregate.members else aggregate.id

    def _find(self, key_expr: KeyExpr) -> Aggregate | None:
        return next((aggregate for aggregate in self._aggregates if aggregate.key_expr.includes(key_expr)), None)
