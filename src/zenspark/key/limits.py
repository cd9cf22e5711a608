"""Size limits of key expressions, which bound the cost of matching.

Matching two key expressions takes at most as many steps as one has chunks times the bytes of the other. Finding the
matches of one in a `KeyTree` takes at most a few times as long as matching it with each entry. Both are bounded only if
the expressions are.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

MAX_CACHED_KEY_CHARACTERS = 1024
"""Characters of a key up to which results for it are cached: a cache of many longer keys would fill the memory."""


class ExceededLimit(NamedTuple):
    """A limit that a key expression exceeds: its name, the actual and the allowed number."""

    limit: str
    actual: int
    maximum: int


class KeyLimits(msgspec.Struct, frozen=True):
    """Maximum sizes of a key expression."""

    bytes: int = 8192
    """Bytes in UTF-8. A key without an id is sent with every message, and is stored with every declaration."""
    chunks: int = 64
    """Chunks between slashes. A lookup descends the tree of declarations once for each."""
    wildcards: int = 32
    """`*`, `**` and `$*` together. Each multiplies the nodes of the tree that a lookup visits."""

    @property
    def always_within(self) -> int:
        """Length in characters up to which any key expression is within all limits."""
        return min(self.bytes // 4, 2 * self.chunks, 2 * self.wildcards) - 1

    def excess(self, key: str) -> ExceededLimit | None:
        """First limit that a key expression exceeds; None if there is none."""
        if len(key) * 4 > self.bytes:
            size = len(key.encode(errors="replace"))
            if size > self.bytes:
                return ExceededLimit("bytes", size, self.bytes)
        chunks = key.count("/") + 1
        if chunks > self.chunks:
            return ExceededLimit("chunks", chunks, self.chunks)
        wildcards = key.count("*") - key.count("**")
        return ExceededLimit("wildcards", wildcards, self.wildcards) if wildcards > self.wildcards else None
