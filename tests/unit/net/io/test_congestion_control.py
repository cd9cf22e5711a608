"""CongestionPolicy with a link in memory: which messages wait, for how long, and which are dropped."""

from __future__ import annotations

import threading

import pytest

from tests.wait import TIMEOUT_SECONDS, until
from zenspark.net.io.congestion_control import CongestionPolicy, WriterSettings
from zenspark.wait_queue import WaitQueue
from zenspark.wire.values import Congestion

BLOCK, BLOCK_FIRST, DROP = Congestion.BLOCK, Congestion.BLOCK_FIRST, Congestion.DROP
SETTINGS = WriterSettings(wait_before_drop=0.001, wait_before_close=0.02)


class FakeLink:
    """A link with unsent bytes. Each retry sends `progress` of them."""

    def __init__(self, unsent: int = 10, progress: int = 0) -> None:
        self.unsent = unsent
        self.progress = progress
        self.has_ended = False
        self.bytes_sent = 0
        self.waits: list[bool] = []
        self.unresponsive: list[float] = []

    @property
    def has_unsent(self) -> bool:
        return self.unsent > 0

    def retry_from_thread(self) -> bool:
        count = min(self.progress, self.unsent)
        self.unsent -= count
        self.bytes_sent += count
        return not self.unsent

    def on_waiting(self, is_waiting: bool) -> None:
        self.waits.append(is_waiting)

    def on_slow_consumer(self, seconds: float) -> None:
        self.unresponsive.append(seconds)


def make_policy(link: FakeLink, settings: WriterSettings = SETTINGS) -> tuple[CongestionPolicy, WaitQueue]:
    wait_queue = WaitQueue()
    return CongestionPolicy(link, wait_queue, settings), wait_queue


def test_block_waits_while_the_peer_makes_progress() -> None:
    link = FakeLink(unsent=5, progress=1)
    policy, _ = make_policy(link)
    assert policy.wait(BLOCK)
    assert (link.unsent, link.waits, link.unresponsive) == (0, [True, False], [])


def test_block_reports_an_unresponsive_peer_after_wait_before_close() -> None:
    link = FakeLink()
    policy, _ = make_policy(link)
    assert not policy.wait(BLOCK)
    assert link.unresponsive == [SETTINGS.wait_before_close]
    assert link.waits == [True, False]


def test_block_is_not_sent_when_the_session_closes() -> None:
    link = FakeLink()
    policy, wait_queue = make_policy(link, WriterSettings(wait_before_close=TIMEOUT_SECONDS))
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(policy.wait(BLOCK)))
    thread.start()
    until(lambda: link.waits == [True])
    link.has_ended = True
    wait_queue.notify_all()
    thread.join(TIMEOUT_SECONDS)
    assert results == [False]
    assert link.unresponsive == []


def test_drop_waits_once_until_the_link_has_drained() -> None:
    link = FakeLink()
    policy, _ = make_policy(link)
    assert policy.may_wait(DROP)
    assert not policy.wait(DROP)
    assert policy.drops_at_once
    assert not policy.may_wait(DROP)
    assert not policy.wait(DROP)
    link.unsent = 0
    assert policy.wait(DROP), "there is space, although the policy was not notified"
    assert link.waits == [], "only Block waits for progress"


def test_second_block_first_is_dropped_while_the_first_waits() -> None:
    link = FakeLink()
    policy, wait_queue = make_policy(link, WriterSettings(wait_before_close=TIMEOUT_SECONDS))
    results: list[bool] = []
    first = threading.Thread(target=lambda: results.append(policy.wait(BLOCK_FIRST)))
    first.start()
    until(lambda: policy.has_block_first)
    assert not policy.may_wait(BLOCK_FIRST)
    assert not policy.wait(BLOCK_FIRST)
    link.unsent = 0
    wait_queue.notify_all()
    first.join(TIMEOUT_SECONDS)
    assert results == [True]
    assert policy.may_wait(BLOCK_FIRST)


@pytest.mark.parametrize("congestion", [BLOCK, BLOCK_FIRST, DROP])
def test_link_without_unsent_bytes_does_not_wait(congestion: Congestion) -> None:
    policy, _ = make_policy(FakeLink(unsent=0))
    assert policy.wait(congestion)
    assert policy.is_drained()
