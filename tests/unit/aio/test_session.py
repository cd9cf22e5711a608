"""Sessions of tasks: opening, closing, and that all of the synchronous API is there."""

from __future__ import annotations

import asyncio
import gc
import inspect
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

import zenspark.aio as aio
from tests.unit.aio.event_loop import client_of, in_loop, isolated_session, run_other_tasks, until
from tests.unit.api.sessions import config
from tests.wait import until as wait_until
from zenspark import aio as lazily
from zenspark.api import entities, info, liveliness, open, publisher, scouting, session
from zenspark.api.session import Session
from zenspark.config.config import Config
from zenspark.engine.lifecycle import SessionLifecycle
from zenspark.errors import SessionClosed, ZError
from zenspark.handlers.arrow import ArrowBatches
from zenspark.handlers.handler import FifoChannel
from zenspark.key import KeyExpr
from zenspark.types import query
from zenspark.types.sample import Sample


def test_package_exports_aio_lazily() -> None:
    assert lazily is aio


@pytest.mark.parametrize(
    ("ours", "sync"),
    [
        (aio.Session, session.Session),
        (aio.Liveliness, liveliness.Liveliness),
        (aio.Publisher, publisher.Publisher),
        (aio.Subscriber, entities.Subscriber),
        (aio.Queryable, entities.Queryable),
        (aio.Querier, entities.Querier),
        (aio.LivelinessToken, entities.LivelinessToken),
        (aio.MatchingListener, entities.MatchingListener),
        (aio.Query, query.Query),
        (aio.SessionInfo, info.SessionInfo),
        (aio.TransportEventsListener, info.TransportEventsListener),
        (aio.LinkEventsListener, info.LinkEventsListener),
        (aio.Scout, scouting.Scout),
    ],
)
def test_async_classes_have_the_methods_and_parameters_of_the_synchronous_ones(ours: type, sync: type) -> None:
    for name, member in inspect.getmembers(sync):
        if name.startswith("_"):
            continue
        mine = inspect.getattr_static(ours, name)
        if callable(member):
            assert _parameters(mine) == _parameters(member), name
        else:
            assert isinstance(mine, property), name


def test_async_functions_have_the_parameters_of_the_synchronous_ones() -> None:
    assert _parameters(aio.open) == _parameters(open.open)
    assert _parameters(aio.scout) == _parameters(scouting.scout)


def _parameters(function: Callable[..., Any]) -> list[tuple[str, object, object]]:
    """Return name, kind and default of each parameter."""
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


@in_loop
async def test_opening_can_be_awaited_or_entered() -> None:
    async with aio.open(config("peer")) as one, await aio.open(config("peer")) as other:
        assert not one.is_closed()
        assert one.id.zid == one.zid() != other.zid()
        assert one.new_timestamp() < one.new_timestamp()
    assert one.is_closed()
    assert other.is_closed()
    await one.close()
    with pytest.raises(SessionClosed):
        await one.put("k", "v")


@in_loop
async def test_open_failure_raises_when_awaited() -> None:
    with pytest.raises(ZError):
        async with aio.open(config("client", (), ["tcp/127.0.0.1:1"], connect__timeout_ms=50)):
            pass


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[SessionLifecycle]:
    """What has run for sessions, and has ended."""
    seen: list[SessionLifecycle] = []
    end = SessionLifecycle._end

    def noted(self: SessionLifecycle, in_loop: bool) -> None:
        end(self, in_loop)
        seen.append(self)

    monkeypatch.setattr(SessionLifecycle, "_end", noted)
    return seen


@pytest.mark.slow
@in_loop
async def test_cancelled_open_stops_while_connecting(ended: list[SessionLifecycle]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        there = f"tcp/127.0.0.1:{nobody.getsockname()[1]}"
        task = asyncio.create_task(_opened(config("client", (), [there], connect__timeout_ms=-1)))
        caller, _ = await asyncio.to_thread(nobody.accept)
        with caller:
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: ended)
        assert ended[0]._runtime.node.is_closed


@in_loop
async def test_session_opened_after_cancellation_is_closed(
    monkeypatch: pytest.MonkeyPatch, ended: list[SessionLifecycle]
) -> None:
    go, finish = threading.Event(), open.SessionOpener.finish

    def slowly(self: open.SessionOpener) -> Session:
        session = finish(self)
        go.wait()
        return session

    monkeypatch.setattr(open.SessionOpener, "finish", slowly)
    task = asyncio.create_task(_opened(config("peer")))
    await run_other_tasks()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    go.set()
    await until(lambda: ended)


async def _opened(settings: Config) -> aio.Session:
    return await aio.open(settings)


@in_loop
async def test_cancelled_close_still_closes_the_session() -> None:
    async with isolated_session() as session:
        task = asyncio.create_task(session.close())
        await run_other_tasks(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(session.is_closed)


@in_loop
async def test_async_callback_can_close_its_session() -> None:
    session, closed = await aio.open(config("peer")), asyncio.Event()

    async def on_sample(_: Sample) -> None:
        await session.close()
        closed.set()

    await session.declare_subscriber("k", on_sample)
    await session.put("k", "v")
    await closed.wait()


@in_loop
async def test_async_close_ends_all_entities() -> None:
    async with isolated_session() as session:
        subscriber = await session.declare_subscriber("k")
        queryable = await session.declare_queryable("k")
        listener = await (await session.declare_publisher("k")).declare_matching_listener()
        await listener.recv()
        tasks = [asyncio.create_task(_count(each)) for each in (subscriber, queryable, listener)]
        await run_other_tasks()
    received, queries, changes = await asyncio.gather(*tasks)
    assert (received, queries) == (0, 0)
    assert changes <= 1  # the undeclaration of the subscriber may still arrive


async def _count(receiver: aio.Subscriber[Any] | aio.Queryable[Any] | aio.MatchingListener[Any]) -> int:
    return len([item async for item in receiver])


@in_loop
async def test_unreferenced_async_session_closes() -> None:
    session = await aio.open(config("peer"))
    runtime = session._sync._runtime
    del session
    gc.collect()
    await until(lambda: runtime.node.is_closed)


@in_loop
async def test_async_put_and_delete_are_received(router: Session) -> None:
    subscriber = router.declare_subscriber("k/**")
    async with client_of(router) as session:
        key = await session.declare_keyexpr("k/a")
        assert isinstance(key, KeyExpr)
        await session.put(key, "value", encoding="text/plain", attachment="more")
        await session.delete(key_expr="k/a")
        put, deletion = subscriber.recv(5), subscriber.recv(5)
        assert (put.payload.to_string(), str(put.encoding), put.attachment) == ("value", "text/plain", b"more")  # type: ignore[comparison-overlap]  # equal by design
        assert deletion.key_expr == "k/a"
        await session.undeclare(key)


@in_loop
async def test_async_session_undeclare_ends_entities() -> None:
    async with isolated_session() as session:
        publisher = await session.declare_publisher("k")
        subscriber = await session.declare_subscriber("k")
        await session.undeclare(subscriber)
        assert not publisher.matching_status
        with pytest.raises(TypeError):
            await session.undeclare("k")  # type: ignore[arg-type]


@in_loop
async def test_async_invalid_key_expression_is_rejected() -> None:
    async with isolated_session() as session:
        with pytest.raises(ZError):
            await session.put("a//b", "v")
        with pytest.raises(ZError):
            await session.declare_subscriber("/a")


def test_closed_event_loop_does_not_block_its_session(router: Session) -> None:
    kept: list[object] = []

    async def leave() -> aio.Session:
        session = await client_of(router).__aenter__()
        kept.append(await session.declare_subscriber("k", FifoChannel(2)))
        await session.declare_subscriber("k", kept.append)
        return session

    session = asyncio.run(leave())
    for number in range(100):
        router.put("k", str(number))
    thread = threading.Thread(target=session._sync.close)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    wait_until(lambda: not router.info.transports())


def test_sessions_of_two_event_loops_exchange_samples(router: Session) -> None:
    found: list[str] = []
    ready = threading.Event()

    @in_loop
    async def receive() -> None:
        async with client_of(router) as session, session.declare_subscriber("k") as subscriber:
            await until(lambda: router.declare_publisher("k").matching_status)
            ready.set()
            async for sample in subscriber:
                found.append(sample.payload.to_string())
                if len(found) == 100:
                    return

    @in_loop
    async def send() -> None:
        await until(ready.is_set)
        async with client_of(router) as session, session.declare_publisher("k") as publisher:
            await until(lambda: publisher.matching_status)
            for number in range(100):
                await publisher.put(str(number))

    threads = [threading.Thread(target=target) for target in (receive, send)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [str(number) for number in range(100)]


@in_loop
async def test_record_batches_are_rejected_where_items_are_no_samples() -> None:
    handler: Any = ArrowBatches()
    async with isolated_session() as session:
        publisher = await session.declare_publisher("k")
        for declared in (
            session.declare_queryable("k", handler),
            session.get("k", handler),
            session.liveliness().get("k", handler),
            session.info.declare_link_events_listener(handler),
            publisher.declare_matching_listener(handler),
            aio.scout(handler),
        ):
            with pytest.raises(ValueError, match="expected a channel"):
                await declared
        assert await session.liveliness().declare_subscriber("k", handler)


@in_loop
@pytest.mark.parametrize("wrong", ["x", 3])
async def test_congestion_control_of_another_type_is_a_type_error(wrong: Any) -> None:  # noqa: ANN401 - no enum
    async with isolated_session() as session:
        for publication in (
            session.put("k", "v", congestion_control=wrong),
            session.delete("k", congestion_control=wrong),
        ):
            with pytest.raises(TypeError, match="expected CongestionControl"):
                await publication
