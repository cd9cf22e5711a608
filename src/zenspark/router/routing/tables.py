"""Who declared what, by key: one table for each kind of declaration."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zenspark.key.match import includes
from zenspark.key.tree import KeyTree
from zenspark.router.face import DeclarationOwner
from zenspark.wire.values import QueryableInfo


class DeclaredKey(msgspec.Struct, eq=False):
    """One declared key expression, and the faces that hold it under how many ids."""

    key: str
    holders: dict[DeclarationOwner, dict[int, QueryableInfo]] = msgspec.field(default_factory=dict)

    def info(self, face: DeclarationOwner) -> QueryableInfo:
        """What a face offers under this key, all its ids taken together."""
        return merge_queryable_infos(self.holders[face].values())


def merge_queryable_infos(infos: Iterable[QueryableInfo]) -> QueryableInfo:
    """Several offers as one: complete if any is, and as near as the nearest of those."""
    offers = list(infos)
    complete = any(info.complete for info in offers)
    return QueryableInfo(complete, min(info.distance for info in offers if info.complete == complete))


class DeclarationTable:
    """All declarations of one kind."""

    def __init__(self) -> None:
        self._tree: KeyTree[DeclaredKey] = KeyTree()

    def add(self, key: str, face: DeclarationOwner, number: int, info: QueryableInfo) -> DeclaredKey:
        """A face holds a key under an id; again with other info, that is an update."""
        entry = self._tree.get(key)
        if entry is None:
            entry = DeclaredKey(key)
            self._tree.insert(key, entry)
        entry.holders.setdefault(face, {})[number] = info
        return entry

    def discard(self, key: str, face: DeclarationOwner, number: int) -> None:
        """A face no longer holds a key under this id."""
        entry = self._tree.get(key)
        if entry is None or number not in entry.holders.get(face, {}):
            return
        del entry.holders[face][number]
        if not entry.holders[face]:
            del entry.holders[face]
        if not entry.holders:
            self._tree.remove(key)

    def get(self, key: str) -> DeclaredKey | None:
        """The entry of exactly this key expression."""
        return self._tree.get(key)

    def matching(self, key: str | None) -> list[DeclaredKey]:
        """The entries that intersect a key expression; all of them for None."""
        pairs = self._tree.items() if key is None else self._tree.intersecting(key)
        return [entry for _, entry in pairs]


def is_complete_for(entry: DeclaredKey, info: QueryableInfo, key: str) -> bool:
    """Whether an offer answers for everything a key expression names."""
    return info.complete and includes(entry.key, key)
