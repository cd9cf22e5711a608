"""LayeredMapping: a persistent (immutable) mapping whose updated copies cost as much as the update.

A version is a large dict that many versions share, and a small one with the changes. When there are more than
`MAX_CHANGES` of these, the two are merged into a new large dict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

MAX_CHANGES = 1024
"""Changes in the small dict: every new version copies them."""


class LayeredMapping(Mapping[K, V]):
    """An immutable mapping; None is not a valid value."""

    __slots__ = ("_base", "_changes", "_size")

    def __init__(self, base: Mapping[K, V], changes: Mapping[K, V | None] | None = None) -> None:
        """Take a mapping that is not modified any more; in `changes`, None stands for a removed key."""
        self._base = base
        self._changes = changes or {}
        self._size = len(base) + sum((value is not None) - (key in base) for key, value in self._changes.items())

    def with_changes(self, changes: Mapping[K, V | None]) -> LayeredMapping[K, V]:
        """Return a copy with new values for some keys, and without those whose new value is None."""
        changed = LayeredMapping(self._base, {**self._changes, **changes})
        return changed if len(changed._changes) <= MAX_CHANGES else LayeredMapping(dict(changed.items()))

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
