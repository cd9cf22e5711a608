"""Declarations of routers: sent down the trees, whatever happens to the trees meanwhile."""

from __future__ import annotations

import pytest

from tests.unit.router.linkstate.test_network import face, named, oam, own
from zenspark.router.face import DeclarationKind, Face, Outgoing
from zenspark.router.limits import Admission, RefusalReason, Refusals, RouterLimits
from zenspark.router.linkstate.network import RouterNetwork
from zenspark.router.linkstate.sourced_declarations import UNCONFIRMED_TTL_SECONDS, SourcedDeclarations, SourceRouter
from zenspark.wire.messages import Declare, LinkState
from zenspark.wire.values import QueryableInfo, ZenohId

A, B, C, D = (ZenohId(number) for number in (0xA, 0xB, 0xC, 0xD))
NONE, COMPLETE = QueryableInfo.NONE, QueryableInfo(True)
SUBSCRIBER, QUERYABLE = DeclarationKind.SUBSCRIBER, DeclarationKind.QUERYABLE


class RouterInRing:
    """The router A between B and C, behind both of which is D: a ring, cut where `near` has no link."""

    def __init__(self, limits: RouterLimits | None = None) -> None:
        self.network = RouterNetwork(A, {B: 10, C: 10})
        self.out: Outgoing = []
        self.held: dict[tuple[ZenohId, DeclarationKind, str], QueryableInfo] = {}
        self.admission = Admission(limits or RouterLimits(), Refusals())
        self.sources = SourcedDeclarations(self.network, self.out, self.change, self.admission)
        self.b, self.c = face(B, 1), face(C, 2)
        self.sns = 2
        for there in (self.b, self.c):
            self.open(there)
        self.near(B)

    def change(self, source: SourceRouter, kind: DeclarationKind, key: str, info: QueryableInfo | None) -> None:
        if info is None:
            del self.held[source.zid, kind, key]
        else:
            self.held[source.zid, kind, key] = info

    def open(self, there: Face, now: float = 0.0) -> None:
        self.sources.add_neighbour(there)
        self.network.add_neighbour(there, (), now)
        self.network.receive(there, oam(own(there.zid, self.sns, 1), named(1, A), named(2, D)), now)

    def near(self, *routers: ZenohId, now: float = 0.0) -> None:
        """D has links to these routers, and its neighbours announce that."""
        self.sns += 1
        for there in (self.b, self.c):
            if self.network.face(there.zid) is there:
                links = (1, 2) if there.zid in routers else (1,)
                self.network.receive(there, oam(LinkState(psid=0, sn=self.sns, links=links)), now)
        announcer, number = (self.b, B) if B in routers or not routers else (self.c, C)
        others = [named(5, C)] if announcer is self.b else [named(5, B)]
        mine = tuple(0 if zid == number else 5 for zid in routers)
        self.network.receive(announcer, oam(*others, LinkState(psid=2, sn=self.sns, links=mine)), now)
        self.recompute_trees(now)

    def recompute_trees(self, now: float) -> None:
        moved, _ = self.network.recompute_trees(now)
        self.sources.apply_tree_change(moved, now)

    def announced(self) -> list[tuple[ZenohId, int, str]]:
        """The receiver, the source (by our psid), and the declaration."""
        found = []
        for there, message in self.out:
            assert isinstance(message, Declare)
            if message.body.NAME != "D_KEYEXPR":
                found.append((there.zid, message.node_id, message.body.NAME))
        self.out.clear()
        return found


@pytest.fixture
def ring() -> RouterInRing:
    return RouterInRing()


def test_own_declarations_go_to_all_children_without_node_id(ring: RouterInRing) -> None:
    ring.sources.declare_local(SUBSCRIBER, "a", NONE)
    ring.sources.declare_local(SUBSCRIBER, "a", NONE)
    assert ring.announced() == [(B, 0, "D_SUBSCRIBER"), (C, 0, "D_SUBSCRIBER")]
    ring.sources.declare_local(SUBSCRIBER, "a", None)
    ring.sources.declare_local(SUBSCRIBER, "a", None)
    assert ring.announced() == [(B, 0, "U_SUBSCRIBER"), (C, 0, "U_SUBSCRIBER")]
    assert ring.held == {}


def test_declarations_of_others_go_down_their_tree(ring: RouterInRing) -> None:
    number = ring.network.psid(D)
    ring.sources.declare(ring.b, D, QUERYABLE, "a", NONE, 0.0)
    assert ring.announced() == [(C, number, "D_QUERYABLE")]
    ring.sources.declare(ring.b, D, QUERYABLE, "a", COMPLETE, 0.0)
    assert ring.held == {(D, QUERYABLE, "a"): COMPLETE}
    assert ring.announced() == [(C, number, "D_QUERYABLE")]
    ring.sources.undeclare(ring.b, D, QUERYABLE, "a", 0.0)
    ring.sources.undeclare(ring.b, D, QUERYABLE, "a", 0.0)
    assert ring.held == {}
    assert ring.announced() == [(C, number, "U_QUERYABLE")]


def test_declarations_with_this_router_as_source_are_ignored(ring: RouterInRing) -> None:
    ring.sources.declare(ring.b, A, SUBSCRIBER, "a", NONE, 0.0)
    ring.sources.undeclare(ring.b, A, SUBSCRIBER, "a", 0.0)
    ring.sources.undeclare(ring.b, ZenohId(99), SUBSCRIBER, "a", 0.0)
    assert (ring.held, ring.announced()) == ({}, [])


def test_new_child_gets_all_declarations(ring: RouterInRing) -> None:
    ring.sources.declare(ring.b, D, SUBSCRIBER, "a", NONE, 0.0)
    ring.sources.declare_local(SUBSCRIBER, "b", NONE)
    ring.announced()
    ring.sources.remove_neighbour(ring.c, 1.0)
    ring.network.remove_neighbour(ring.c, 1.0)
    ring.c = face(C, 3)
    ring.open(ring.c, 1.0)
    ring.sns += 1
    ring.network.receive(ring.c, oam(LinkState(psid=0, sn=ring.sns, links=(1,))), 1.0)
    ring.recompute_trees(1.1)
    assert sorted(ring.announced()) == sorted([(C, 0, "D_SUBSCRIBER"), (C, ring.network.psid(D), "D_SUBSCRIBER")])


def test_declarations_of_the_new_parent_count_after_a_tree_change(ring: RouterInRing) -> None:
    for key in ("gone", "kept"):
        ring.sources.declare(ring.b, D, SUBSCRIBER, key, NONE, 0.0)
    ring.near(C, now=1.0)
    assert ring.network.parent(D) is ring.c
    ring.sources.declare(ring.c, D, SUBSCRIBER, "kept", NONE, 1.0)
    assert len(ring.held) == 2
    assert ring.sources.next_timeout() == 1.0 + UNCONFIRMED_TTL_SECONDS
    ring.sources.handle_timeout(1.0 + UNCONFIRMED_TTL_SECONDS)
    assert set(ring.held) == {(D, SUBSCRIBER, "kept")}
    assert ring.sources.next_timeout() is None


def test_unconfirmed_declaration_expires_after_its_ttl(ring: RouterInRing) -> None:
    ring.sources.declare(ring.c, D, SUBSCRIBER, "a", NONE, 0.0)
    ring.sources.declare(ring.c, D, SUBSCRIBER, "b", NONE, 0.0)
    ring.sources.declare(ring.b, D, SUBSCRIBER, "b", NONE, 0.0)
    ring.sources.handle_timeout(UNCONFIRMED_TTL_SECONDS)
    assert set(ring.held) == {(D, SUBSCRIBER, "b")}
    ring.near(C, now=5.0)
    assert set(ring.held) == {(D, SUBSCRIBER, "a"), (D, SUBSCRIBER, "b")}
    ring.sources.handle_timeout(5.0 + UNCONFIRMED_TTL_SECONDS)
    assert len(ring.held) == 2


def test_unconfirmed_declaration_that_is_repeated_gets_a_new_ttl(ring: RouterInRing) -> None:
    ring.sources.declare(ring.c, D, SUBSCRIBER, "a", NONE, 0.0)
    ring.sources.declare(ring.c, D, SUBSCRIBER, "a", NONE, 1.0)
    ring.sources.handle_timeout(UNCONFIRMED_TTL_SECONDS)
    assert set(ring.held) == {(D, SUBSCRIBER, "a")}
    ring.sources.handle_timeout(1.0 + UNCONFIRMED_TTL_SECONDS)
    assert ring.held == {}


def test_declaration_of_the_parent_overrides_others(ring: RouterInRing) -> None:
    ring.sources.declare(ring.b, D, QUERYABLE, "a", COMPLETE, 0.0)
    ring.sources.declare(ring.c, D, QUERYABLE, "a", NONE, 0.0)
    assert ring.held == {(D, QUERYABLE, "a"): COMPLETE}
    ring.sources.undeclare(ring.c, D, QUERYABLE, "a", 0.0)
    assert ring.held == {(D, QUERYABLE, "a"): COMPLETE}
    ring.sources.declare(ring.c, D, QUERYABLE, "a", NONE, 0.0)
    ring.sources.undeclare(ring.b, D, QUERYABLE, "a", 0.0)
    assert ring.held == {}


def test_undeclare_by_parent_clears_leftovers_when_trees_are_stable(ring: RouterInRing) -> None:
    for there in (ring.b, ring.c):
        ring.sources.declare(there, D, SUBSCRIBER, "a", NONE, 0.0)
    ring.sources.undeclare(ring.b, D, SUBSCRIBER, "a", UNCONFIRMED_TTL_SECONDS)
    ring.near(C, now=2 * UNCONFIRMED_TTL_SECONDS)
    assert ring.held == {}


def test_declarations_of_a_lost_neighbour_need_confirmation(ring: RouterInRing) -> None:
    ring.sources.declare(ring.b, D, SUBSCRIBER, "a", NONE, 0.0)
    ring.sources.remove_neighbour(ring.b, 1.0)
    ring.network.remove_neighbour(ring.b, 1.0)
    assert set(ring.held) == {(D, SUBSCRIBER, "a")}
    ring.near(C, now=1.1)
    ring.sources.declare(ring.c, D, SUBSCRIBER, "a", NONE, 1.2)
    ring.sources.handle_timeout(1.0 + 2 * UNCONFIRMED_TTL_SECONDS)
    assert set(ring.held) == {(D, SUBSCRIBER, "a")}


def test_declarations_of_an_unreachable_source_count_again_when_it_returns(ring: RouterInRing) -> None:
    ring.sources.declare(ring.b, D, SUBSCRIBER, "a", NONE, 0.0)
    ring.announced()
    ring.near(now=1.0)
    assert ring.held == {}
    ring.sources.declare(ring.b, D, SUBSCRIBER, "b", NONE, 1.0)
    assert ring.held == {}
    ring.near(B, now=2.0)
    assert set(ring.held) == {(D, SUBSCRIBER, "a"), (D, SUBSCRIBER, "b")}
    ring.near(now=3.0)
    ring.sources.handle_timeout(3.0 + UNCONFIRMED_TTL_SECONDS)
    ring.near(B, now=3.0 + UNCONFIRMED_TTL_SECONDS)
    assert ring.held == {}
    ring.sources.remove_neighbour(ring.b, 9.0)


def test_source_never_reachable_is_removed(ring: RouterInRing) -> None:
    ring.near(now=1.0)
    ring.sources.declare(ring.b, D, SUBSCRIBER, "a", NONE, 1.0)
    ring.near(now=1.0)
    ring.sources.handle_timeout(1.0 + UNCONFIRMED_TTL_SECONDS)
    assert ring.sources.next_timeout() is None
    ring.near(B, now=9.0)
    assert ring.held == {}


def test_declaration_beyond_the_limit_of_a_neighbouring_router_is_refused() -> None:
    ring = RouterInRing(RouterLimits(network_declarations=1))
    for key in ("a", "a", "b"):
        ring.sources.declare(ring.b, D, SUBSCRIBER, key, NONE, 0.0)
    assert list(ring.held) == [(D, SUBSCRIBER, "a")]
    assert ring.admission.refusals.counts[RefusalReason.DECLARATIONS] == 1
