"""Aggregation: one declaration that stands for many, of all keys that a configured key expression includes."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zenspark.key import KeyExpr


class Aggregate(msgspec.Struct, eq=False):
    """One configured key expression and whom it stands for now."""

    key_expr: KeyExpr
    id: int = 0
    """The number it was declared with: that of its first member."""
    members: set[int] = msgspec.field(default_factory=set)


class DeclarationAggregation:
    """The aggregates for entities of one kind. Guarded by the node's lock."""

    def __init__(self, key_exprs: Iterable[str] = ()) -> None:
        self._aggregates = [Aggregate(KeyExpr(key_expr)) for key_expr in key_exprs]

    @property
    def is_used(self) -> bool:
        """Whether there is any."""
        return bool(self._aggregates)

    def join(self, number: int, key_expr: KeyExpr) -> tuple[int, KeyExpr] | None:
        """What to declare, and with which number, for one more entity; None if there is no need."""
        aggregate = self._find(key_expr)
        if aggregate is None:
            return number, key_expr
        is_first = not aggregate.members
        aggregate.members.add(number)
        if not is_first:
            return None
        aggregate.id = number
        return number, aggregate.key_expr

    def leave(self, number: int, key_expr: KeyExpr) -> int | None:
        """The number of what to undeclare now that an entity is gone; None if others need it."""
        aggregate = self._find(key_expr)
        if aggregate is None:
            return number
        aggregate.members.discard(number)
        return None if aggregate.members else aggregate.id

    def _find(self, key_expr: KeyExpr) -> Aggregate | None:
        return next((one for one in self._aggregates if one.key_expr.includes(key_expr)), None)
