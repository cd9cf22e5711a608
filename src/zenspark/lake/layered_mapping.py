"""Layered: a mapping that never changes, and of which a changed version costs what changed, not what there is.

A version is a large dict that many versions share, and a small one with what is different. When the small one has
grown, the two become one: a copy of everything, once in so many changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

MAX_CHANGES = 1024
"""Changes that are kept apart: every version copies them."""


class LayeredMapping(Mapping[K, V]):
    """A mapping without None among its values."""

    __slots__ = ("_base", "_changes", "_size")

    def __init__(self, base: Mapping[K, V], changes: Mapping[K, V | None] | None = None) -> None:
        """Takes a mapping that nothing changes any more; of `changes`, None stands for what is gone."""
        self._base = base
        self._changes = changes or {}
        self._size = len(base) + sum((value is not None) - (key in base) for key, value in self._changes.items())

    def with_changes(self, changes: Mapping[K, V | None]) -> LayeredMapping[K, V]:
        """The mapping with other values for some keys; without those whose value is None."""
        found = LayeredMapping(self._base, {**self._changes, **changes})
        return found if len(found._changes) <= MAX_CHANGES else LayeredMapping(dict(found.items()))

    def __getitem__(self, key: K) -> V:
        if key not in self._changes:
            return self._base[key]
        value = self._changes[key]
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[K]:
        for key in self._base:
            if self._changes.get(key, self) is not None:
                yield key
        for key, value in self._changes.items():
            if value is not None and key not in self._base:
                yield key

    def __len__(self) -> int:
        return self._size
