# cython: language_level=3, freethreading_compatible=True
"""Values stored by key expression, and all those whose expression intersects, includes or is included by another.

A dictionary holds every expression by its text, and so finds the one that equals a key. For the others there are two
trees of chunks: one of the expressions with a `*` in their text, one of those without. A lookup of a key without
wildcards walks the first tree only, so its cost follows from the length of the key and the wildcards on its way, not from
how many plain keys are stored. A lookup with wildcards walks both.

A walk takes the chunks of the looked-up expression one by one and keeps the nodes that the chunks so far lead to:

* `fresh`, the nodes the latest chunk led to. A node has one parent and one edge to it, so none comes up twice.
* `loops`, the nodes behind a stored `**`. They stay for as long as the `**` may take what comes, and a chunk can lead to
  one that is there already; therefore a dictionary.

What a chunk leads to is section 12.2 seen from the tree, for each of the three relations an expression in the tree can
have to the one looked up.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

import cython

from zenspark.key.match import includes, intersects

if TYPE_CHECKING:
    from zenspark.key import KeyExpr

V = TypeVar("V")

# What kind of chunk it is.
LITERAL = cython.declare(cython.int, 0)
VERBATIM = cython.declare(cython.int, 1)
GLOB = cython.declare(cython.int, 2)  # with `$*`
STAR = cython.declare(cython.int, 3)
STAR_STAR = cython.declare(cython.int, 4)

# In which relation what is stored stands to what is looked up.
INTERSECTING = cython.declare(cython.int, 0)
INCLUDING = cython.declare(cython.int, 1)
INCLUDED = cython.declare(cython.int, 2)


class KeyTree(Generic[V]):
    """A mapping from key expressions to values that can also be asked by relation.

    A text is taken at its word: it must be canonical, as a KeyExpr is. Lookups answer with lists of expression and value in
    no particular order, which stay as they are when the tree changes. One thread at a time.
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
        """Everything stored, oldest first."""
        return iter(self._entries.values())

    def get(self, key: KeyExpr | str) -> V | None:
        """What is stored under exactly this expression."""
        entry = self._entries.get(str(key))
        return None if entry is None else entry[1]

    def insert(self, key: KeyExpr | str, value: V) -> None:
        """Stores a value, in place of the one already stored under the same expression."""
        text = str(key)
        node: _Node = self._root(text)
        for chunk in text.split("/"):
            node = node.grow(chunk)
        entry = (text, value)
        node.entry = entry
        self._entries[text] = entry

    def remove(self, key: KeyExpr | str) -> V | None:
        """Takes out what is stored under exactly this expression, and hands it over."""
        text = str(key)
        entry = self._entries.pop(text, None)
        if entry is None:
            return None
        _prune(self._root(text), text.split("/"))
        return entry[1]

    def intersecting(self, key: KeyExpr | str) -> list[tuple[str, V]]:
        """All whose expression shares a key with this one."""
        text = str(key)
        if "*" not in text:
            return self._matching(text)
        return _walk(self._wild, text, INTERSECTING) + _walk(self._plain, text, INTERSECTING)

    def including(self, key: KeyExpr | str) -> list[tuple[str, V]]:
        """All whose expression includes this one."""
        text = str(key)
        if "*" not in text:
            return self._matching(text)
        return _walk(self._wild, text, INCLUDING)

    def included(self, key: KeyExpr | str) -> list[tuple[str, V]]:
        """All whose expression this one includes."""
        text = str(key)
        if "*" not in text:
            return self._equal(text)
        return _walk(self._wild, text, INCLUDED) + _walk(self._plain, text, INCLUDED)

    def _matching(self, key: str) -> list[tuple[str, V]]:
        return self._equal(key) + _walk(self._wild, key, INCLUDING)

    def _equal(self, key: str) -> list[tuple[str, V]]:
        entry = self._entries.get(key)
        return [] if entry is None else [entry]

    def _root(self, text: str) -> _Node:
        return self._wild if "*" in text else self._plain


@cython.final
@cython.auto_pickle(False)
@cython.trashcan(True)  # freeing a long chain of nodes must not exhaust the C stack
@cython.cclass
class _Node:
    """One chunk of stored expressions: what ends here, and the chunks that follow, each kind in its own place."""

    __slots__ = ("entry", "globs", "literals", "star", "star_star", "verbatims")

    entry: tuple[str, object] | None
    literals: dict[str, _Node] | None
    verbatims: dict[str, _Node] | None
    globs: dict[str, _Node] | None  # chunks with `$*`
    star: _Node | None
    star_star: _Node | None

    def __init__(self) -> None:
        self.entry = None
        self.literals = None
        self.verbatims = None
        self.globs = None
        self.star = None
        self.star_star = None

    @cython.cfunc
    def child(self, chunk: str) -> _Node | None:
        kind: cython.int = _kind(chunk)
        if kind == STAR:
            return self.star
        if kind == STAR_STAR:
            return self.star_star
        children: dict[str, _Node] | None = self.literals
        if kind == VERBATIM:
            children = self.verbatims
        elif kind == GLOB:
            children = self.globs
        return None if children is None else children.get(chunk)

    @cython.cfunc
    def link(self, chunk: str, child: _Node | None) -> None:
        """Puts a child in its place, or with None empties the place."""
        kind: cython.int = _kind(chunk)
        if kind == STAR:
            self.star = child
        elif kind == STAR_STAR:
            self.star_star = child
        elif kind == VERBATIM:
            self.verbatims = _linked(self.verbatims, chunk, child)
        elif kind == GLOB:
            self.globs = _linked(self.globs, chunk, child)
        else:
            self.literals = _linked(self.literals, chunk, child)

    @cython.cfunc
    def grow(self, chunk: str) -> _Node:
        """Finds the child, or makes it."""
        child: _Node | None = self.child(chunk)
        if child is None:
            child = _Node()
            self.link(chunk, child)
        return child

    @cython.cfunc
    def is_bare(self) -> cython.bint:
        """Whether neither a value nor a child keeps it alive."""
        return (
            self.entry is None
            and self.literals is None
            and self.verbatims is None
            and self.globs is None
            and self.star is None
            and self.star_star is None
        )


@cython.cfunc
@cython.exceptval(check=False)
def _kind(chunk: str) -> cython.int:
    if chunk[0] == "@":
        return VERBATIM
    if "*" not in chunk:
        return LITERAL
    if chunk == "*":
        return STAR
    return STAR_STAR if chunk == "**" else GLOB


@cython.cfunc
def _linked(children: dict[str, _Node] | None, chunk: str, child: _Node | None) -> dict[str, _Node] | None:
    if children is None:
        children = {}
    if child is None:
        del children[chunk]
        return children if children else None
    # The same few chunks come back under many parents: one copy of each saves memory and cache.
    children[sys.intern(chunk)] = child
    return children


@cython.cfunc
def _prune(root: _Node, chunks: list[str]) -> None:
    """Takes out the value at the end of the chunks, and every node nothing is left for."""
    node: _Node | None = root
    path: list[_Node] = []
    for chunk in chunks:
        path.append(node)
        node = node.child(chunk)
    node.entry = None
    while path and node.is_bare():
        node = path.pop()
        node.link(chunks.pop(), None)


# --- the walk -------------------------------------------------------------------------------------


@cython.cfunc
def _walk(root: _Node, text: str, relation: cython.int) -> list:
    """The entries of one tree that stand in the relation to the expression."""
    node: _Node
    kind: cython.int
    fresh: list = [root]
    loops: dict = {}
    found: list = []
    chunk: str
    if relation != INCLUDED:
        _open_loops(fresh, loops)
    for chunk in text.split("/"):
        kind = _kind(chunk)
        if kind == STAR_STAR:
            fresh = [] if relation == INCLUDING else _descend(fresh, loops, relation)
        else:
            fresh = _step(fresh, loops, chunk, kind, relation)
        if not fresh and not loops:
            return found
    for node in fresh:
        if node.entry is not None:
            found.append(node.entry)
    for node in loops:
        if node.entry is not None:
            found.append(node.entry)
    return found


@cython.cfunc
def _open_loops(fresh: list, loops: dict) -> None:
    """Adds the nodes that can be reached for nothing, because a stored `**` takes no chunk at all."""
    node: _Node
    for node in fresh:
        if node.star_star is not None:
            loops[node.star_star] = None


@cython.cfunc
def _step(fresh: list, loops: dict, chunk: str, kind: cython.int, relation: cython.int) -> list:
    """Takes one chunk, not a `**`: returns the new fresh nodes and brings the loops up to date."""
    node: _Node
    reached: list = []
    for node in fresh:
        _follow(node, chunk, kind, relation, reached)
    for node in loops:
        _follow(node, chunk, kind, relation, reached)
    if kind == VERBATIM:
        loops.clear()
    if relation != INCLUDED:
        _open_loops(reached, loops)
    return reached


@cython.cfunc
def _follow(node: _Node, chunk: str, kind: cython.int, relation: cython.int, reached: list) -> None:
    """Adds the children of a node that one chunk leads to."""
    if kind == VERBATIM:
        _add_equal(node.verbatims, chunk, reached)
        return
    if kind == LITERAL:
        _add_equal(node.literals, chunk, reached)
    elif relation != INCLUDING:
        _add_related(node.literals, chunk, kind, relation, reached)
    if node.star is not None and (relation != INCLUDED or kind == STAR):
        reached.append(node.star)
    _add_related(node.globs, chunk, kind, relation, reached)


@cython.cfunc
def _add_equal(children: dict[str, _Node] | None, chunk: str, reached: list) -> None:
    if children is not None:
        child = children.get(chunk)
        if child is not None:
            reached.append(child)


@cython.cfunc
def _add_related(
    children: dict[str, _Node] | None, chunk: str, kind: cython.int, relation: cython.int, reached: list
) -> None:
    """Adds the children whose own chunk, a literal or one with `$*`, stands in the relation to this one."""
    if children is None:
        return
    if kind == STAR:
        if relation != INCLUDING:
            reached.extend(children.values())
        return
    for text, child in children.items():
        if relation == INTERSECTING:
            related = intersects(text, chunk)
        elif relation == INCLUDING:
            related = includes(text, chunk)
        else:
            related = includes(chunk, text)
        if related:
            reached.append(child)


@cython.cfunc
def _descend(fresh: list, loops: dict, relation: cython.int) -> list:
    """Takes a `**`: everything below is reached, except by way of a verbatim chunk."""
    node: _Node
    reached: list = [*fresh, *loops]
    seen: set = set(reached)
    children: list
    for node in reached:  # grows on the way
        children = []
        _add_related(node.literals, "*", STAR, relation, children)
        _add_related(node.globs, "*", STAR, relation, children)
        if node.star is not None:
            children.append(node.star)
        if node.star_star is not None:
            children.append(node.star_star)
            if relation == INTERSECTING:
                loops[node.star_star] = None
        for child in children:
            if child not in seen:
                seen.add(child)
                reached.append(child)
    return [node for node in reached if node not in loops]
