"""Declarations of routers: told down the trees, whatever happens to the trees meanwhile."""

from __future__ import annotations

import pytest

from tests.unit.router.linkstate.test_network import face, named, oam, own
from zenspark.router.face import DeclarationKind, Face, Outgoing
from zenspark.router.limits import Admission, Refusals, RouterLimits
from zenspark.router.linkstate.network import RouterNetwork
from zenspark.router.linkstate.sourced_declarations import UNCONFIRMED_TTL_SECONDS, SourcedDeclarations, SourceRouter
from zenspark.wire.messages import Declare, LinkState
from zenspark.wire.values import QueryableInfo, ZenohId

A, B, C, D = (ZenohId(number) for number in (0xA, 0xB, 0xC, 0xD))
NONE, COMPLETE = QueryableInfo.NONE, QueryableInfo(True)
SUBSCRIBER, QUERYABLE = DeclarationKind.SUBSCRIBER, DeclarationKind.QUERYABLE


class Here:
    """The router A between B and C, behind both of which is D: a ring, cut where `near` does not say."""

    def __init__(self) -> None:
        self.network = RouterNetwork(A, {B: 10, C: 10})
        self.out: Outgoing = []
        self.held: dict[tuple[ZenohId, DeclarationKind, str], QueryableInfo] = {}
        self.sources = SourcedDeclarations(self.network, self.out, self.change, Admission(RouterLimits(), Refusals()))
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
        self.sources.opened(there)
        self.network.opened(there, (), now)
        self.network.receive(there, oam(own(there.zid, self.sns, 1), named(1, A), named(2, D)), now)

    def near(self, *routers: ZenohId, now: float = 0.0) -> None:
        """D has links to these, and everybody knows."""
        self.sns += 1
        for there in (self.b, self.c):
            if self.network.face(there.zid) is there:
                links = (1, 2) if there.zid in routers else (1,)
                self.network.receive(there, oam(LinkState(psid=0, sn=self.sns, links=links)), now)
        teller, number = (self.b, B) if B in routers or not routers else (self.c, C)
        others = [named(5, C)] if teller is self.b else [named(5, B)]
        mine = tuple(0 if zid == number else 5 for zid in routers)
        self.network.receive(teller, oam(*others, LinkState(psid=2, sn=self.sns, links=mine)), now)
        self.recompute_trees(now)

    def recompute_trees(self, now: float) -> None:
        moved, _ = self.network.recompute_trees(now)
        self.sources.apply_tree_change(moved, now)

    def announced(self) -> list[tuple[ZenohId, int, str]]:
        """To whom, of whom (by our number), what."""
        found = []
        for there, message in self.out:
            assert isinstance(message, Declare)
            if message.body.NAME != "D_KEYEXPR":
                found.append((there.zid, message.node_id, message.body.NAME))
        self.out.clear()
        return found


@pytest.fixture
def here() -> Here:
    return Here()


def test_own_declarations_go_to_all_children_without_node_id(here: Here) -> None:
    here.sources.declare_own(SUBSCRIBER, "a", NONE)
    here.sources.declare_own(SUBSCRIBER, "a", NONE)
    assert here.announced() == [(B, 0, "D_SUBSCRIBER"), (C, 0, "D_SUBSCRIBER")]
    here.sources.declare_own(SUBSCRIBER, "a", None)
    here.sources.declare_own(SUBSCRIBER, "a", None)
    assert here.announced() == [(B, 0, "U_SUBSCRIBER"), (C, 0, "U_SUBSCRIBER")]
    assert here.held == {}


def test_declarations_of_others_go_down_their_tree(here: Here) -> None:
    number = here.network.psid(D)
    here.sources.declare(here.b, D, QUERYABLE, "a", NONE, 0.0)
    assert here.announced() == [(C, number, "D_QUERYABLE")]
    here.sources.declare(here.b, D, QUERYABLE, "a", COMPLETE, 0.0)
    assert here.held == {(D, QUERYABLE, "a"): COMPLETE}
    assert here.announced() == [(C, number, "D_QUERYABLE")]
    here.sources.undeclare(here.b, D, QUERYABLE, "a", 0.0)
    here.sources.undeclare(here.b, D, QUERYABLE, "a", 0.0)
    assert here.held == {}
    assert here.announced() == [(C, number, "U_QUERYABLE")]


def test_declarations_with_this_router_as_source_are_ignored(here: Here) -> None:
    here.sources.declare(here.b, A, SUBSCRIBER, "a", NONE, 0.0)
    here.sources.undeclare(here.b, A, SUBSCRIBER, "a", 0.0)
    here.sources.undeclare(here.b, ZenohId(99), SUBSCRIBER, "a", 0.0)
    assert (here.held, here.announced()) == ({}, [])


def test_new_child_gets_all_declarations(here: Here) -> None:
    here.sources.declare(here.b, D, SUBSCRIBER, "a", NONE, 0.0)
    here.sources.declare_own(SUBSCRIBER, "b", NONE)
    here.announced()
    here.sources.closed(here.c, 1.0)
    here.network.closed(here.c, 1.0)
    here.c = face(C, 3)
    here.open(here.c, 1.0)
    here.sns += 1
    here.network.receive(here.c, oam(LinkState(psid=0, sn=here.sns, links=(1,))), 1.0)
    here.recompute_trees(1.1)
    assert sorted(here.announced()) == sorted([(C, 0, "D_SUBSCRIBER"), (C, here.network.psid(D), "D_SUBSCRIBER")])


def test_declarations_of_the_new_parent_count_after_a_tree_change(here: Here) -> None:
    for key in ("gone", "kept"):
        here.sources.declare(here.b, D, SUBSCRIBER, key, NONE, 0.0)
    here.near(C, now=1.0)
    assert here.network.parent(D) is here.c
    here.sources.declare(here.c, D, SUBSCRIBER, "kept", NONE, 1.0)
    assert len(here.held) == 2
    assert here.sources.next_timeout() == 1.0 + UNCONFIRMED_TTL_SECONDS
    here.sources.handle_timeout(1.0 + UNCONFIRMED_TTL_SECONDS)
    assert set(here.held) == {(D, SUBSCRIBER, "kept")}
    assert here.sources.next_timeout() is None


def test_unconfirmed_declaration_expires_after_its_ttl(here: Here) -> None:
    here.sources.declare(here.c, D, SUBSCRIBER, "a", NONE, 0.0)
    here.sources.declare(here.c, D, SUBSCRIBER, "b", NONE, 0.0)
    here.sources.declare(here.b, D, SUBSCRIBER, "b", NONE, 0.0)
    here.sources.handle_timeout(UNCONFIRMED_TTL_SECONDS)
    assert set(here.held) == {(D, SUBSCRIBER, "b")}
    here.near(C, now=5.0)
    assert set(here.held) == {(D, SUBSCRIBER, "a"), (D, SUBSCRIBER, "b")}
    here.sources.handle_timeout(5.0 + UNCONFIRMED_TTL_SECONDS)
    assert len(here.held) == 2


def test_unconfirmed_declaration_that_is_repeated_gets_a_new_ttl(here: Here) -> None:
    here.sources.declare(here.c, D, SUBSCRIBER, "a", NONE, 0.0)
    here.sources.declare(here.c, D, SUBSCRIBER, "a", NONE, 1.0)
    here.sources.handle_timeout(UNCONFIRMED_TTL_SECONDS)
    assert set(here.held) == {(D, SUBSCRIBER, "a")}
    here.sources.handle_timeout(1.0 + UNCONFIRMED_TTL_SECONDS)
    assert here.held == {}


def test_declaration_of_the_parent_overrides_others(here: Here) -> None:
    here.sources.declare(here.b, D, QUERYABLE, "a", COMPLETE, 0.0)
    here.sources.declare(here.c, D, QUERYABLE, "a", NONE, 0.0)
    assert here.held == {(D, QUERYABLE, "a"): COMPLETE}
    here.sources.undeclare(here.c, D, QUERYABLE, "a", 0.0)
    assert here.held == {(D, QUERYABLE, "a"): COMPLETE}
    here.sources.declare(here.c, D, QUERYABLE, "a", NONE, 0.0)
    here.sources.undeclare(here.b, D, QUERYABLE, "a", 0.0)
    assert here.held == {}


def test_undeclare_by_parent_clears_leftovers_when_trees_are_stable(here: Here) -> None:
    for there in (here.b, here.c):
        here.sources.declare(there, D, SUBSCRIBER, "a", NONE, 0.0)
    here.sources.undeclare(here.b, D, SUBSCRIBER, "a", UNCONFIRMED_TTL_SECONDS)
    here.near(C, now=2 * UNCONFIRMED_TTL_SECONDS)
    assert here.held == {}


def test_declarations_of_a_lost_neighbour_need_confirmation(here: Here) -> None:
    here.sources.declare(here.b, D, SUBSCRIBER, "a", NONE, 0.0)
    here.sources.closed(here.b, 1.0)
    here.network.closed(here.b, 1.0)
    assert set(here.held) == {(D, SUBSCRIBER, "a")}
    here.near(C, now=1.1)
    here.sources.declare(here.c, D, SUBSCRIBER, "a", NONE, 1.2)
    here.sources.handle_timeout(1.0 + 2 * UNCONFIRMED_TTL_SECONDS)
    assert set(here.held) == {(D, SUBSCRIBER, "a")}


def test_declarations_of_an_unreachable_source_count_again_when_it_returns(here: Here) -> None:
    here.sources.declare(here.b, D, SUBSCRIBER, "a", NONE, 0.0)
    here.announced()
    here.near(now=1.0)
    assert here.held == {}
    here.sources.declare(here.b, D, SUBSCRIBER, "b", NONE, 1.0)
    assert here.held == {}
    here.near(B, now=2.0)
    assert set(here.held) == {(D, SUBSCRIBER, "a"), (D, SUBSCRIBER, "b")}
    here.near(now=3.0)
    here.sources.handle_timeout(3.0 + UNCONFIRMED_TTL_SECONDS)
    here.near(B, now=3.0 + UNCONFIRMED_TTL_SECONDS)
    assert here.held == {}
    here.sources.closed(here.b, 9.0)


def test_source_never_reachable_is_removed(here: Here) -> None:
    here.near(now=1.0)
    here.sources.declare(here.b, D, SUBSCRIBER, "a", NONE, 1.0)
    here.near(now=1.0)
    here.sources.handle_timeout(1.0 + UNCONFIRMED_TTL_SECONDS)
    assert here.sources.next_timeout() is None
    here.near(B, now=9.0)
    assert here.held == {}
