"""One run of a scenario: processes are opened, linked and used; what they receive is compared with the model."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tests.interop.reference import unused
from tests.networks.model import Place, World
from tests.networks.processes import Pool, Process, WorkerFailed, execute_all
from tests.networks.scenario import Declaration, Message, Phase, Query, Scenario, Step

SETTLING_SECONDS = 10.0
"""How long a network has to reach the state of the model."""
QUIET_SECONDS = 0.4
"""How long links must have stayed as they are where more may come by gossip, or trees of routers be computed anew."""
SLOW_SECONDS = 5.0
"""A query that takes as long as this was not ended by its replies."""
POLL_SECONDS = 0.01

BASE: dict[str, object] = {
    "scouting/multicast/enabled": False,
    "transport/shared_memory/enabled": False,
    "connect/retry": {"period_init_ms": 50, "period_max_ms": 200, "period_increase_factor": 2},
    # On a busy machine a neighbour may be slow; what may be dropped is not meant to be dropped here.
    "transport/link/tx/queue/congestion_control/drop/wait_before_drop": 5_000_000,
    "transport/link/tx/queue/congestion_control/drop/max_wait_before_drop_fragments": 5_000_000,
}


@dataclass(frozen=True)
class Difference:
    """A difference from the model; runs are compared by its kind."""

    kind: str
    text: str
    querier: tuple[int, str, str] | None = None
    """Node, key and target of the querier that does not match, or whose query is missing."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def without_consequences(differences: list[Difference]) -> list[Difference]:
    """Leave out that a querier does not match where its query is missing: an eclipse-zenoh router that passes it on to
    no queryable declares it in its reply to the querier's INTEREST, and the missing query is judged by itself."""
    unanswered = {each.querier for each in differences if each.kind == "missing query"}
    return [each for each in differences if each.kind != "matching" or each.querier not in unanswered - {None}]


@dataclass
class Outcome:
    """What one run gave. Where a process of eclipse-zenoh failed, it gave nothing."""

    packages: str
    differences: list[Difference] = field(default_factory=list)
    seconds: float = 0.0
    failure: str = ""
    links: list[set[frozenset[int]]] = field(default_factory=list)
    """Who was linked to whom, phase by phase."""

    @property
    def kinds(self) -> set[str]:
        return {difference.kind for difference in self.differences}


def run(scenario: Scenario, pool: Pool) -> Outcome:
    """Run a scenario with the packages its nodes have."""
    began = time.monotonic()
    network = Network(scenario, pool)
    outcome = Outcome(scenario.packages)
    try:
        for phase in scenario.phases:
            network.perform(phase)
            outcome.links.append(network.world.links)
        network.close()
    except WorkerFailed as error:
        if error.package == "e":
            outcome.failure = str(error)
        else:
            network.differences.append(Difference("failure", str(error)))
    finally:
        network.kill()
    outcome.differences = without_consequences(network.differences)
    outcome.seconds = time.monotonic() - began
    return outcome


class Network:
    """The processes of one run, and the model of what they are."""

    def __init__(self, scenario: Scenario, pool: Pool) -> None:
        self.nodes = scenario.nodes
        self.pool = pool
        self.processes: dict[int, Process] = {}
        self.zids: dict[int, str] = {}
        self.endpoints = [unused() if node.role != "client" else "" for node in self.nodes]
        self.world = World(self.nodes, entities={node: {} for node in range(len(self.nodes))})
        self.differences: list[Difference] = []
        self.phases = 0

    # --- processes

    def close(self) -> None:
        """Close all sessions, and give their processes back."""
        self.execute(self.processes, "close")
        for process in self.processes.values():
            self.pool.give_back(process)
        self.processes.clear()

    def kill(self) -> None:
        """End the processes of a run that was broken off."""
        for process in self.processes.values():
            process.kill()
        self.processes.clear()

    def execute(
        self, nodes: Iterable[int], do: str, options: Mapping[int, object] | None = None, name: str = ""
    ) -> dict[int, Any]:
        """What nodes give for one command, each with its own option of that name, if there is one."""
        commands = {}
        for node in nodes:
            command: dict[str, object] = {"do": do}
            if options is not None:
                command[name] = options[node]
            commands[self.processes[node]] = command
        found = execute_all(commands)
        return {node: found[self.processes[node]] for node in nodes}

    def settings(self, number: int) -> dict[str, object]:
        node = self.nodes[number]
        found = {
            **BASE,
            **dict(node.settings),
            "mode": node.role,
            "scouting/gossip/enabled": node.has_gossip,
            "listen/endpoints": [self.endpoints[number]] if node.role != "client" else [],
            "connect/endpoints": [self.endpoints[other] for other in node.connects],
        }
        if node.role == "client":
            found["connect/timeout_ms"] = int(SETTLING_SECONDS * 1000)
        if node.package == "z":
            found["routing/peers"] = "relay" if node.relays else "broker"
        if node.namespace:
            found["namespace"] = node.namespace
        return found

    # --- phases

    def perform(self, phase: Phase) -> None:
        """One phase: changes, until the network has settled; then messages and queries, compared with the model."""
        self.phases += 1
        if phase.steps:
            self.change(phase.steps)
            self.settle_links()
        for declaration in phase.declarations:
            self.declare(declaration)
        self.settle_declarations()
        self.settle_subscribers(phase.messages)
        self.settle_queryables(phase.questions)
        received = self.publish(phase.messages)
        self.query(phase.questions, received)
        Samples(self.world, received.samples, self.differences).compare(phase.messages)

    def change(self, steps: Iterable[Step]) -> None:
        opening: list[int] = []
        for step in steps:
            if step.do == "open":
                opening.append(step.node)
                continue
            process = self.processes.pop(step.node)
            if step.do == "kill":
                process.kill()
            else:
                process.execute("close")
                self.pool.give_back(process)
            self.world.up.discard(step.node)
            self.world.entities[step.node] = {}
            del self.zids[step.node]
        for clients in (False, True):  # a client opens when what it connects to is there
            self.open([node for node in opening if (self.nodes[node].role == "client") == clients])

    def open(self, nodes: list[int]) -> None:
        for node in nodes:
            self.processes[node] = self.pool.take(self.nodes[node].package)
        settings = {node: self.settings(node) for node in nodes}
        self.zids.update(self.execute(nodes, "open", settings, "settings"))
        self.world.up.update(nodes)

    def declare(self, declaration: Declaration) -> None:
        node, entity, process = declaration.node, declaration.entity, self.processes[declaration.node]
        if declaration.do == "undeclare":
            process.execute("undeclare", names=[entity.name])
            del self.world.entities[node][entity.name]
        elif declaration.do == "flap":
            process.execute("flap", entity=asdict(entity), times=declaration.times)
        else:
            process.execute("declare", entities=[asdict(entity)])
            self.world.entities[node][entity.name] = entity

    # --- settling

    def eventually(self, check: Callable[[], list[Difference]], quiet: float = 0.0) -> None:
        """Wait until nothing differs for a while; what still does at the end is a difference."""
        deadline = time.monotonic() + SETTLING_SECONDS
        since = None
        while True:
            found = check()
            now = time.monotonic()
            since = (since or now) if not found else None
            if since is not None and now - since >= quiet:
                return
            if now > deadline:
                self.differences += found
                return
            time.sleep(POLL_SECONDS)

    def settle_links(self) -> None:
        """Wait for all links that are configured and those that gossip brings; the model takes them as they are."""
        has_gossip = any(self.nodes[node].has_gossip for node in self.world.up)
        routers = sum(self.nodes[node].role == "router" for node in self.world.up)
        before: list[set[frozenset[int]]] = [set()]

        def check() -> list[Difference]:
            found = self.missing_links()
            changed = self.world.links != before[0]
            before[0] = self.world.links
            return found or [Difference("links", "they still change")] * changed

        self.eventually(check, QUIET_SECONDS if has_gossip or routers > 2 else 0.0)

    def missing_links(self) -> list[Difference]:
        """Read the links of all nodes. Returns those that are missing, and those to a node that does not exist."""
        numbers = {zid: node for node, zid in self.zids.items()}
        near: dict[int, set[int]] = {}
        found: list[Difference] = []
        for node, links in self.execute(sorted(self.world.up), "links").items():
            listed = {*links["routers"], *links["peers"]}
            near[node] = {numbers[zid] for zid in listed if zid in numbers}
            if len(near[node]) < len(listed):
                found.append(Difference("links", f"{node} lists nodes that are gone"))
        self.world.links = {frozenset((node, other)) for node, others in near.items() for other in others}
        for node, others in near.items():
            found += self._missing_at(node, near, others)
        return found

    def _missing_at(self, number: int, near: Mapping[int, set[int]], others: set[int]) -> list[Difference]:
        node = self.nodes[number]
        wanted = {other for other in node.connects if other in self.world.up}
        if node.role == "client":
            is_right = len(others) == bool(wanted)
        else:
            is_right = wanted <= others and all(number in near[other] for other in others)
        return [] if is_right else [Difference("links", f"{number} has {sorted(others)}, not {sorted(wanted)}")]

    def settle_declarations(self) -> None:
        """Wait until matching and liveliness are everywhere as in the model."""
        self.eventually(lambda: [*self._matching(), *self._liveliness()])

    def _matching(self) -> list[Difference]:
        found = []
        for node, matching in self.execute(sorted(self.world.up), "matching").items():
            for name, is_matching in matching.items():
                entity = self.world.entities[node][name]
                wanted = self.world.is_matching(node, entity)
                if wanted is None or (entity.kind == "querier" and self.nodes[node].package == "e"):
                    continue  # eclipse-zenoh's queriers often do not notice what replies to them
                if wanted != is_matching:
                    text = f"{entity.kind} {entity.key} at {node} ({entity.target}): {is_matching}"
                    is_unmatched = entity.kind == "querier" and not is_matching
                    found.append(
                        Difference("matching", text, (node, entity.key, entity.target) if is_unmatched else None)
                    )
        return found

    def _liveliness(self) -> list[Difference]:
        found = []
        keys = dict.fromkeys(self.world.up, "**")
        for node, states in self.execute(sorted(self.world.up), "liveliness", keys, "key").items():
            for name, alive in states.items():
                entity = self.world.entities[node].get(name)
                if name and entity is None:
                    continue  # undeclared
                wanted = sorted(self.world.alive(node, entity.key if entity else "**"))
                if alive != wanted:
                    kind = "liveliness subscriber" if entity else "liveliness get"
                    found.append(Difference(kind, f"at {node}: {alive}, not {wanted}"))
        return found

    def settle_subscribers(self, messages: Iterable[Message]) -> None:
        """Publish probes on the keys of the messages until every subscriber that must has received one."""
        wanted: dict[tuple[int, str, str], set[Place]] = {}
        for message in messages:
            wanted[message.node, message.via, message.key] = self.world.receivers(message)[0]

        def check() -> list[Difference]:
            probes: dict[int, list[dict[str, str]]] = defaultdict(list)
            for (node, via, key), places in wanted.items():
                if places:
                    probes[node].append({"via": via, "key": key, "payload": self._probe(node, via, key)})
            self.execute(probes, "probe", probes, "probes")
            collected = self.execute(self.world.up, "collect")
            for (node, via, key), places in wanted.items():
                text = self._probe(node, via, key)
                places -= {place for place in places if [place[1], text] in collected[place[0]]["probes"]}
            return [
                Difference("missing probe", f"{key} from {node} never reached {sorted(places)}")
                for (node, _, key), places in wanted.items()
                if places
            ]

        self.eventually(check)

    def _probe(self, node: int, via: str, key: str) -> str:
        return f"probe {self.phases} {node} {via} {key}"

    def settle_queryables(self, questions: Iterable[Query]) -> None:
        """Query all until every queryable that must be queried was."""
        wanted: dict[int, dict[str, set[Place]]] = defaultdict(dict)
        for question in questions:
            found = {place for place, _ in self.world.matches(question.node, "queryable", question.key)}
            wanted[question.node][question.key] = self.world.certain(question.node, question.key, found)

        def check() -> list[Difference]:
            probes = {
                node: [
                    {"via": "", "key": key, "id": f"{node} {key}", "target": "ALL", "consolidation": "NONE"}
                    for key, places in keys.items()
                    if places
                ]
                for node, keys in wanted.items()
            }
            self.execute(probes, "get", probes, "questions")
            collected = self.execute(self.world.up, "collect")
            for node, keys in wanted.items():
                for key, places in keys.items():
                    places -= {
                        place for place in places if [place[1], f"{node} {key}"] in collected[place[0]]["queries"]
                    }
            return [
                Difference("missing probe", f"query {key} from {node} never reached {sorted(places)}")
                for node, keys in wanted.items()
                for key, places in keys.items()
                if places
            ]

        self.eventually(check)

    # --- what is sent

    def publish(self, messages: Iterable[Message]) -> Received:
        """Publish, all nodes at the same time, and wait for what must arrive."""
        received = Received()
        by_node: dict[int, list[dict[str, object]]] = defaultdict(list)
        wanted: set[tuple[Place, str]] = set()
        droppable: set[tuple[Place, str]] = set()
        for message in messages:
            by_node[message.node].append(asdict(message))
            places = {(place, message.id) for place in self.world.receivers(message)[0]}
            wanted |= places
            if self.world.may_drop(message):
                droppable |= places
        self.execute(by_node, "put", by_node, "messages")
        began = time.monotonic()
        while not wanted <= received.arrived:
            self._collect(received)
            timeout = SETTLING_SECONDS if wanted - droppable - received.arrived else QUIET_SECONDS
            if time.monotonic() - began > timeout:
                break
            time.sleep(POLL_SECONDS)
        return received

    def _collect(self, received: Received) -> None:
        for node, found in self.execute(self.world.up, "collect").items():
            for name, message, *facts in found["samples"]:
                received.samples.append(((node, name), message, facts))
                received.arrived.add(((node, name), message))
            received.queries.update(((node, name), question) for name, question in found["queries"])

    def query(self, questions: Iterable[Query], received: Received) -> None:
        """Query, all nodes at the same time; what was published twice has arrived twice by the end of it."""
        by_node: dict[int, list[Query]] = defaultdict(list)
        for question in questions:
            by_node[question.node].append(question)
        options = {node: [asdict(question) for question in own] for node, own in by_node.items()}
        results = self.execute(by_node, "get", options, "questions")
        self._collect(received)
        for node, own in by_node.items():
            for question, result in zip(own, results[node], strict=True):
                QueryResult(self.world, question, received.queries, self.differences).compare(result)


@dataclass
class Received:
    """What entities received in one phase."""

    samples: list[tuple[Place, str, list[Any]]] = field(default_factory=list)
    arrived: set[tuple[Place, str]] = field(default_factory=set)
    queries: Counter[tuple[Place, str]] = field(default_factory=Counter)


class Samples:
    """What subscribers received, beside what they must have."""

    def __init__(
        self, world: World, samples: Iterable[tuple[Place, str, list[Any]]], differences: list[Difference]
    ) -> None:
        self.world = world
        self.differences = differences
        self.received: dict[str, list[tuple[Place, list[Any]]]] = defaultdict(list)
        self.order: dict[Place, list[str]] = defaultdict(list)
        for place, message, facts in samples:
            self.received[message].append((place, facts))
            if message not in self.order[place]:
                self.order[place].append(message)

    def compare(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._compare_places(message)
            self._compare_facts(message)
        self._compare_order(messages)

    def _compare_places(self, message: Message) -> None:
        must, may = self.world.receivers(message)
        counts = Counter(place for place, _ in self.received[message.id])
        what = f"{message.id} on {message.key} from {message.node} ({message.size} B, {message.qos.congestion})"
        if not self.world.may_drop(message):
            missing = sorted(must - set(counts))
            self.differences += [Difference("missing sample", f"{what} at {place}") for place in missing]
        for place, count in sorted(counts.items()):
            if place not in may:
                self.differences.append(Difference("stray sample", f"{what} at {place}"))
            elif count > 1:
                self.differences.append(Difference("duplicate sample", f"{what} {count} times at {place}"))

    def _compare_facts(self, message: Message) -> None:
        for place, (key, kind, size, is_intact, encoding, qos) in self.received[message.id]:
            if self.world.is_plain(message.node, place[0], message.key):
                self._expect(
                    message,
                    place,
                    "key",
                    key,
                    self.world.strip_prefix(place[0], self.world.add_prefix(message.node, message.key)),
                )
            self._expect(message, place, "kind", kind, "DELETE" if message.is_delete else "PUT")
            self._expect(message, place, "payload", (size, is_intact), (message.size, True))
            if not message.is_delete:
                self._expect(message, place, "encoding", encoding, message.qos.encoding)
            if all(node.has_qos for node in self.world.nodes):
                wanted = [message.qos.priority, message.qos.congestion, message.qos.express]
                self._expect(message, place, "qos", qos, wanted)

    def _expect(self, message: Message, place: Place, name: str, found: object, wanted: object) -> None:
        if found != wanted:
            text = f"{message.id} on {message.key} from {message.node} at {place}: {found}, not {wanted}"
            self.differences.append(Difference(f"wrong {name}", text))

    def _compare_order(self, messages: Iterable[Message]) -> None:
        """What one node published on one key, in one way, arrives in that order."""
        ways: dict[tuple[object, ...], list[str]] = defaultdict(list)
        for message in messages:
            way = (message.node, message.via, message.key, replace(message.qos, encoding=""))
            ways[way].append(message.id)
        for place, order in self.order.items():
            for sent in ways.values():
                found = [message for message in order if message in sent]
                if found != [message for message in sent if message in found]:
                    self.differences.append(Difference("wrong order", f"{found} at {place}"))


class QueryResult:
    """What one query was given, beside what it must be."""

    def __init__(
        self, world: World, question: Query, queries: Counter[tuple[Place, str]], differences: list[Difference]
    ) -> None:
        self.world = world
        self.question = question
        self.queried = Counter({place: count for (place, each), count in queries.items() if each == question.id})
        self.differences = differences

    def compare(self, result: Mapping[str, Any]) -> None:
        must, one_of, may = self.world.queried(self.question)
        for place in sorted(must - set(self.queried)):
            self._differ("missing query", f"not queried: {place}")
        if one_of and not one_of & set(self.queried):
            self._differ("missing query", f"none of {sorted(one_of)} was queried, but {sorted(self.queried)}")
        for place, count in sorted(self.queried.items()):
            if place not in may:
                self._differ("stray query", f"queried: {place}")
            elif count > 1:
                self._differ("duplicate query", f"queried {count} times: {place}")
        if result["seconds"] > SLOW_SECONDS:
            self._differ("slow query", f"{result['seconds']:.1f} s")
        if all(self.world.is_plain(self.question.node, node, self.question.key) for node, _ in self.queried):
            self._compare_replies([tuple(reply) for reply in result["replies"]])
            self._compare_errors(result["errors"])

    def _compare_replies(self, replies: list[tuple[str, str]]) -> None:
        wanted = {
            (key, f"{place[1]} {self.question.id}")
            for place in self.queried
            for key in self.world.replies(self.question, place)
        }
        counts = Counter(replies)
        if self.question.consolidation in ("LATEST", "AUTO"):
            is_whole = Counter(key for key, _ in replies) == Counter({key for key, _ in wanted})
        elif self.question.consolidation == "MONOTONIC":
            is_whole = {key for key, _ in replies} == {key for key, _ in wanted}
        else:
            is_whole = set(counts) >= wanted
        if not is_whole or not set(counts) <= wanted:
            self._differ("wrong replies", f"{sorted(replies)}, not {sorted(wanted)}")
        elif any(count > 1 for count in counts.values()):
            self._differ("duplicate reply", f"{sorted(replies)}")

    def _compare_errors(self, errors: list[str]) -> None:
        entities = self.world.entities
        failing = [place for place in self.queried if entities[place[0]][place[1]].fails]
        wanted = sorted(f"{name} {self.question.id}" for _, name in failing)
        if sorted(set(errors)) != wanted:
            self._differ("wrong errors", f"{errors}, not {wanted}")
        elif len(errors) > len(wanted):
            self._differ("duplicate reply", f"{errors}")

    def _differ(self, kind: str, text: str) -> None:
        question = self.question
        what = f"{question.id} {question.key} from {question.node} ({question.target}, {question.consolidation})"
        querier = (question.node, question.key, question.target) if kind == "missing query" else None
        self.differences.append(Difference(kind, f"{what}: {text}", querier))
