# cython: language_level=3, freethreading_compatible=True
"""KeyTree: values stored by key expression, with lookup by intersection and inclusion.

A dictionary holds every entry by its text, for exact lookup. For the relations there are two trees of chunks: one of
the expressions with a `*` in their text, one of those without. A lookup of a key without wildcards walks the first tree
only, so its cost depends on the length of the key and the wildcards on its path, not on the number of plain keys
stored. A lookup with wildcards walks both.

A walk takes the chunks of the looked-up expression one by one and keeps the branches that the chunks so far lead to:

* `fresh`, those the latest chunk led to. A branch has one parent and one chunk, so none comes up twice.
* `loops`, those behind a stored `**`. They stay for as long as the `**` may match what follows, and a chunk can lead to
  one that is there already; therefore a dictionary by identity.

The branches a chunk leads to follow from section 12.2, for each of the three relations that an expression in the tree
can have to the one looked up.

With wildcards on both sides, or many of them, a walk can visit far more nodes than there are entries, once for each
chunk. It is abandoned then, and all entries are matched one by one: a lookup never takes much longer than that.

With a million entries the time is spent on cache misses, so the trees touch little memory: nothing is allocated for the
end of an expression but its entry, and a few children are kept in one tuple.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import cython

from zenspark.key.match import includes, intersects

if TYPE_CHECKING:
    from zenspark.key.keyexpr import KeyExpr

V = TypeVar("V")

# A node if more chunks follow, otherwise the entry that ends there.
Branch: TypeAlias = "_Node | tuple[str, Any]"
# Branches by chunk: up to MAX_TUPLE_CHILDREN in a tuple, chunk and branch alternating; beyond, in a dictionary.
Children: TypeAlias = "dict[str, Branch] | tuple[Any, ...] | None"
MAX_TUPLE_CHILDREN = cython.declare(cython.Py_ssize_t, 4)

# Kinds of chunks.
LITERAL_CHUNK = cython.declare(cython.int, 0)
VERBATIM_CHUNK = cython.declare(cython.int, 1)
GLOB_CHUNK = cython.declare(cython.int, 2)  # with `$*`
STAR_CHUNK = cython.declare(cython.int, 3)
STAR_STAR_CHUNK = cython.declare(cython.int, 4)

# Relations of the stored expression to the one looked up.
INTERSECTING = cython.declare(cython.int, 0)
INCLUDING = cython.declare(cython.int, 1)
INCLUDED = cython.declare(cython.int, 2)


class KeyTree(Generic[V]):
    """Mapping from key expressions to values, with lookup by relation.

    Texts are not validated: they must be canonical, as that of a KeyExpr is. Lookups return a list of texts and values
    in no particular order, which does not change with the tree. Not thread-safe.
    """

    __slots__ = ("_entries", "_plain", "_wild")

    def __init__(self) -> None:
        self._entries: dict[str, tuple[str, V]] = {}
        self._plain = _Node()
        self._wild = _Node()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: KeyExpr | str) -> bool:
        return str(key) in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def items(self) -> Iterator[tuple[str, V]]:
        """All entries, oldest first."""
        return iter(self._entries.values())

    def get(self, key: KeyExpr | str) -> V | None:
        """Value stored under exactly this expression."""
        entry = self._entries.get(str(key))
        return None if entry is None else entry[1]

    def insert(self, key: KeyExpr | str, value: V) -> None:
        """Store a value, replacing the one already stored under the same expression."""
        text = str(key)
        entry = (text, value)
        self._entries[text] = entry
        _insert_entry(self._wild if "*" in text else self._plain, text.split("/"), entry)

    def remove(self, key: KeyExpr | str) -> V | None:
        """Remove and return the value stored under exactly this expression."""
        text = str(key)
        entry = self._entries.pop(text, None)
        if entry is None:
            return None
        _remove_entry(self._wild if "*" in text else self._plain, text.split("/"))
        return entry[1]

    def intersecting(self, key: KeyExpr | str) -> list[tuple[str, V]]:
        """Entries whose expression intersects this one."""
        text = str(key)
        if "*" not in text:
            return self._matching(text)
        matches: list[tuple[str, V]] = []
        walk: _TreeWalk = _new_walk(len(self._entries), matches)
        if walk.collect(self._wild, text, INTERSECTING) and walk.collect(self._plain, text, INTERSECTING):
            return matches
        return [entry for entry in self._entries.values() if intersects(entry[0], text)]

    def including(self, key: KeyExpr | str) -> list[tuple[str, V]]:
        """Entries whose expression includes this one."""
        text = str(key)
        if "*" not in text:
            return self._matching(text)
        matches: list[tuple[str, V]] = []
        if _new_walk(len(self._entries), matches).collect(self._wild, text, INCLUDING):
            return matches
        return [entry for entry in self._entries.values() if includes(entry[0], text)]

    def included(self, key: KeyExpr | str) -> list[tuple[str, V]]:
        """Entries whose expression is included by this one."""
        text = str(key)
        if "*" not in text:
            return self._equal(text)
        matches: list[tuple[str, V]] = []
        walk: _TreeWalk = _new_walk(len(self._entries), matches)
        if walk.collect(self._wild, text, INCLUDED) and walk.collect(self._plain, text, INCLUDED):
            return matches
        return [entry for entry in self._entries.values() if includes(text, entry[0])]

    def _matching(self, text: str) -> list[tuple[str, V]]:
        matches = self._equal(text)
        wild: _Node = self._wild
        if wild.is_childless():
            return matches
        if _new_walk(len(self._entries), matches).collect(self._wild, text, INCLUDING):
            return matches
        return [entry for entry in self._entries.values() if includes(entry[0], text)]

    def _equal(self, text: str) -> list[tuple[str, V]]:
        entry = self._entries.get(text)
        return [] if entry is None else [entry]


# --- the tree -------------------------------------------------------------------------------------


@cython.final
@cython.auto_pickle(False)
@cython.trashcan(True)  # freeing a long chain of nodes must not exhaust the C stack
@cython.cclass
class _Node:
    """Node of a tree of chunks: its children by the kind of their chunk, and the entry that ends at it."""

    __slots__ = ("entry", "globs", "literals", "star", "star_star")

    entry: tuple[str, Any] | None
    literals: Children  # verbatim chunks, too
    globs: Children
    star: Branch | None
    star_star: Branch | None

    def __init__(self) -> None:
        self.entry = None
        self.literals = None
        self.globs = None
        self.star = None
        self.star_star = None

    @cython.cfunc
    def child(self, chunk: str) -> Branch | None:
        kind: cython.int = _kind(chunk)
        if kind == STAR_CHUNK:
            return self.star
        if kind == STAR_STAR_CHUNK:
            return self.star_star
        return _find(self.globs if kind == GLOB_CHUNK else self.literals, chunk)

    @cython.cfunc
    def set_child(self, chunk: str, child: Branch | None) -> None:
        kind: cython.int = _kind(chunk)
        if kind == STAR_CHUNK:
            self.star = child
        elif kind == STAR_STAR_CHUNK:
            self.star_star = child
        elif kind == GLOB_CHUNK:
            self.globs = _with_child(self.globs, chunk, child)
        else:
            self.literals = _with_child(self.literals, chunk, child)

    @cython.cfunc
    def is_childless(self) -> cython.bint:
        return self.literals is None and self.globs is None and self.star is None and self.star_star is None


@cython.cfunc
@cython.exceptval(check=False)
def _kind(chunk: str) -> cython.int:
    if len(chunk) > 0 and chunk[0] == "@":
        return VERBATIM_CHUNK
    if "*" not in chunk:
        return LITERAL_CHUNK
    if chunk == "*":
        return STAR_CHUNK
    return STAR_STAR_CHUNK if chunk == "**" else GLOB_CHUNK


@cython.cfunc
def _find(children: Children, chunk: str) -> Branch | None:
    at: cython.Py_ssize_t
    many: dict[str, Branch]
    few: tuple[Any, ...]
    stored: str
    if children is None:
        return None
    if isinstance(children, dict):
        many = children
        return many.get(chunk)
    few = children
    for at in range(0, len(few), 2):
        stored = few[at]
        if stored == chunk:
            return few[at + 1]
    return None


@cython.cfunc
def _with_child(children: Children, chunk: str, child: Branch | None) -> Children:
    """Insert, replace or, with None, remove one of the children, in a tuple or dictionary by their number."""
    many: dict[str, Branch]
    few: tuple[Any, ...]
    if isinstance(children, dict):
        many = children
    else:
        few = children or ()
        many = dict(zip(few[::2], few[1::2], strict=True))
    if child is None:
        del many[chunk]
    else:
        # The same few chunks recur under many parents: one copy of each saves memory and cache.
        many[sys.intern(chunk)] = child
    if len(many) > MAX_TUPLE_CHILDREN:
        return many
    return tuple([part for pair in many.items() for part in pair]) or None


@cython.cfunc
def _insert_entry(root: _Node, chunks: list[str], entry: tuple[str, Any]) -> None:
    """Place an entry at the end of its chunks, with nodes on the way to it."""
    node: _Node = root
    below: _Node
    chunk: str
    last: str = chunks.pop()
    for chunk in chunks:
        child = node.child(chunk)
        if isinstance(child, _Node):
            node = child
        else:
            below = _Node()
            below.entry = child
            node.set_child(chunk, below)
            node = below
    child = node.child(last)
    if isinstance(child, _Node):
        below = child
        below.entry = entry
    else:
        node.set_child(last, entry)


@cython.cfunc
def _remove_entry(root: _Node, chunks: list[str]) -> None:
    """Remove the entry at the end of the chunks, and the nodes that only led to it."""
    node: _Node = root
    path: list[_Node] = []
    chunk: str
    last: str = chunks.pop()
    for chunk in chunks:
        path.append(node)
        node = node.child(chunk)
    child = node.child(last)
    if isinstance(child, _Node):
        node = child
        node.entry = None
        return
    node.set_child(last, None)
    while path and node.is_childless():
        entry = node.entry
        node = path.pop()
        node.set_child(chunks.pop(), entry)


# --- the walk -------------------------------------------------------------------------------------


STEPS_PER_ENTRY = cython.declare(cython.Py_ssize_t, 1)
"""Steps of a walk that take about as long as matching one entry: with many entries both wait for memory."""
MIN_WALK_STEPS = cython.declare(cython.Py_ssize_t, 1000)
"""Steps a walk may take in any case."""


@cython.final
@cython.auto_pickle(False)
@cython.cclass
class _TreeWalk:
    """One lookup: collects matches, and is abandoned when it takes longer than matching all entries would."""

    __slots__ = ("matches", "steps_left")

    matches: list[tuple[str, Any]]
    steps_left: cython.Py_ssize_t

    @cython.cfunc
    def collect(self, root: _Node, text: str, relation: cython.int) -> cython.bint:
        """Add the entries of one tree that are in the relation to the expression; False if abandoned."""
        node: _Node
        chunk: str
        kind: cython.int
        fresh: list[Branch] = [root]
        loops: dict[int, Branch] = {}
        if relation != INCLUDED:
            _open_loops(fresh, loops)
        for chunk in text.split("/"):
            kind = _kind(chunk)
            if kind != STAR_STAR_CHUNK:
                fresh = self.step(fresh, loops, chunk, kind, relation)
            elif relation == INCLUDING:
                fresh = []
            else:
                fresh = self.descend(fresh, loops, relation)
            if self.steps_left < 0:
                return False
            if not fresh and not loops:
                return True
        fresh.extend(loops.values())
        for branch in fresh:
            if not isinstance(branch, _Node):
                self.matches.append(branch)
                continue
            node = branch
            if node.entry is not None:
                self.matches.append(node.entry)
        return True

    @cython.cfunc
    def step(
        self, fresh: list[Branch], loops: dict[int, Branch], chunk: str, kind: cython.int, relation: cython.int
    ) -> list[Branch]:
        """Take one chunk that is not `**`: return the new fresh branches, and bring the loops up to date."""
        reached: list[Branch] = []
        self.steps_left -= len(fresh) + len(loops)
        for branch in fresh:
            if self.steps_left < 0:
                return reached
            if isinstance(branch, _Node):
                self.follow(branch, chunk, kind, relation, reached)
        for branch in loops.values():
            if self.steps_left < 0:
                return reached
            if isinstance(branch, _Node):
                self.follow(branch, chunk, kind, relation, reached)
        if kind == VERBATIM_CHUNK:
            loops.clear()
        if relation != INCLUDED:
            _open_loops(reached, loops)
        return reached

    @cython.cfunc
    def follow(self, node: _Node, chunk: str, kind: cython.int, relation: cython.int, reached: list[Branch]) -> None:
        """Add the children of a node that one chunk leads to."""
        if kind in (LITERAL_CHUNK, VERBATIM_CHUNK):
            child = _find(node.literals, chunk)
            if child is not None:
                reached.append(child)
            if kind == VERBATIM_CHUNK:
                return
        elif relation != INCLUDING:
            self.add_related(node.literals, chunk, kind, relation, reached)
        if node.star is not None and (relation != INCLUDED or kind == STAR_CHUNK):
            reached.append(node.star)
        self.add_related(node.globs, chunk, kind, relation, reached)

    @cython.cfunc
    def add_related(
        self, children: Children, chunk: str, kind: cython.int, relation: cython.int, reached: list[Branch]
    ) -> None:
        """Add the children whose chunk is in the relation to the chunk looked up."""
        at: cython.Py_ssize_t
        many: dict[str, Branch]
        few: tuple[Any, ...]
        if children is None:
            return
        if isinstance(children, dict):
            many = children
            self.steps_left -= len(many)
            for stored, child in many.items():
                if _is_related(stored, chunk, kind, relation):
                    reached.append(child)
            return
        few = children
        for at in range(0, len(few), 2):
            if _is_related(few[at], chunk, kind, relation):
                reached.append(few[at + 1])

    @cython.cfunc
    def descend(self, fresh: list[Branch], loops: dict[int, Branch], relation: cython.int) -> list[Branch]:
        """Collect the branches that a `**` can reach without crossing a verbatim chunk."""
        node: _Node
        below: list[Branch]
        reached: list[Branch] = list(fresh)
        queue: list[Branch] = [*fresh, *loops.values()]
        starts: set[int] = {id(branch) for branch in queue}  # one of them may stand below another
        for branch in queue:  # grows on the way
            self.steps_left -= 1
            if self.steps_left < 0:
                return reached
            if not isinstance(branch, _Node):
                continue
            node = branch
            below = []
            self.follow(node, "*", STAR_CHUNK, relation, below)
            below = [child for child in below if id(child) not in starts]
            reached += below
            queue += below
            star_star = node.star_star
            if star_star is None or id(star_star) in starts:
                continue
            queue.append(star_star)
            if relation == INTERSECTING:
                loops[id(star_star)] = star_star
            else:
                reached.append(star_star)
        return reached


@cython.cfunc
def _new_walk(entries: cython.Py_ssize_t, matches: list[tuple[str, Any]]) -> _TreeWalk:
    """Make a walk that adds to a list, in a tree with this number of entries; without the cost of a constructor."""
    walk: _TreeWalk = _TreeWalk.__new__(_TreeWalk)
    walk.matches = matches
    walk.steps_left = MIN_WALK_STEPS + STEPS_PER_ENTRY * entries
    return walk


@cython.cfunc
def _open_loops(fresh: list[Branch], loops: dict[int, Branch]) -> None:
    """Add the branches behind a stored `**` at once, because a `**` may match zero chunks."""
    node: _Node
    for branch in fresh:
        if isinstance(branch, _Node):
            node = branch
            if node.star_star is not None:
                loops[id(node.star_star)] = node.star_star


@cython.cfunc
def _is_related(stored: str, chunk: str, kind: cython.int, relation: cython.int) -> cython.bint:
    if kind == STAR_CHUNK and relation != INCLUDING:
        return _kind(stored) != VERBATIM_CHUNK
    if relation == INTERSECTING:
        return intersects(stored, chunk)
    if relation == INCLUDING:
        return includes(stored, chunk)
    return includes(chunk, stored)
