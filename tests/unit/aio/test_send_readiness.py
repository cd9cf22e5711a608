"""Speaking from the loop: what waits is the task, never the loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import zenspark.aio as aio
from tests.unit.aio.event_loop import client_of, connected_session, in_loop, run_other_tasks, until
from tests.unit.api.sessions import listening
from zenspark.aio.channels import MAX_ITEMS_PER_TURN
from zenspark.api.entities import Subscriber
from zenspark.api.session import Session
from zenspark.errors import SessionClosed
from zenspark.handlers.handler import FifoChannel, Handler
from zenspark.net.io.congestion_control import CongestionPolicy
from zenspark.net.io.writer import nonblocking
from zenspark.types.enums import CongestionControl
from zenspark.types.sample import Sample

BLOCK = CongestionControl.BLOCK
LARGE = bytes(1 << 18)
DROPPED = 1 << 31


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> set[threading.Thread]:
    """The threads that have waited for a backlogged link."""
    seen: set[threading.Thread] = set()
    original = CongestionPolicy._block

    def noted(self: CongestionPolicy) -> bool:
        seen.add(threading.current_thread())
        return original(self)

    monkeypatch.setattr(CongestionPolicy, "_block", noted)
    return seen


@asynccontextmanager
async def backlogged_session(
    router: Session, mode: str = "client", **others: object
) -> AsyncIterator[BackloggedSession]:
    """A session whose neighbour takes no more on a key, and whose task waits until it can send."""
    subscriber = router.declare_subscriber("k", FifoChannel(1))
    async with connected_session(router, mode, **others) as session:
        publisher = await session.declare_publisher("k", congestion_control=BLOCK)
        await until(lambda: publisher.matching_status)
        state = BackloggedSession(session, publisher, subscriber)
        state.task = asyncio.create_task(state.flood())
        await until(state.is_backlogged)
        try:
            yield state
        finally:
            state.task.cancel()
            await asyncio.gather(state.task, return_exceptions=True)
            subscriber.undeclare()


class BackloggedSession:
    task: asyncio.Task[None]

    def __init__(self, session: aio.Session, publisher: aio.Publisher, subscriber: Subscriber[Handler[Sample]]) -> None:
        self.session = session
        self.publisher = publisher
        self.subscriber = subscriber
        self.sent = self.late = 0
        self.is_enough = False

    def is_backlogged(self) -> bool:
        """Whether the link has taken nothing for a while."""
        is_late = bool(self.session._sync._runtime.node.blocking_links(BLOCK.to_wire()))
        self.late = self.late + 1 if is_late else 0
        return self.late > 20

    async def flood(self) -> None:
        while not self.is_enough:
            await self.publisher.put(self.sent.to_bytes(4, "big") + LARGE)
            self.sent += 1

    async def read(self) -> list[int]:
        """What the router has received, once the flood is over."""
        self.is_enough = True
        found: list[int] = []
        while not self.task.done() or sum(number != DROPPED for number in found) < self.sent:
            sample = self.subscriber.try_recv()
            if sample is None:
                await asyncio.sleep(0.001)
            else:
                found.append(int.from_bytes(sample.payload.to_bytes()[:4], "big"))
        return found


@pytest.mark.slow
@in_loop
async def test_put_to_a_backlogged_link_waits_in_a_thread_and_loses_nothing(
    router: Session, waiting: set[threading.Thread]
) -> None:
    async with backlogged_session(router) as state:
        assert not state.task.done()
        found = await state.read()
        assert found == list(range(state.sent))
    assert waiting
    assert threading.current_thread() not in waiting


@pytest.mark.slow
@in_loop
async def test_put_cancelled_while_waiting_is_not_sent(router: Session) -> None:
    async with backlogged_session(router) as state:
        sent = state.sent
        state.task.cancel()
        await asyncio.gather(state.task, return_exceptions=True)
        assert await state.read() == list(range(sent))
        await state.publisher.put((7).to_bytes(4, "big"))
        await until(lambda: (sample := state.subscriber.try_recv()) and len(sample.payload) == 4)


@pytest.mark.slow
@in_loop
async def test_tasks_waiting_for_one_link_share_a_thread(router: Session, waiting: set[threading.Thread]) -> None:
    async with backlogged_session(router) as state:
        tasks = [asyncio.create_task(state.session.put("k", LARGE, congestion_control=BLOCK)) for _ in range(100)]
        await until(lambda: state.session._readiness._waits)
        assert sum(not task.done() for task in tasks) > 1
        assert len(state.session._readiness._waits) == 1
        state.task.cancel()
        while not all(task.done() for task in tasks):
            state.subscriber.try_recv()
            await asyncio.sleep(0.001)
        await asyncio.gather(*tasks)


@pytest.mark.slow
@in_loop
async def test_put_to_other_links_does_not_wait_for_a_backlogged_one() -> None:
    with listening("peer") as peer:
        async with backlogged_session(peer, "peer") as state:
            node = state.session._sync._runtime.node
            await until(lambda: node.blocking_links(BLOCK.to_wire(), "k"))
            assert not node.blocking_links(BLOCK.to_wire(), "nobody/wants/this")
            await state.session.put("nobody/wants/this", "x", congestion_control=BLOCK)
            assert not state.task.done()


@pytest.mark.slow
@in_loop
async def test_droppable_put_to_a_backlogged_link_is_dropped(router: Session) -> None:
    async with backlogged_session(router) as state:
        for _ in range(200):  # more than fits into the buffers of any socket
            await state.session.put("k", DROPPED.to_bytes(4, "big") + LARGE, congestion_control=CongestionControl.DROP)
        found = await state.read()
        assert [number for number in found if number != DROPPED] == list(range(state.sent))
        assert found.count(DROPPED) < 200


@pytest.mark.slow
@in_loop
async def test_query_waits_for_a_backlogged_link_and_token_does_not(router: Session) -> None:
    async with backlogged_session(router) as state:
        task = asyncio.create_task(_all(state.session.get("q", timeout=5)))
        async with state.session.liveliness().declare_token("alive"):
            await run_other_tasks()
            assert not task.done()
        await state.read()
        assert await task == []


async def _all(replies: aio.Replies[Any]) -> list[object]:
    return [reply async for reply in replies]


@pytest.mark.slow
@in_loop
async def test_close_ends_a_put_that_waits(router: Session) -> None:
    async with backlogged_session(
        router, transport__link__tx__queue__congestion_control__block__wait_before_close=100_000
    ) as state:
        await state.session.close()
        with pytest.raises(SessionClosed):
            await state.task


@pytest.mark.slow
@in_loop
async def test_unresponsive_peer_is_disconnected(router: Session) -> None:
    async with backlogged_session(
        router, transport__link__tx__queue__congestion_control__block__wait_before_close=100_000
    ) as state:
        state.is_enough = True
        await state.task


@in_loop
async def test_no_thread_is_started_without_backlog(router: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    subscriber = router.declare_subscriber("k", FifoChannel(10_000))
    async with client_of(router) as session:
        monkeypatch.setattr("zenspark.aio.send_readiness.run_in_thread", None)
        for number in range(1000):
            await session.put("k", str(number), congestion_control=BLOCK)
        for number in range(1000):
            assert subscriber.recv(5).payload.to_string() == str(number)


@in_loop
async def test_sender_yields_to_other_tasks(router: Session) -> None:
    turned = []

    async def note() -> None:
        turned.append(1)

    async with client_of(router) as session:
        task = asyncio.create_task(note())
        for _ in range(2 * MAX_ITEMS_PER_TURN):
            await session.put("nobody", "x")
        assert turned
        await task


@pytest.mark.slow
@in_loop
async def test_put_batch_does_not_block_the_event_loop(router: Session, waiting: set[threading.Thread]) -> None:
    count = 50
    batch = pa.RecordBatch.from_pylist([{"key": "k", "payload": str(row).encode() + LARGE} for row in range(count)])
    subscriber = router.declare_subscriber("k", FifoChannel(1))
    async with client_of(router) as session, session.declare_publisher("k", congestion_control=BLOCK) as publisher:
        await until(lambda: publisher.matching_status)
        for put in (partial(session.put_batch, congestion_control=BLOCK), publisher.put_batch):
            task = asyncio.create_task(put(batch))
            found: list[bytes] = []
            while len(found) < count:
                sample = subscriber.try_recv()
                if sample is None:
                    await asyncio.sleep(0.001)
                else:
                    found.append(sample.payload.to_bytes()[: -len(LARGE)])
            assert await task == 0
            assert found == [str(row).encode() for row in range(count)]
    assert threading.current_thread() not in waiting


def test_nonblocking_mode_ends_with_its_block() -> None:
    with nonblocking:
        assert nonblocking.on
    assert not nonblocking.on


def test_async_put_has_the_signature_of_the_synchronous_one() -> None:
    assert inspect.signature(aio.Session.put) == inspect.signature(Session.put)
