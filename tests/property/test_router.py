"""Networks of any shape against the law: nothing missing, nothing twice, nothing that goes in circles.

Things happen while messages are still on their way; then everything comes to rest, and every session publishes, asks
and looks at what it was told.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.law import CLIENT, PEER, ROUTER, Law
from tests.property.world import Node, World
from zenspark.router.face import Kind
from zenspark.router.router import Rules
from zenspark.wire.values import InterestMode, QueryTarget, WhatAmI

KEYS = ["a", "b", "a/b", "a/*", "**", "a/**"]
KINDS = list(Kind)

Step = tuple[str, int, int, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["join", "join", "join", "part", "declare", "declare", "undeclare", "deliver", "put", "get", "ask", "time"]
        ),
        st.integers(0, 11),
        st.integers(0, 11),
        st.integers(0, 71),
    ),
    max_size=60,
)
ROLES = st.lists(st.sampled_from([ROUTER, ROUTER, PEER, CLIENT]), min_size=2, max_size=9)


class Both:
    """A world and the law for it, changed together."""

    def __init__(self, roles: list[WhatAmI], is_broker: bool = True) -> None:
        self.world = World(Rules(is_broker=is_broker))
        self.law = Law(is_broker)
        self.interests: dict[tuple[int, int], str | None] = {}
        for role in roles:
            node = self.world.add(role)
            self.law.roles[node.number] = role

    def node(self, choice: int) -> Node:
        return self.world.nodes[choice % len(self.world.nodes)]

    def do(self, step: Step) -> None:
        name, first, second, third = step
        getattr(self, f"do_{name}")(self.node(first), second, third)

    def do_join(self, node: Node, second: int, third: int) -> None:
        other = self.node(second)
        if self.law.may_join(node.number, other.number):
            self.law.links.add(frozenset((node.number, other.number)))
            self.world.join(node, other)

    def do_part(self, node: Node, second: int, third: int) -> None:
        others = [other for other, _ in node.links.values()]
        if others:
            other = others[second % len(others)]
            self.law.links.remove(frozenset((node.number, other.number)))
            self.world.part(node, other)

    def do_declare(self, node: Node, second: int, third: int) -> None:
        kind, key, complete = KINDS[third % 3], KEYS[third // 3 % len(KEYS)], third % 2 == 0
        number = second % 3 + 1
        self.law.declared[node.number, kind.name, number] = (key, complete)
        self.world.declare(node, kind, number, key, complete)

    def do_undeclare(self, node: Node, second: int, third: int) -> None:
        held = [(kind, number) for each, kind, number in self.law.declared if each == node.number]
        if held:
            kind, number = held[second % len(held)]
            del self.law.declared[node.number, kind, number]
            self.world.undeclare(node, Kind[kind], number)

    def do_deliver(self, node: Node, second: int, third: int) -> None:
        for offset in range(second + 1):
            self.world.deliver(third + offset)

    def do_put(self, node: Node, second: int, third: int) -> None:
        self.world.put(node, KEYS[third % len(KEYS)])

    def do_get(self, node: Node, second: int, third: int) -> None:
        self.world.get(node, KEYS[third % len(KEYS)], list(QueryTarget)[second % 3])

    def do_ask(self, node: Node, second: int, third: int) -> None:
        number = second % 2 + 1
        if third % 4 == 0 and (node.number, number) in self.interests:
            del self.interests[node.number, number]
            self.world.ask(node, number, None, InterestMode.FINAL)
            return
        key = [*KEYS, None][third % (len(KEYS) + 1)]
        self.interests[node.number, number] = key
        self.world.ask(node, number, key)

    def do_time(self, node: Node, second: int, third: int) -> None:
        """A moment while messages are on their way; longer only when they have arrived."""
        if second < 3:
            self.world.carry()
            self.world.pass_time(second * 2)
        self.world.pass_time(third / 1000)

    # -- what must be so

    def check(self) -> None:
        self.world.settle()
        for node in self.world.nodes:
            assert all(count == 1 for count in node.finals.values()), "a request ended twice"
            assert sorted(node.finals) == list(range(1, node.number_of_requests + 1)), "a request never ended"
        self.check_interests()
        for node in self.world.nodes:
            for key in KEYS:
                self.check_push(node, key)
                for target in QueryTarget:
                    self.check_query(node, key, target)

    def check_interests(self) -> None:
        for node in self.world.nodes:
            known = {(kind.name, key) for (kind, _), key in node.known.items()}
            visible = self.law.visible(node.number)
            assert known <= visible, "something is known that is not so"
            for (asker, _), key in self.interests.items():
                if asker == node.number:
                    assert self.law.matching(visible, key) <= known, "something is so that is not known"

    def check_push(self, speaker: Node, key: str) -> None:
        for node in self.world.nodes:
            node.pushes.clear()
        self.world.put(speaker, key)
        self.world.carry()
        found = [node.number for node in self.world.nodes for _ in node.pushes]
        assert found == sorted(self.law.receivers(speaker.number, "SUBSCRIBER", key))

    def check_query(self, speaker: Node, key: str, target: QueryTarget) -> None:
        number = self.world.get(speaker, key, target)
        self.world.carry()
        assert speaker.finals.get(number) == 1
        answers = [int(answer) for answer in speaker.answers.get(number, [])]
        assert len(answers) == len(set(answers)), "an answer came twice"
        everybody = self.law.receivers(speaker.number, "QUERYABLE", key)
        complete = self.law.complete_holders(key) & everybody
        if target is QueryTarget.ALL:
            assert set(answers) == everybody
        elif target is QueryTarget.ALL_COMPLETE:
            assert set(answers) == complete
        elif complete:
            assert set(answers) & complete, "none of the best was asked"
            assert set(answers) <= everybody
        else:
            assert set(answers) == everybody


@settings(max_examples=150, deadline=None)
@given(ROLES, STEPS)
def test_any_network_keeps_the_law(roles: list[WhatAmI], steps: list[Step]) -> None:
    both = Both(roles)
    for step in steps:
        both.do(step)
    both.check()


@settings(max_examples=100, deadline=None)
@given(st.integers(3, 7), STEPS)
def test_any_network_of_routers_keeps_the_law(routers: int, steps: list[Step]) -> None:
    both = Both([ROUTER] * routers)
    for step in steps:
        both.do(step)
    both.check()


@settings(max_examples=50, deadline=None)
@given(ROLES, STEPS)
def test_any_network_without_brokers_keeps_the_law(roles: list[WhatAmI], steps: list[Step]) -> None:
    both = Both(roles, is_broker=False)
    for step in steps:
        both.do(step)
    both.check()
