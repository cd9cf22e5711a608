"""What happens in a random network, drawn from a seed: who is there, how they are linked, and what they do.

A scenario does not contain the expected results; `model.py` does. It is the same for every mixture of packages, so that
a network of both can be compared with one of either.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["router", "peer", "client"]
Link: TypeAlias = tuple[int, int]
"""The node that connects, and the node that listens."""

PRIORITIES = ("REAL_TIME", "INTERACTIVE_HIGH", "INTERACTIVE_LOW", "DATA_HIGH", "DATA", "DATA_LOW", "BACKGROUND")
ENCODINGS = ("zenoh/bytes", "text/plain", "application/json", "image/png")
TARGETS = ("ALL", "ALL_COMPLETE", "BEST_MATCHING")
CONSOLIDATIONS = ("NONE", "MONOTONIC", "LATEST", "AUTO")
SIZES = (0, 1, 7, 8, 100, 100, 100, 1000, 3000, 20_000, 70_000, 200_000)
NAMESPACE = "n"


@dataclass(frozen=True)
class Node:
    """One session: its role, its package in the mixed network, and what it connects to."""

    role: Role
    package: str
    connects: tuple[int, ...] = ()
    namespace: str = ""
    has_gossip: bool = False
    relays: bool = False
    """Whether it relays for its neighbours of zenspark that relay, too; eclipse-zenoh has no such setting."""
    settings: tuple[tuple[str, object], ...] = ()

    @property
    def has_qos(self) -> bool:
        return ("transport/unicast/qos/enabled", False) not in self.settings


@dataclass(frozen=True)
class Qos:
    """QoS of a publication, and the encoding of its payload."""

    priority: str = "DATA"
    congestion: str = "BLOCK"
    express: bool = False
    reliability: str = "RELIABLE"
    encoding: str = "zenoh/bytes"


@dataclass(frozen=True)
class Entity:
    """A declaration: subscriber, queryable, token, watcher (liveliness subscriber), publisher or querier."""

    name: str
    kind: str
    key: str
    is_declared: bool = False
    complete: bool = False
    replies: tuple[str, ...] = ()
    fails: bool = False
    target: str = "ALL"
    consolidation: str = "NONE"
    qos: Qos = Qos()


@dataclass(frozen=True)
class Message:
    """One publication; `via` names the publisher it goes through, or nothing."""

    id: str
    node: int
    key: str
    size: int
    via: str = ""
    is_delete: bool = False
    is_declared: bool = False
    qos: Qos = Qos()


@dataclass(frozen=True)
class Query:
    """One query; `via` names the querier it goes through, or nothing."""

    id: str
    node: int
    key: str
    target: str
    consolidation: str
    via: str = ""
    is_declared: bool = False


@dataclass(frozen=True)
class Step:
    """Something that changes who is there: open, close or kill a node."""

    do: Literal["open", "close", "kill"]
    node: int


@dataclass(frozen=True)
class Declaration:
    """Something a node declares, undeclares, or undeclares and declares again at once `times` times."""

    do: Literal["declare", "undeclare", "flap"]
    node: int
    entity: Entity
    times: int = 0


@dataclass(frozen=True)
class Phase:
    """Who comes and goes, what they declare, and then, when the network has settled, what they send."""

    steps: tuple[Step, ...]
    declarations: tuple[Declaration, ...]
    messages: tuple[Message, ...]
    questions: tuple[Query, ...]


@dataclass(frozen=True)
class Scenario:
    """A network and what happens in it."""

    seed: int
    nodes: tuple[Node, ...]
    phases: tuple[Phase, ...]

    def of(self, package: str) -> Scenario:
        """The same with all nodes of one package."""
        return self.with_packages(package * len(self.nodes))

    def with_packages(self, packages: str) -> Scenario:
        """The same with these packages, node by node."""
        nodes = (replace(node, package=package) for node, package in zip(self.nodes, packages, strict=True))
        return replace(self, nodes=tuple(nodes))

    @property
    def packages(self) -> str:
        return "".join(node.package for node in self.nodes)

    def __str__(self) -> str:
        """Roles, packages and links, as in `r0e p1z>0 c2z>1`."""
        parts = []
        for number, node in enumerate(self.nodes):
            links = ">" + ",".join(map(str, node.connects)) if node.connects else ""
            marks = "g" * node.has_gossip + "n" * bool(node.namespace) + "l" * node.relays
            parts.append(f"{node.role[0]}{number}{node.package}{marks}{links}")
        return " ".join(parts)


def scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    return _Drawing(seed).scenario()


@dataclass
class _Drawing:
    """The state of drawing one scenario: who is up, and what each node has declared."""

    seed: int
    draw: random.Random = field(init=False)
    nodes: list[Node] = field(default_factory=list)
    up: set[int] = field(default_factory=set)
    declared: dict[int, dict[str, Entity]] = field(default_factory=dict)
    numbers: int = 0

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.chunks = "ab" if self.draw.random() < 0.3 else "abc"
        self.is_narrow = self.draw.random() < 0.25
        """Whether all use the same few keys."""

    def chance(self, probability: float) -> bool:
        return self.draw.random() < probability

    def number(self, letter: str) -> str:
        """A name of eight characters, as long as a message's id."""
        self.numbers += 1
        return f"{letter}{self.numbers:06d}."

    def scenario(self) -> Scenario:
        self.nodes = topology(self.draw)
        late = self._late_joiners()
        phases = [self._phase([Step("open", node) for node in range(len(self.nodes)) if node not in late])]
        for _ in range(self.draw.randint(1, 3)):
            steps = self._churn(late)
            late -= {step.node for step in steps}
            phases.append(self._phase(steps))
        return Scenario(self.seed, tuple(self.nodes), tuple(phases))

    # --- who comes and goes

    def _late_joiners(self) -> set[int]:
        """Nodes that others do not need in order to open."""
        needed = {other for node in self.nodes for other in node.connects}
        free = [node for node in range(len(self.nodes)) if node not in needed]
        return set(self.draw.sample(free, 1)) if free and self.chance(0.4) else set()

    def _churn(self, late: set[int]) -> list[Step]:
        steps = [Step("open", node) for node in sorted(late) if self.chance(0.7) and self._can_open(node)]
        gone = [node for node in range(len(self.nodes)) if node not in self.up and node not in late]
        steps += [Step("open", node) for node in gone if self.chance(0.7) and self._can_open(node)]
        if not steps and self.chance(0.7):
            node = self.draw.choice(sorted(self.up))
            steps.append(Step(self.draw.choice(("close", "kill")), node))
            is_alone = sum(each.role == "router" for each in self.nodes) < 2
            comes_back = self.chance(0.5 if self.nodes[node].role != "router" or is_alone else 0.05)
            if comes_back and self._can_open(node):
                steps.append(Step("open", node))
        return steps

    def _can_open(self, node: int) -> bool:
        """A client needs one it can connect to."""
        return self.nodes[node].role != "client" or any(other in self.up for other in self.nodes[node].connects)

    # --- phases

    def _phase(self, steps: list[Step]) -> Phase:
        declarations: list[Declaration] = []
        for step in steps:
            if step.do != "open":
                self.up.discard(step.node)
                continue
            self.up.add(step.node)
            back = self.declared.pop(step.node, {})
            self.declared[step.node] = {}
            declarations += [self._declare(step.node, entity) for entity in back.values() if self.chance(0.8)]
        declarations += self._declarations()
        return Phase(tuple(steps), tuple(declarations), tuple(self._messages()), tuple(self._questions()))

    def _declare(self, node: int, entity: Entity) -> Declaration:
        self.declared[node][entity.name] = entity
        return Declaration("declare", node, entity)

    def _declarations(self) -> list[Declaration]:
        found: list[Declaration] = []
        for node in sorted(self.up):
            for entity in list(self.declared[node].values()):
                if self.chance(0.2):
                    del self.declared[node][entity.name]
                    found.append(Declaration("undeclare", node, entity))
                elif self.chance(0.15):
                    found.append(Declaration("flap", node, entity, self.draw.randint(1, 6)))
            wanted = self.draw.randint(1, 3) if len(self.declared[node]) < 3 else self.draw.randint(0, 1)
            found += [self._declare(node, self._entity()) for _ in range(wanted)]
        return found

    def _entity(self) -> Entity:
        kinds = ("subscriber", "queryable", "token", "watcher", "publisher", "querier")
        kind = self.draw.choices(kinds, (5, 4, 2, 1, 2, 1))[0]
        key = self.concrete() if kind == "token" else self.key(0.5)
        entity = Entity(self.number(kind[0]), kind, key, is_declared=self.chance(0.2))
        match kind:
            case "queryable":
                replies = tuple(sorted({self.concrete(key) for _ in range(self.draw.randint(1, 2))}))
                return replace(entity, complete=self.chance(0.4), replies=replies, fails=self.chance(0.1))
            case "querier":
                target, consolidation = self.draw.choice(TARGETS), self.draw.choice(CONSOLIDATIONS)
                return replace(entity, target=target, consolidation=consolidation)
            case "publisher":
                reliability = self.draw.choice(("RELIABLE", "RELIABLE", "BEST_EFFORT"))
                return replace(entity, qos=replace(self._qos(), reliability=reliability))
        return entity

    def _messages(self) -> list[Message]:
        found = []
        for node in sorted(self.up):
            publishers = [entity for entity in self.declared[node].values() if entity.kind == "publisher"]
            for _ in range(self.draw.randint(0, 3)):
                publisher = self.draw.choice(publishers) if publishers and self.chance(0.5) else None
                for _ in range(self.draw.choice((1, 1, 4))):
                    found.append(self._message(node, publisher))
        return found

    def _message(self, node: int, publisher: Entity | None) -> Message:
        size, is_delete = self.draw.choice(SIZES), self.chance(0.1)
        message = Message(self.number("m"), node, "", 0 if is_delete else size, is_delete=is_delete)
        if publisher is None:
            return replace(message, key=self.key(0.2), is_declared=self.chance(0.2), qos=self._qos())
        return replace(message, key=publisher.key, via=publisher.name, qos=publisher.qos)

    def _questions(self) -> list[Query]:
        found = []
        for node in sorted(self.up):
            queriers = [entity for entity in self.declared[node].values() if entity.kind == "querier"]
            for querier in queriers:
                found.append(
                    Query(self.number("g"), node, querier.key, querier.target, querier.consolidation, via=querier.name)
                )
            for _ in range(self.draw.randint(0, 2)):
                target = self.draw.choices(TARGETS, (3, 1, 1))[0]
                consolidation = self.draw.choice(CONSOLIDATIONS)
                key, is_declared = self.key(0.5), self.chance(0.2)
                found.append(Query(self.number("g"), node, key, target, consolidation, is_declared=is_declared))
        return found

    # --- values

    def key(self, wild: float) -> str:
        """A key expression; with a given probability one with wildcards."""
        chunks = self.concrete().split("/")
        if self.chance(wild):
            place = self.draw.randrange(len(chunks))
            chunks[place] = self.draw.choice(("*", "**", f"{chunks[place]}$*"))
        return "/".join(chunks)

    def concrete(self, pattern: str = "") -> str:
        """A key without wildcards, one of those that a pattern includes."""
        if not pattern:
            depth = 1 if self.is_narrow else self.draw.randint(1, 3)
            return "/".join(self.draw.choice(self.chunks) for _ in range(depth))
        chunks = []
        for chunk in pattern.split("/"):
            letter = self.draw.choice(self.chunks)
            chunks.append(letter if "*" in chunk and "$" not in chunk else chunk.replace("$*", ""))
        return "/".join(chunks)

    def _qos(self) -> Qos:
        return Qos(
            priority=self.draw.choice(PRIORITIES) if self.chance(0.6) else "DATA",
            congestion=self.draw.choice(("DROP", "BLOCK")),
            express=self.chance(0.3),
            encoding=self.draw.choice(ENCODINGS),
        )


# --- topologies -----------------------------------------------------------------------------------


def topology(draw: random.Random) -> list[Node]:
    """Three to seven nodes with their links, packages and settings."""
    routers = draw.choices((0, 1, 2, 3, 4), (3, 5, 5, 3, 2))[0]
    total = draw.randint(max(3, routers + 1), 7)
    roles: list[Role] = ["router"] * routers
    roles += draw.choices(("peer", "client"), (3, 2), k=total - routers) if routers else _without_routers(draw, total)
    roles.sort(key=("router", "peer", "client").index)
    links = [*_between_routers(draw, routers), *_between_others(draw, roles)]
    gossip = draw.choices(((True,), (False,), (True, False)), (2, 2, 1))[0]
    relays = draw.random() < 0.6
    nodes = [_node(draw, number, role, links) for number, role in enumerate(roles)]
    return [replace(node, has_gossip=draw.choice(gossip), relays=relays and node.role != "client") for node in nodes]


def _without_routers(draw: random.Random, total: int) -> list[Role]:
    peers = draw.randint(2, total)
    return ["peer" if number < peers else "client" for number in range(total)]


def _between_routers(draw: random.Random, routers: int) -> list[Link]:
    """A tree, a ring or a mesh."""
    shape = draw.choice(("tree", "ring", "mesh"))
    if shape == "mesh":
        return [(one, other) for one in range(routers) for other in range(one)]
    links = [(one, draw.randrange(one) if shape == "tree" else one - 1) for one in range(1, routers)]
    return [*links, (routers - 1, 0)] if shape == "ring" and routers > 2 else links


def _between_others(draw: random.Random, roles: list[Role]) -> list[Link]:
    """Peers at a router, at a peer, or at both; clients at anything that listens, some with a second choice."""
    links: list[Link] = []
    routers = [number for number, role in enumerate(roles) if role == "router"]
    listeners = list(routers)
    home: dict[int, int] = {}
    for number, role in enumerate(roles):
        if role == "peer":
            peers = [other for other in listeners if roles[other] == "peer"]
            links += _of_peer(draw, number, routers, peers, home)
            listeners.append(number)
        elif role == "client":
            count = 2 if len(listeners) > 1 and draw.random() < 0.2 else 1
            links += [(number, other) for other in draw.sample(listeners, count)]
    return links


def _of_peer(
    draw: random.Random, number: int, routers: list[int], peers: list[int], home: dict[int, int]
) -> list[Link]:
    """Links of one peer. Two linked peers on two linked routers are two ways for everything, in every package: rare."""
    linked = [peer for peer in peers if draw.random() < (0.25 if routers else 0.7)]
    if routers and (not linked or draw.random() < 0.6):
        near = {home[peer] for peer in linked if peer in home}
        home[number] = near.pop() if near and draw.random() < 0.9 else draw.choice(routers)
        return [
            (number, home[number]),
            *((number, peer) for peer in linked if home.get(peer, home[number]) == home[number]),
        ]
    if not linked and peers:
        linked = [draw.choice(peers)]
    return [(number, peer) for peer in linked]


def _node(draw: random.Random, number: int, role: Role, links: list[Link]) -> Node:
    settings: list[tuple[str, object]] = []
    if draw.random() < 0.2:
        settings.append(("transport/unicast/compression/enabled", True))
    if draw.random() < 0.1:
        settings.append(("transport/unicast/qos/enabled", False))
    if draw.random() < 0.2:
        settings.append(("transport/link/tx/batch_size", draw.choice((512, 1500, 9000))))
    if draw.random() < 0.2:
        settings.append(("timestamping/enabled", draw.random() < 0.7))
    return Node(
        role,
        draw.choice("ze"),
        tuple(other for one, other in links if one == number),
        NAMESPACE if draw.random() < 0.06 else "",
        settings=tuple(settings),
    )
