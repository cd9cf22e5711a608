"""What must arrive in a network, by a naive model: roles, links and declarations, and nothing of zenspark.

A node hands on what it receives by the roles of the two neighbours alone (protocol section 16.2). What a message can
reach that way it must reach, once; what it could reach only if every node handed on everything, once at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tests.networks.scenario import Entity, Message, Node, Query

T = TypeVar("T")
Place = tuple[int, str]
"""A node and the name of one of its entities."""


# --- keys -----------------------------------------------------------------------------------------


def intersects(one: str, other: str) -> bool:
    """Whether some key belongs to both key expressions."""
    return _meet(one.split("/"), other.split("/"), "**", _chunks_meet)


def includes(one: str, other: str) -> bool:
    """Whether every key of the other one belongs to this one, too."""
    return _cover(one.split("/"), other.split("/"), "**", _chunk_covers)


def _chunks_meet(one: str, other: str) -> bool:
    return _meet(_characters(one), _characters(other), "*", str.__eq__)


def _chunk_covers(one: str, other: str) -> bool:
    return _cover(_characters(one), _characters(other), "*", str.__eq__)


def _characters(chunk: str) -> str:
    return chunk.replace("$*", "*")


def _meet(one: Sequence[str], other: Sequence[str], many: str, same: Callable[[str, str], bool]) -> bool:
    """Whether two patterns have a sequence in common, where `many` stands for any number of elements."""
    if one and one[0] == many:
        return _meet(one[1:], other, many, same) or (len(other) > 0 and _meet(one, other[1:], many, same))
    if other and other[0] == many:
        return _meet(other, one, many, same)
    if not one or not other:
        return not one and not other
    return same(one[0], other[0]) and _meet(one[1:], other[1:], many, same)


def _cover(one: Sequence[str], other: Sequence[str], many: str, covers: Callable[[str, str], bool]) -> bool:
    if one and one[0] == many:
        return _cover(one[1:], other, many, covers) or (len(other) > 0 and _cover(one, other[1:], many, covers))
    if not one or not other:
        return not one and not other
    return other[0] != many and covers(one[0], other[0]) and _cover(one[1:], other[1:], many, covers)


# --- the network ----------------------------------------------------------------------------------


@dataclass
class World:
    """Who is there, who is linked to whom, and what is declared where."""

    nodes: Sequence[Node]
    up: set[int] = field(default_factory=set)
    links: set[frozenset[int]] = field(default_factory=set)
    entities: dict[int, dict[str, Entity]] = field(default_factory=dict)

    def neighbours(self, node: int) -> set[int]:
        return {other for link in self.links if node in link for other in link if other != node}

    def forwards(self, node: int, source: int, target: int) -> bool:
        """Whether a node hands what one neighbour sent to another."""
        here = self.nodes[node]
        before, after = self.role_beside(node, source), self.role_beside(node, target)
        if here.role == "client" or source == target:
            return False
        if "client" in (before, after):
            return True
        if before == after == "relay":
            return True
        if here.role == "peer":
            return False
        if before == after == "peer":
            return self._brokers(node, source, target)
        return True

    def role_beside(self, node: int, other: int) -> str:
        """What a neighbour is to a node: two of zenspark that relay are that to each other, whatever their roles."""
        if all(self.nodes[each].relays and self.nodes[each].package == "z" for each in (node, other)):
            return "relay"
        return self.nodes[other].role

    def _brokers(self, router: int, *peers: int) -> bool:
        """Whether a router carries between two peers: zenspark's do where the peers' gossip shows that they have no
        link, whether the router itself gossips or not."""
        knows_links = all(self.nodes[peer].has_gossip for peer in peers)
        return self.nodes[router].package == "z" and knows_links and frozenset(peers) not in self.links

    def _is_network_link(self, one: int, other: int) -> bool:
        """Whether two nodes belong to one network of routers and relays, in which messages go along trees."""
        roles = {self.role_beside(one, other), self.role_beside(other, one)}
        return roles in ({"relay"}, {"router"})

    def reached(self, source: int) -> set[int]:
        """The nodes that what a node sends must reach, itself among them."""
        return self._spread(source, self.forwards)

    def connected(self, source: int) -> set[int]:
        """The nodes that are linked to a node in any way."""
        return self._spread(source, lambda _node, _source, _target: True)

    def _spread(self, source: int, forwards: Callable[[int, int, int], bool]) -> set[int]:
        """The nodes at the ends of all paths. A path never comes back to the node where it entered a network: in a ring
        of routers the one that a peer sent to does not receive the message from the others."""
        waiting = [self._hop(None, source, other) for other in self.neighbours(source)]
        seen = set(waiting)
        while waiting:
            before, node, entry = waiting.pop()
            for other in self.neighbours(node):
                hop = self._hop(entry, node, other)
                if hop not in seen and other != hop[2] and forwards(node, before, other):
                    seen.add(hop)
                    waiting.append(hop)
        return {source} | {node for _, node, _ in seen}

    def _hop(self, entry: int | None, node: int, other: int) -> tuple[int, int, int | None]:
        """One hop from a node, with the node where the message entered the network if the hop is within one."""
        if not self._is_network_link(node, other):
            return node, other, None
        return node, other, node if entry is None else entry

    # --- namespaces

    def add_prefix(self, node: int, key: str) -> str:
        """A key of a node's own as all others have it."""
        namespace = self.nodes[node].namespace
        return f"{namespace}/{key}" if namespace else key

    def strip_prefix(self, node: int, key: str) -> str | None:
        """A key as a node has it for itself; None if it is outside its namespace."""
        namespace = self.nodes[node].namespace
        if not namespace:
            return key
        return key.removeprefix(f"{namespace}/") if key.startswith(f"{namespace}/") else None

    def is_plain(self, source: int, target: int, key: str) -> bool:
        """Whether the model covers a key: with wildcards, between namespaces, packages differ."""
        return "*" not in key or self.nodes[source].namespace == self.nodes[target].namespace

    # --- receivers

    def matches(self, source: int, kind: str, key: str) -> Iterator[tuple[Place, Entity]]:
        """The entities anywhere in the linked network that match what a node sends."""
        for node in sorted(self.connected(source)):
            for name, entity in self.entities[node].items():
                if entity.kind == kind and intersects(self.add_prefix(source, key), self.add_prefix(node, entity.key)):
                    yield (node, name), entity

    def receivers(self, message: Message) -> tuple[set[Place], set[Place]]:
        """The subscribers that must receive a message, and those that may."""
        may = {place for place, _ in self.matches(message.node, "subscriber", message.key)}
        return self.certain(message.node, message.key, may), may

    def may_drop(self, message: Message) -> bool:
        """Whether a message may be lost: with DROP, eclipse-zenoh drops fragments in an idle network, too."""
        return message.qos.congestion == "DROP" and any(node.package == "e" for node in self.nodes)

    def certain(self, source: int, key: str, places: set[Place]) -> set[Place]:
        """Those of the entities that match which a node must reach."""
        reached = self.reached(source)
        return {place for place in places if place[0] in reached and self.is_plain(source, place[0], key)}

    def queried(self, question: Query) -> tuple[set[Place], set[Place], set[Place]]:
        """The queryables that must be queried, those of which at least one must be, and those that may be."""
        found = dict(self.matches(question.node, "queryable", question.key))
        certain = self.certain(question.node, question.key, set(found))
        key = self.add_prefix(question.node, question.key)
        whole = {
            place
            for place in certain
            if found[place].complete and includes(self.add_prefix(place[0], found[place].key), key)
        }
        match question.target:
            case "ALL":
                return certain, set(), set(found)
            case "ALL_COMPLETE":
                return whole, set(), {place for place, entity in found.items() if entity.complete}
        return (set(), whole, set(found)) if whole else (certain, set(), set(found))

    def replies(self, question: Query, place: Place) -> list[str]:
        """The keys of the replies of one queryable, as the querier has them."""
        node, name = place
        full = (self.add_prefix(node, key) for key in self.entities[node][name].replies)
        wanted = self.add_prefix(question.node, question.key)
        return [str(self.strip_prefix(question.node, key)) for key in full if intersects(wanted, key)]

    def is_matching(self, node: int, entity: Entity) -> bool | None:
        """What the matching status of a publisher or querier must be; None where packages differ."""
        kind = "subscriber" if entity.kind == "publisher" else "queryable"
        found = dict(self.matches(node, kind, entity.key))
        if entity.kind == "querier" and entity.target == "ALL_COMPLETE":
            found = {place: each for place, each in found.items() if each.complete}
            key = self.add_prefix(node, entity.key)
            whole = {place for place, each in found.items() if includes(self.add_prefix(place[0], each.key), key)}
        else:
            whole = set(found)
        if self.certain(node, entity.key, whole):
            return True
        return None if found else False

    def alive(self, node: int, key: str) -> set[str]:
        """The keys of tokens that a node must see."""
        wanted = self.add_prefix(node, key)
        tokens = {
            self.add_prefix(other, entity.key)
            for other in self.reached(node)
            for entity in self.entities[other].values()
            if entity.kind == "token"
        }
        return {str(self.strip_prefix(node, token)) for token in tokens if intersects(wanted, token)}
