"""Inbound links: how many at a time, from which addresses, and which are closed when there are too many."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.unit.net.ends import link_pair
from zenspark.net.links.base import Link
from zenspark.net.node.link_quotas import LinkLimits, LinkQuotas, source_network_of
from zenspark.router.limits import RefusalReason, Refusals


class Calls:
    """Callers with links in memory."""

    def __init__(self, limits: LinkLimits, stack: contextlib.ExitStack) -> None:
        self.refusals = Refusals()
        self.links_with_data: set[Link] = set()
        self.quotas = LinkQuotas(limits, self.refusals, self.links_with_data.__contains__)
        self.far_ends: dict[Link, Link] = {}
        self._stack = stack

    def link(self, host: str | None) -> Link:
        near, far = link_pair()
        near.remote_host = host
        self.far_ends[near] = far
        for end in (near, far):
            self._stack.callback(end.close)
        return near

    def add(self, host: str | None) -> tuple[Link, Link | None]:
        link = self.link(host)
        leaving = self.quotas.add(link)
        if leaving is not None:
            self.quotas.remove(leaving)
        return link, leaving


@pytest.fixture
def calls() -> Iterator[Calls]:
    with contextlib.ExitStack() as stack:
        limits = LinkLimits(pending=3, pending_per_address=2, sessions=3, sessions_per_address=2)
        yield Calls(limits, stack)


@pytest.mark.parametrize(
    ("host", "source_network"),
    [
        (None, None),
        ("127.0.0.1", None),
        ("::1", None),
        ("::ffff:127.0.0.1", None),
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_source_network_is_an_ipv4_address_or_ipv6_prefix_and_none_for_loopback(
    calls: Calls, host: str | None, source_network: str | None
) -> None:
    assert source_network_of(calls.link(host)) == source_network


def test_oldest_pending_link_without_data_is_evicted(calls: Calls) -> None:
    first, _ = calls.add(None)
    second, _ = calls.add(None)
    third, leaving = calls.add(None)
    assert leaving is None
    calls.links_with_data.add(first)
    calls.far_ends[second].send(b"unread")
    assert calls.add(None)[1] is third
    assert len(calls.quotas) == 3
    assert calls.refusals.counts == {RefusalReason.PENDING: 1}
    calls.links_with_data.update(calls.far_ends)
    assert calls.add(None)[1] is first


def test_address_over_its_limit_evicts_one_of_its_own_links(calls: Calls) -> None:
    calls.add("192.0.2.1")
    mine, _ = calls.add("192.0.2.2")
    calls.add("192.0.2.2")
    assert calls.add("192.0.2.2")[1] is mine
    assert calls.refusals.counts == {RefusalReason.PENDING_PER_ADDRESS: 1}


def test_sessions_are_limited_in_all_and_per_address(calls: Calls) -> None:
    def open_from(host: str | None) -> tuple[Link, str | None]:
        link, _ = calls.add(host)
        refusal = calls.quotas.session_refusal(link)
        if refusal is None:
            calls.quotas.count_session(link)
        else:
            calls.quotas.remove(link)
        return link, refusal

    first, refusal = open_from("192.0.2.1")
    assert refusal is None
    assert open_from("192.0.2.1")[1] is None
    assert open_from("192.0.2.1")[1] == "2 sessions from 192.0.2.1 are the limit"
    assert open_from("192.0.2.2")[1] is None
    assert open_from("192.0.2.3")[1] == "3 sessions are the limit"
    calls.quotas.remove(first)
    assert open_from("192.0.2.1")[1] is None
    assert calls.refusals.counts == {RefusalReason.SESSIONS_PER_ADDRESS: 1, RefusalReason.SESSIONS: 1}
    assert len(calls.quotas) == 0


def test_sessions_from_loopback_have_no_limit_per_address(calls: Calls) -> None:
    for host in ("127.0.0.1", None, "::1"):
        link, _ = calls.add(host)
        assert calls.quotas.session_refusal(link) is None
        calls.quotas.count_session(link)


def test_links_that_this_node_opened_count_as_sessions_only(calls: Calls) -> None:
    for _ in range(3):
        calls.quotas.count_session(calls.link("192.0.2.1"))
    link, leaving = calls.add("192.0.2.1")
    assert leaving is None
    assert calls.quotas.session_refusal(link) == "3 sessions are the limit"


def test_pending_limit_of_zero_evicts_the_new_link() -> None:
    with contextlib.ExitStack() as stack:
        calls = Calls(LinkLimits(pending=0), stack)
        link, leaving = calls.add(None)
        assert leaving is link
