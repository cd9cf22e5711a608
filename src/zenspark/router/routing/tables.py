"""Declared keys and their owners: one table for each kind of declaration."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from zenspark.key.match import includes
from zenspark.key.tree import KeyTree
from zenspark.router.face import DeclarationOwner
from zenspark.wire.values import QueryableInfo


class DeclaredKey(msgspec.Struct, eq=False):
    """One declared key expression, and its owners with the infos of their declarations by id."""

    key: str
    owners: dict[DeclarationOwner, dict[int, QueryableInfo]] = msgspec.field(default_factory=dict)

    def info(self, owner: DeclarationOwner) -> QueryableInfo:
        """Merged info of all declarations of an owner on this key."""
        return merge_queryable_infos(self.owners[owner].values())


def merge_queryable_infos(infos: Iterable[QueryableInfo]) -> QueryableInfo:
    """Merge queryable infos: complete if any is, with the smallest distance among those."""
    all_infos = list(infos)
    if len(all_infos) == 1:  # nearly always
        return all_infos[0]
    complete = any(info.complete for info in all_infos)
    return QueryableInfo(complete, min(info.distance for info in all_infos if info.complete == complete))


class DeclarationTable:
    """All declarations of one kind."""

    def __init__(self) -> None:
        self._tree: KeyTree[DeclaredKey] = KeyTree()

    def add(self, key: str, owner: DeclarationOwner, declaration_id: int, info: QueryableInfo) -> DeclaredKey:
        """Add a declaration of an owner; with a known id it is an update."""
        entry = self._tree.get(key)
        if entry is None:
            entry = DeclaredKey(key)
            self._tree.insert(key, entry)
        entry.owners.setdefault(owner, {})[declaration_id] = info
        return entry

    def discard(self, key: str, owner: DeclarationOwner, declaration_id: int) -> None:
        """Remove a declaration of an owner."""
        entry = self._tree.get(key)
        if entry is None or declaration_id not in entry.owners.get(owner, {}):
            return
        del entry.owners[owner][declaration_id]
        if not entry.owners[owner]:
            del entry.owners[owner]
        if not entry.owners:
            self._tree.remove(key)

    def get(self, key: str) -> DeclaredKey | None:
        """The entry of exactly this key expression."""
        return self._tree.get(key)

    def matching(self, key: str | None) -> list[DeclaredKey]:
        """Entries that intersect a key expression; all of them for None."""
        pairs = self._tree.items() if key is None else self._tree.intersecting(key)
        return [entry for _, entry in pairs]


def is_complete_for(entry: DeclaredKey, info: QueryableInfo, key: str) -> bool:
    """Whether a queryable is complete for everything a key expression matches."""
    return info.complete and includes(entry.key, key)
