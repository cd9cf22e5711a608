"""Every topology of a few nodes, once: which links gossip makes, and that everything arrives once.

Routers and peers in every connected graph, clients at any of them; two that differ only in the names of nodes are one.
The links must be those of a network of eclipse-zenoh alone.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from tests.networks.network import Outcome, run
from tests.networks.processes import Pool
from tests.networks.scenario import Declaration, Entity, Link, Message, Node, Phase, Query, Role, Scenario, Step
from tests.networks.search import Judge, Verdict

ATTEMPTS = 3
"""Runs until links that differ are reported: gossip takes its time on a busy machine."""

Shape = tuple[tuple[Role, ...], tuple[Link, ...]]


def shapes(size: int) -> Iterator[Shape]:
    """The topologies of so many nodes, each once."""
    for routers, peers in itertools.product(range(size + 1), repeat=2):
        clients = size - routers - peers
        if clients >= 0 and routers + peers > 0:
            roles: list[Role] = ["router" for _ in range(routers)]
            roles += ["peer" for _ in range(peers)]
            roles += ["client" for _ in range(clients)]
            yield from _of_roles(tuple(roles), routers + peers)


def _of_roles(roles: tuple[Role, ...], listeners: int) -> Iterator[Shape]:
    """Graphs that stay different when nodes of one role change places."""
    pairs = list(itertools.combinations(range(listeners), 2))
    places = list(itertools.product(range(listeners), repeat=len(roles) - listeners))
    names = [
        permutation
        for permutation in itertools.permutations(range(len(roles)))
        if all(roles[node] == roles[name] for node, name in enumerate(permutation))
    ]
    seen = set()
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        core = [pair for pair, is_linked in zip(pairs, chosen, strict=True) if is_linked]
        if not _is_connected(listeners, core):
            continue
        for homes in places:
            edges = [*core, *((home, listeners + number) for number, home in enumerate(homes))]
            form = min(sorted(tuple(sorted((name[a], name[b]))) for a, b in edges) for name in names)
            if str(form) not in seen:
                seen.add(str(form))
                yield roles, tuple((other, one) for one, other in edges)


def _is_connected(size: int, edges: list[Link]) -> bool:
    found, waiting = {0}, [0]
    while waiting:
        node = waiting.pop()
        near = {other for edge in edges if node in edge for other in edge} - found
        found |= near
        waiting += near
    return len(found) == size


def scenario_of(shape: Shape, has_gossip: bool = True) -> Scenario:
    """All nodes open, subscribe and declare a queryable; each publishes and queries once. Packages are drawn."""
    roles, links = shape
    draw = random.Random(str(shape))
    nodes = [
        Node(role, draw.choice("ze"), tuple(other for one, other in links if one == number), has_gossip=has_gossip)
        for number, role in enumerate(roles)
    ]
    numbers = range(len(nodes))
    subscribers = [Entity(f"s{number:06d}.", "subscriber", "t/*") for number in numbers]
    queryables = [Entity(f"q{number:06d}.", "queryable", f"q/{number}", replies=(f"q/{number}",)) for number in numbers]
    phase = Phase(
        tuple(Step("open", number) for number in numbers),
        tuple(Declaration("declare", number, each[number]) for number in numbers for each in (subscribers, queryables)),
        tuple(Message(f"m{number:06d}.", number, f"t/{number}", 100) for number in numbers),
        tuple(Query(f"g{number:06d}.", number, "q/*", "ALL", "NONE") for number in numbers),
    )
    return Scenario(0, tuple(nodes), (phase,))


@dataclass
class Comparison:
    """One topology: what is wrong with it, if anything."""

    scenario: Scenario
    problems: list[str]

    def __str__(self) -> str:
        return "\n    ".join([str(self.scenario), *self.problems])


def compare(shape: Shape, pool: Pool) -> Comparison:
    """A topology mixed and all of zenspark beside all of eclipse-zenoh; without gossip, only that all arrives once."""
    linked = Judge(scenario_of(shape), pool).judge()
    unlinked = Judge(scenario_of(shape, has_gossip=False), pool).judge()
    return Comparison(linked.scenario, [*linked.findings, *unlinked.findings, *_compare_links(linked, pool)])


def _compare_links(verdict: Verdict, pool: Pool) -> list[str]:
    """The links that differ from those of eclipse-zenoh alone, and do so again when both are opened anew."""
    problems = []
    alone = verdict.scenario.of("e")
    theirs = run(alone, pool)
    for ours in {outcome.packages: outcome for outcome in verdict.outcomes}.values():
        for _ in range(ATTEMPTS):
            if theirs.links == ours.links:
                break
            theirs, ours = run(alone, pool), run(verdict.scenario.with_packages(ours.packages), pool)
        if theirs.links != ours.links:
            problems.append(f"{ours.packages} links: {_text(ours)}, not {_text(theirs)}")
    return problems


def _text(outcome: Outcome) -> str:
    return " ".join("-".join(map(str, sorted(link))) for links in outcome.links for link in sorted(links, key=sorted))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5, help="of how many nodes at most")
    options = parser.parse_args()
    compared, different = 0, 0
    with Pool() as pool:
        for size in range(2, options.nodes + 1):
            for shape in shapes(size):
                comparison = compare(shape, pool)
                compared, different = compared + 1, different + bool(comparison.problems)
                print(comparison, flush=True)
    print(f"{compared} topologies, {different} with a finding")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
