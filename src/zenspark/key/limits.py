"""How large a key expression may be: what bounds the work of comparing it with others.

Comparing two key expressions takes at most as many steps as one has chunks times the bytes of the other. Finding those
stored in a `KeyTree` that match one takes at most a few times as long as comparing it with each of them. Both are
bounded only if the expressions are.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class Excess(NamedTuple):
    """By what a key expression is over a limit: the name of the limit, how much there is, and how much may be."""

    limit: str
    found: int
    most: int


class KeyLimits(msgspec.Struct, frozen=True):
    """What a key expression may have at most."""

    bytes: int = 8192
    """Bytes in UTF-8. A key without a number travels with every message, and is kept with every declaration."""
    chunks: int = 64
    """Chunks between slashes. A search goes through the tree of declarations once for each."""
    wildcards: int = 32
    """`*`, `**` and `$*` together. Each multiplies the places in the tree that have to be looked at."""

    @property
    def always_within(self) -> int:
        """Characters up to which a key expression is within all limits, whatever it is."""
        return min(self.bytes // 4, 2 * self.chunks, 2 * self.wildcards) - 1

    def excess(self, key: str) -> Excess | None:
        """The first limit that a key expression is over; None if it is within all of them."""
        if len(key) * 4 > self.bytes:
            size = len(key.encode(errors="replace"))
            if size > self.bytes:
                return Excess("bytes", size, self.bytes)
        chunks = key.count("/") + 1
        if chunks > self.chunks:
            return Excess("chunks", chunks, self.chunks)
        wildcards = key.count("*") - key.count("**")
        return Excess("wildcards", wildcards, self.wildcards) if wildcards > self.wildcards else None
