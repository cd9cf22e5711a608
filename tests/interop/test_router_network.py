"""Networks of our routers and those of eclipse-zenoh on loopback: lines, rings and stars, with clients of either kind.

Every router has a client, which subscribes, replies and is alive; when each of them knows of all the others, what one
publishes must reach every other once, and every query all it is meant for, before and after a node is killed. Where
that parts the network, the parts must go on by themselves.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pytest

import zenspark
from tests.interop.reference import eventually, unused

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

Api: TypeAlias = Any
Found: TypeAlias = Any
"""A configuration, session, query or sample of either side."""

API: dict[str, Api] = {"o": zenspark, "t": zenoh}
"""Ours and theirs."""

Edges = list[tuple[int, int]]


def line(size: int) -> Edges:
    return [(number, number + 1) for number in range(size - 1)]


def ring(size: int) -> Edges:
    return [*line(size), (0, size - 1)]


def star(size: int) -> Edges:
    return [(0, number) for number in range(1, size)]


def config(api: Api, mode: str, listen: Iterable[str] = (), connect: Iterable[str] = (), gossip: bool = True) -> Found:
    made = api.Config()
    settings = {
        "scouting/gossip/enabled": gossip,
        "mode": mode,
        "listen/endpoints": list(listen),
        "connect/endpoints": list(connect),
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
        "connect/retry": {"period_init_ms": 50, "period_max_ms": 100, "period_increase_factor": 2},
    }
    for key, value in settings.items():
        made.insert_json5(key, json.dumps(value))
    return made


class Member:
    """A session that subscribes, replies and is alive under its own name; the samples it receives are recorded."""

    def __init__(
        self,
        api: Api,
        name: str,
        mode: str,
        connect: Iterable[str],
        listen: Iterable[str] = (),
        gossip: bool = True,
        relays: bool = True,
        complete: bool = False,
    ) -> None:
        self.api = api
        self.name = name
        self.place = next(iter(connect))
        self.complete = complete
        self.received: list[str] = []
        self.lock = threading.Lock()
        settings = config(api, mode, listen, connect, gossip)
        if api is zenspark and not relays:
            settings.insert_json5("routing/peers", json.dumps("broker"))
        self.session = api.open(settings)
        self.kept = [
            self.session.declare_subscriber("net/**", self.on_sample),
            self.session.declare_queryable(f"q/{name}", self.on_query),
            self.session.declare_queryable("all/*", self.on_query_for_all, complete=complete),
            self.session.liveliness().declare_token(f"live/{name}"),
        ]

    def on_sample(self, sample: Found) -> None:
        with self.lock:
            self.received.append(sample.payload.to_string())

    def on_query(self, query: Found) -> None:
        with query:
            query.reply(f"q/{self.name}", self.name)

    def on_query_for_all(self, query: Found) -> None:
        with query:
            query.reply(f"all/{self.name}", self.name)

    def alive(self) -> set[str]:
        replies = self.session.liveliness().get("live/*", timeout=2)
        return {str(reply.ok.key_expr).removeprefix("live/") for reply in replies if reply.ok}

    def get_payloads(self, key: str, target: Found) -> list[str]:
        replies = self.session.get(key, target=target, timeout=5)
        return sorted(reply.ok.payload.to_string() for reply in replies if reply.ok)

    def close(self) -> None:
        self.session.close()


class Net:
    """Routers joined in a shape, a client at each. One of them, the `killable`, is a process of its own."""

    def __init__(self, stack: contextlib.ExitStack, kinds: str, edges: Edges, killable: int | None = None) -> None:
        self.places = [unused() for _ in kinds]
        self.edges = edges
        self.rounds = 0
        self.members: list[Member] = []
        self.killable: subprocess.Popen[str] | None = None
        for number, kind in enumerate(kinds):
            near = [self.places[min(edge)] for edge in edges if max(edge) == number]
            if number == killable:
                self.killable = stack.enter_context(process(API[kind].__name__, self.places[number], near))
            else:
                router = API[kind].open(config(API[kind], "router", [self.places[number]], near))
                stack.callback(router.close)
        for number in range(len(kinds)):
            self.join(stack, number, "to"[number % 2])

    def join(self, stack: contextlib.ExitStack, number: int, kind: str, mode: str = "client") -> Member:
        """A new member at a router."""
        listen = ["tcp/127.0.0.1:0"] if mode == "peer" else []
        complete = len(self.members) in (0, 2)
        member = Member(API[kind], f"m{len(self.members)}", mode, [self.places[number]], listen, complete=complete)
        stack.callback(member.close)
        self.members.append(member)
        return member

    def kill(self, number: int) -> list[list[Member]]:
        """Kill a router and its client. Returns the members that are left and still connected to each other."""
        assert self.killable is not None
        self.killable.kill()
        self.members.pop(number).close()
        parts = [{place} for place in range(len(self.places)) if place != number]
        for edge in self.edges:
            if number not in edge:
                joined = [part for part in parts if part & set(edge)]
                parts = [*(part for part in parts if part not in joined), set().union(*joined)]
        return [[member for member in self.members if self.places.index(member.place) in part] for part in parts]

    def check(self, members: list[Member] | None = None) -> None:
        """All of them, or of a part, match each other, receive every message once, and every reply once."""
        members = members or self.members
        names = {member.name for member in members}
        for member in members:
            assert eventually(lambda: member.alive() == names), (member.name, member.alive(), names)  # noqa: B023
        self.rounds += 1
        self.wait_for_subscribers(members)
        words = sorted(f"round {self.rounds} of {name}" for name in names)
        for member in members:
            member.session.put(f"net/{member.name}", f"round {self.rounds} of {member.name}")
        for member in members:  # a session receives its own publications, too
            assert eventually(lambda: set(words) <= set(member.received)), (member.name, member.received)  # noqa: B023
        for member in members:
            self.check_queries(member, sorted(names), sorted(each.name for each in members if each.complete))
        for member in members:  # whatever came twice has come by now
            assert sorted(word for word in member.received if word in words) == words, member.name

    def check_queries(self, member: Member, names: list[str], complete: list[str]) -> None:
        """Query with every target, where no queryable is complete and where some are."""
        target = member.api.QueryTarget
        assert member.get_payloads("q/*", target.ALL) == names
        assert member.get_payloads("q/*", target.BEST_MATCHING) == names
        assert member.get_payloads("q/*", target.ALL_COMPLETE) == []
        assert member.get_payloads("all/*", target.ALL) == names
        assert member.get_payloads("all/*", target.ALL_COMPLETE) == complete
        best = member.get_payloads("all/*", target.BEST_MATCHING)  # each router chooses for its clients, too
        assert len(set(best)) == len(best)
        assert set(names) >= set(best)
        assert set(best) & set(complete or names), (best, complete)

    def wait_for_subscribers(self, members: list[Member]) -> None:
        """Publish until every member receives from every other: declarations take their time."""
        for sender in members:
            word = f"ready for {self.rounds}, {sender.name}"

            def received_by_all(sender: Member = sender, word: str = word) -> bool:
                sender.session.put("net/ready", word)
                return all(word in member.received for member in members)

            assert eventually(received_by_all), word

    def wait_until_received_once(self) -> None:
        """Publish until no member receives anything twice, as long as link states of new links are on their way."""
        self.wait_for_subscribers(self.members)
        attempts = itertools.count()

        def is_received_once() -> bool:
            attempt = next(attempts)
            words = [f"attempt {attempt} of {member.name}" for member in self.members]
            for member, word in zip(self.members, words, strict=True):
                member.session.put("net/once", word)
            if not eventually(lambda: all(set(words) <= set(member.received) for member in self.members)):
                return False
            for member in self.members:  # whatever comes twice has come when the replies are here
                member.alive()
            return all(member.received.count(word) == 1 for member in self.members for word in words)

        assert eventually(is_received_once)


@pytest.mark.parametrize(
    ("kinds", "shape"),
    [("oto", line), ("tot", line), ("oott", line), ("oot", ring), ("otto", ring), ("totot", star), ("ooo", ring)],
)
def test_routers_of_both_kinds_are_one_network(kinds: str, shape: Callable[[int], Edges]) -> None:
    with contextlib.ExitStack() as stack:
        net = Net(stack, kinds, shape(len(kinds)))
        net.check()
        late = net.join(stack, len(kinds) - 1, "o")
        assert eventually(lambda: late.alive() == {member.name for member in net.members})
        net.check()


@pytest.mark.parametrize(
    ("kinds", "shape", "killed"),
    [
        *(
            (kinds, shape, killed)
            for kinds, shape in (("oto", line), ("toot", ring), ("otot", star))
            for killed in range(len(kinds))
        ),
        ("tooto", ring, 2),
        ("ottoo", line, 2),
    ],
)
def test_remaining_network_works_after_a_router_is_killed(
    kinds: str, shape: Callable[[int], Edges], killed: int
) -> None:
    """Any one of a line, a ring and a star: at the end of a line or a point of a star, or what held them together."""
    with contextlib.ExitStack() as stack:
        net = Net(stack, kinds, shape(len(kinds)), killable=killed)
        net.check()
        for part in net.kill(killed):
            net.check(part)


PROGRAM = """
import json, sys
import {module} as api
config = api.Config()
for key, value in json.loads(sys.argv[1]).items():
    config.insert_json5(key, json.dumps(value))
session = api.open(config)
tokens = [session.liveliness().declare_token(key) for key in sys.argv[2:]]
print("open", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def process(module: str, listen: str, connect: Iterable[str], *tokens: str) -> Iterator[subprocess.Popen[str]]:
    """A router in a process of its own, with tokens of its own."""
    settings = {
        "mode": "router",
        "listen/endpoints": [listen],
        "connect/endpoints": list(connect),
        "scouting/multicast/enabled": False,
    }
    command = [sys.executable, "-c", PROGRAM.format(module=module), json.dumps(settings), *tokens]
    node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert node.stdout is not None
        assert node.stdout.readline() == "open\n"
        yield node
    finally:
        node.kill()
        node.communicate()


@pytest.mark.parametrize(("module", "kinds"), [("zenoh", "oo"), ("zenspark", "tt"), ("zenoh", "ot")])
def test_killed_router_removes_only_its_own_tokens(module: str, kinds: str) -> None:
    """A ring of three, one of which is killed: the way is through the middle, and then directly."""
    with contextlib.ExitStack() as stack:
        net = Net(stack, kinds, line(2))
        node = stack.enter_context(process(module, unused(), net.places, "live/killed"))
        names = {member.name for member in net.members}
        for member in net.members:
            assert eventually(lambda: member.alive() == names | {"killed"}), member.alive()  # noqa: B023
        node.kill()
        net.check()


@pytest.mark.parametrize("router", ["o", "t"])
def test_clients_and_peers_of_both_kinds_share_a_router(router: str) -> None:
    """Peers of eclipse-zenoh connect by gossip and receive every message once; zenspark's use the router."""
    with contextlib.ExitStack() as stack:
        net = Net(stack, router, [])
        net.join(stack, 0, "o")
        net.join(stack, 0, "t", "peer")
        net.join(stack, 0, "o", "peer")
        net.check()


@pytest.mark.parametrize("gossip", [True, False])
@pytest.mark.parametrize("kinds", ["oo", "ot", "tt"])
def test_unlinked_peers_reach_each_other_through_zenspark_router(kinds: str, gossip: bool) -> None:
    """They listen nowhere, so they cannot connect to each other; the router forwards, whether it gossips or not."""
    with contextlib.ExitStack() as stack:
        place = unused()
        router = zenspark.open(config(zenspark, "router", [place], gossip=gossip))
        stack.callback(router.close)
        net = Net(stack, "", [])
        net.places.append(place)
        for kind in kinds:
            member = Member(API[kind], f"m{len(net.members)}", "peer", [place])
            stack.callback(member.close)
            net.members.append(member)
        net.check()


@pytest.mark.parametrize("gossip", [True, False])
@pytest.mark.parametrize("kinds", ["ooo", "oot", "oto", "ott", "too"])
def test_linked_peers_of_one_router_receive_each_message_once(kinds: str, gossip: bool) -> None:
    """Without gossip the router does not learn of their link: it must not forward between them all the same."""
    with contextlib.ExitStack() as stack:
        place, there = unused(), unused()
        router = API[kinds[0]].open(config(API[kinds[0]], "router", [place], gossip=gossip))
        stack.callback(router.close)
        net = Net(stack, "", [])
        net.places.append(place)
        for kind, connect, listen in ((kinds[1], [place], [there]), (kinds[2], [place, there], [])):
            member = Member(API[kind], f"m{len(net.members)}", "peer", connect, listen, gossip)
            stack.callback(member.close)
            net.members.append(member)
        net.wait_until_received_once()
        net.check()


@pytest.mark.parametrize("kind", ["o", "t"])
def test_zenspark_router_stamps_samples_without_timestamp(kind: str) -> None:
    api = API[kind]
    with contextlib.ExitStack() as stack:
        place = unused()
        router = zenspark.open(config(zenspark, "router", [place]))
        stack.callback(router.close)
        sessions = [api.open(config(api, "client", (), [place])) for _ in range(2)]
        for session in sessions:
            stack.callback(session.close)
        stamps: list[Found] = []
        subscriber = sessions[0].declare_subscriber("stamped", lambda sample: stamps.append(sample.timestamp))
        stack.callback(subscriber.undeclare)

        def has_arrived() -> bool:
            sessions[1].put("stamped", "now")
            return bool(stamps)

        assert eventually(has_arrived)
        assert str(stamps[0].get_id()) == str(router.info.zid())
