"""Networks of any form against the law: nothing missing, nothing twice, nothing that goes in circles.

Things happen while messages are still on their way; then the network settles, and every session publishes, queries
and checks the declarations it received.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.law import CLIENT, PEER, ROUTER, Law
from tests.property.world import Node, World
from zenspark.router.face import DeclarationKind
from zenspark.router.router import RouterPolicy
from zenspark.wire.messages import Declare, NetworkMessage
from zenspark.wire.values import InterestMode, QueryTarget, WhatAmI

KEYS = ["a", "b", "a/b", "a/*", "**", "a/**"]
KINDS = list(DeclarationKind)

Step = tuple[str, int, int, int]

NAMES = ["join", "join", "join", "part", "declare", "declare", "undeclare", "deliver", "put", "get", "interest", "time"]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.integers(0, 11),
        st.integers(0, 11),
        st.integers(0, 71),
    ),
    max_size=60,
)
ROLES = st.lists(st.sampled_from([ROUTER, ROUTER, PEER, CLIENT]), min_size=2, max_size=9)


class WorldAndLaw:
    """A world and the law for it, changed together."""

    def __init__(self, roles: list[WhatAmI], is_broker: bool = True, relays: Callable[[], bool] | None = None) -> None:
        """With `relays`, the routers relay, and so do the peers that it marks."""
        self.world = World(RouterPolicy(is_broker=is_broker))
        self.law = Law(is_broker)
        self.interests: dict[tuple[int, int], str | None] = {}
        for role in roles:
            is_relay = relays is not None and (role is ROUTER or (role is PEER and relays()))
            node = self.world.add(role, is_relay)
            self.law.roles[node.number] = role
            if is_relay and role is PEER:
                self.law.relays.add(node.number)

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
            self.world.undeclare(node, DeclarationKind[kind], number)

    def do_deliver(self, node: Node, second: int, third: int) -> None:
        for offset in range(second + 1):
            self.world.deliver(third + offset)

    def do_put(self, node: Node, second: int, third: int) -> None:
        self.world.put(node, KEYS[third % len(KEYS)])

    def do_get(self, node: Node, second: int, third: int) -> None:
        self.world.get(node, KEYS[third % len(KEYS)], list(QueryTarget)[second % 3])

    def do_interest(self, node: Node, second: int, third: int) -> None:
        number = second % 2 + 1
        if third % 4 == 0 and (node.number, number) in self.interests:
            del self.interests[node.number, number]
            self.world.send_interest(node, number, None, InterestMode.FINAL)
            return
        key = [*KEYS, None][third % (len(KEYS) + 1)]
        self.interests[node.number, number] = key
        self.world.send_interest(node, number, key)

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
            for (owner, _), key in self.interests.items():
                if owner == node.number:
                    assert self.law.matching(visible, key) <= known, "something is so that is not known"

    def check_push(self, publisher: Node, key: str) -> None:
        for node in self.world.nodes:
            node.pushes.clear()
        self.world.put(publisher, key)
        self.world.carry()
        found = [node.number for node in self.world.nodes for _ in node.pushes]
        assert found == sorted(self.law.receivers(publisher.number, "SUBSCRIBER", key))

    def check_query(self, querier: Node, key: str, target: QueryTarget) -> None:
        number = self.world.get(querier, key, target)
        self.world.carry()
        assert querier.finals.get(number) == 1
        replies = [int(reply) for reply in querier.replies.get(number, [])]
        assert len(replies) == len(set(replies)), "a reply came twice"
        everybody = self.law.receivers(querier.number, "QUERYABLE", key)
        complete = self.law.complete_holders(key) & everybody
        if target is QueryTarget.ALL:
            assert set(replies) == everybody
        elif target is QueryTarget.ALL_COMPLETE:
            assert set(replies) == complete
        elif complete:
            assert set(replies) & complete, "none of the best was queried"
            assert set(replies) <= everybody
        else:
            assert set(replies) == everybody


@settings(max_examples=100)
@given(ROLES, STEPS)
def test_any_network_keeps_the_law(roles: list[WhatAmI], steps: list[Step]) -> None:
    both = WorldAndLaw(roles)
    for step in steps:
        both.do(step)
    both.check()


@settings(max_examples=60)
@given(st.integers(), st.sampled_from(["any", "routers", "no broker"]))
def test_long_event_sequences_keep_the_law(seed: int, kind: str) -> None:
    """Longer than hypothesis likes to make them: trees change while what they carry is on its way."""
    random = Random(seed)
    count = random.randint(3, 9)
    roles = [ROUTER if kind == "routers" else random.choice([ROUTER, ROUTER, PEER, CLIENT]) for _ in range(count)]
    both = WorldAndLaw(roles, is_broker=kind != "no broker")
    for _ in range(random.randint(30, 120)):
        both.do((random.choice(NAMES), random.randrange(12), random.randrange(12), random.randrange(72)))
    both.check()


@settings(max_examples=60)
@given(st.integers())
def test_every_request_ends_once_despite_failures_and_silence(seed: int) -> None:
    random = Random(seed)
    both = WorldAndLaw([random.choice([ROUTER, PEER, CLIENT]) for _ in range(7)])
    for _ in range(25):
        both.do(("join", random.randrange(12), random.randrange(12), 0))
    for node in both.world.nodes:
        both.do(("declare", node.number - 1, 0, 1 + 3 * random.randrange(6)))
        node.replies_to_queries = random.random() < 0.5
    both.world.settle()
    for node in both.world.nodes:
        both.world.get(node, random.choice(KEYS), random.choice(list(QueryTarget)), budget=random.choice([0, 0, 2]))
    for _ in range(20):
        both.do((random.choice(["deliver", "part", "time"]), random.randrange(12), random.randrange(12), 40))
    for node in both.world.nodes:
        node.replies_to_queries = True
        for number in [number for _, number in node.queries]:  # some twice, some too late
            for message in node.reply(number):
                both.world.send_local(node, message)
    both.check()


def test_hundreds_of_nodes_keep_the_law() -> None:
    """Thirty routers in rings of rings, each with peers and clients; then one ring is cut."""
    random = Random(1)
    both = WorldAndLaw([ROUTER] * 30 + [PEER] * 90 + [CLIENT] * 180)
    pairs = [(at, at + 1 if at % 6 < 5 else at - 5) for at in range(30)]
    pairs += [(at, (at + 6) % 30) for at in range(0, 30, 6)]
    for one, other in pairs:
        both.do(("join", one, other, 0))
    for at in range(30, 300):
        both.do(("join", at, at % 30 if at < 120 or at % 2 else 30 + at % 90, 0))
    for at in range(300):
        both.world.declare(both.world.nodes[at], DeclarationKind.SUBSCRIBER, 1, f"part/{at % 50}/**")
        both.law.declared[at + 1, "SUBSCRIBER", 1] = (f"part/{at % 50}/**", False)
        both.world.declare(both.world.nodes[at], DeclarationKind.QUERYABLE, 1, f"part/{at % 50}/*")
        both.law.declared[at + 1, "QUERYABLE", 1] = (f"part/{at % 50}/*", False)
    both.world.settle()
    for cut in (False, True):
        if cut:
            for one, other in ((0, 6), (7, 8)):
                both.law.links.remove(frozenset((one + 1, other + 1)))
                both.world.part(both.world.nodes[one], both.world.nodes[other])
            both.world.settle()
        for at in random.sample(range(300), 12):
            both.check_push(both.world.nodes[at], f"part/{random.randrange(50)}/a")
            both.check_query(both.world.nodes[at], f"part/{random.randrange(50)}/a", QueryTarget.ALL)


@settings(max_examples=100)
@given(st.lists(st.sampled_from([ROUTER, PEER, PEER, CLIENT]), min_size=2, max_size=9), STEPS)
def test_any_network_of_relays_keeps_the_law(roles: list[WhatAmI], steps: list[Step]) -> None:
    """Whatever is connected reaches each other: lines, rings and meshes of peers and routers in any order."""
    both = WorldAndLaw(roles, relays=lambda: True)
    for step in steps:
        both.do(step)
    both.check()


@settings(max_examples=60)
@given(st.integers(), st.sampled_from(["peers", "any", "some"]))
def test_long_event_sequences_with_relays_keep_the_law(seed: int, kind: str) -> None:
    """Peers alone, with routers and clients, or with peers among them that do not relay."""
    random = Random(seed)
    roles = [PEER] if kind == "peers" else [ROUTER, PEER, PEER, CLIENT]
    share = 0.5 if kind == "some" else 1.0
    both = WorldAndLaw(
        [random.choice(roles) for _ in range(random.randint(3, 9))], relays=lambda: random.random() < share
    )
    for _ in range(random.randint(30, 120)):
        both.do((random.choice(NAMES), random.randrange(12), random.randrange(12), random.randrange(72)))
    both.check()


def test_hundreds_of_nodes_with_relays_keep_the_law() -> None:
    """Sixty peers in rings of rings and ten routers that relay, clients on all of them; then two links are cut."""
    random = Random(2)
    both = WorldAndLaw([PEER] * 60 + [ROUTER] * 10 + [CLIENT] * 140, relays=lambda: True)
    pairs = [(at, at + 1 if at % 6 < 5 else at - 5) for at in range(60)]
    pairs += [(at, (at + 6) % 60) for at in range(0, 60, 6)]
    pairs += [(60 + at, 6 * at + 3) for at in range(10)] + [(60, 61), (61, 62), (65, 69)]
    for one, other in [*pairs, *((at, at % 70) for at in range(70, 210))]:
        both.do(("join", one, other, 0))
    for at in range(210):
        for kind in (DeclarationKind.SUBSCRIBER, DeclarationKind.QUERYABLE):
            both.world.declare(both.world.nodes[at], kind, 1, f"part/{at % 50}/**")
            both.law.declared[at + 1, kind.name, 1] = (f"part/{at % 50}/**", False)
    both.world.settle()
    for cut in (False, True):
        if cut:
            for one, other in ((0, 6), (7, 8)):
                both.law.links.remove(frozenset((one + 1, other + 1)))
                both.world.part(both.world.nodes[one], both.world.nodes[other])
            both.world.settle()
        for at in random.sample(range(210), 12):
            both.check_push(both.world.nodes[at], f"part/{random.randrange(50)}/a")
            both.check_query(both.world.nodes[at], f"part/{random.randrange(50)}/a", QueryTarget.ALL)


def messages_of_a_mesh(is_relay: bool, size: int = 12) -> dict[str, int]:
    """How many messages of each kind peers send each other when all are linked, subscribe and publish once."""
    both = WorldAndLaw([PEER] * size, relays=lambda: is_relay)
    found: dict[str, int] = {}

    def count(message: NetworkMessage) -> None:
        name = type(message.body).__name__ if isinstance(message, Declare) else message.NAME
        found[name] = found.get(name, 0) + 1

    both.world.on_message = count
    for one in range(size):
        for other in range(one):
            both.do(("join", one, other, 0))
            both.world.settle()
    for node in both.world.nodes:
        both.world.declare(node, DeclarationKind.SUBSCRIBER, 1, "a")
    both.world.settle()
    for node in both.world.nodes:
        both.world.put(node, "a")
    both.world.settle()
    return found


def test_full_mesh_of_relays_sends_no_more_than_one_of_peers() -> None:
    """But for states: one of each node to each other one whenever it has another link."""
    size = 12
    plain, relayed = messages_of_a_mesh(False, size), messages_of_a_mesh(True, size)
    states = relayed.pop("OAM") - plain.pop("OAM")
    assert relayed == plain
    assert states <= 2 * size**3
