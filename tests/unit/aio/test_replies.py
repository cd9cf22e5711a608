"""Replies: how a task queries, and all the ways in which a query ends."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

import zenspark.aio as aio
from tests.unit.aio.event_loop import in_loop, isolated_session, run_other_tasks, until
from zenspark.api.cancellation import CancellationToken
from zenspark.errors import UsageError
from zenspark.handlers.channel import ChannelClosed, ReceiveTimeout
from zenspark.types.sample import Reply


def in_flight(session: aio.Session) -> int:
    return len(session._sync._runtime.queries._collectors)


async def silent(session: aio.Session) -> aio.Queryable[Any]:
    """A queryable that does not reply."""
    return await session.declare_queryable("k")


@in_loop
async def test_iteration_of_replies_ends_with_the_last() -> None:
    async with isolated_session() as session:

        async def on_query(query: aio.Query) -> None:
            for number in range(3):
                await query.reply(f"k/{number}", str(number))

        async with session.declare_queryable("k/*", on_query):
            found = [reply.ok.payload.to_string() async for reply in session.get("k/*") if reply.ok]
        assert found == ["0", "1", "2"]
        assert in_flight(session) == 0


@in_loop
async def test_query_is_sent_once_however_replies_are_started() -> None:
    async with isolated_session() as session, session.declare_queryable("k") as queryable:
        replies = session.get("k")
        assert replies.try_recv() is None
        assert in_flight(session) == 0
        assert await replies is replies
        assert await replies is replies
        assert in_flight(session) == 1
        (await queryable.recv()).drop()
        assert [reply async for reply in replies] == []
        with pytest.raises(ChannelClosed):
            replies.try_recv()


@in_loop
async def test_replies_never_awaited_warn() -> None:
    async with isolated_session() as session:
        with pytest.warns(RuntimeWarning, match="never awaited"):
            session.get("k")


@in_loop
async def test_cancelled_iteration_cancels_the_query() -> None:
    async with isolated_session() as session, session.declare_queryable("k"):

        async def iterate() -> None:
            async for _ in session.get("k", timeout=100):
                pass

        task = asyncio.create_task(iterate())
        await until(lambda: in_flight(session))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert in_flight(session) == 0


@in_loop
async def test_cancellation_in_the_loop_body_cancels_the_query() -> None:
    async with isolated_session() as session:

        async def on_query(query: aio.Query) -> None:
            await query.reply_err("one")
            await asyncio.Event().wait()

        inside = asyncio.Event()

        async def iterate() -> None:
            async for _ in session.get("k", timeout=100):
                inside.set()
                await asyncio.Event().wait()

        async with session.declare_queryable("k", on_query):
            task = asyncio.create_task(iterate())
            await inside.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            del task
            await until(lambda: not in_flight(session))


@in_loop
async def test_unreferenced_replies_cancel_the_query() -> None:
    async with isolated_session() as session, session.declare_queryable("k"):
        replies = await session.get("k", timeout=100)
        gone = weakref.ref(replies)
        del replies
        gc.collect()
        assert gone() is None
        await until(lambda: not in_flight(session))


@in_loop
async def test_end_of_async_with_cancels_the_query() -> None:
    async with isolated_session() as session, session.declare_queryable("k"):
        async with session.get("k", timeout=100) as replies:
            assert in_flight(session) == 1
        assert in_flight(session) == 0
        assert [reply async for reply in replies] == []


@in_loop
async def test_recv_timeout_does_not_cancel_the_query() -> None:
    async with isolated_session() as session, session.declare_queryable("k") as queryable:
        replies = session.get("k", timeout=100)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(replies.recv(), 0.01)
        with pytest.raises(ReceiveTimeout):
            await replies.recv(timeout=0.01)
        async with await queryable.recv() as query:
            await query.reply("k", "late")
        reply = await replies.recv()
        assert reply.ok is not None
        with pytest.raises(ChannelClosed):
            await replies.recv()


@in_loop
async def test_replies_cancelled_before_start_send_no_query() -> None:
    async with isolated_session() as session, session.declare_queryable("k") as queryable:
        replies = session.get("k")
        replies.cancel()
        with pytest.raises(UsageError, match="not sent"):
            await replies.recv()
        assert queryable.try_recv() is None


@in_loop
async def test_cancellation_token_of_the_user_ends_the_query() -> None:
    async with isolated_session() as session, session.declare_queryable("k"):
        token = CancellationToken()
        one, other = [await session.get("k", timeout=100, cancellation_token=token) for _ in range(2)]
        one.cancel()
        assert in_flight(session) == 1
        token.cancel()
        assert in_flight(session) == 0
        assert [reply async for reply in other] == []
        with pytest.raises(UsageError, match="was cancelled"):
            await session.get("k", cancellation_token=token)


@in_loop
async def test_cancellation_token_is_detached_when_the_query_ends() -> None:
    async with isolated_session() as session:
        token = CancellationToken()
        assert [reply async for reply in session.get("k", cancellation_token=token)] == []
        assert token._stops == set()


@in_loop
async def test_session_close_ends_replies() -> None:
    async with isolated_session() as session, session.declare_queryable("k"):
        task = asyncio.create_task((await session.get("k", timeout=100)).recv())
        await run_other_tasks()
        await session.close()
        with pytest.raises(ChannelClosed):
            await task


@in_loop
async def test_callback_receives_replies() -> None:
    async with isolated_session() as session:
        found: list[Reply] = []

        async def on_query(query: aio.Query) -> None:
            await query.reply("k", "one")

        async def on_reply(reply: Reply) -> None:
            await asyncio.sleep(0)
            found.append(reply)

        async with session.declare_queryable("k", on_query):
            replies = await session.get("k", on_reply)
            assert replies.handler is None
            with pytest.raises(UsageError, match="callback"):
                await replies.recv()  # type: ignore[misc]
            del replies  # which does not end it
            await until(lambda: found)


@in_loop
async def test_invalid_arguments_of_get_raise_when_awaited() -> None:
    async with isolated_session() as session:
        with pytest.raises(TypeError):
            await session.get("k", nonsense=1)  # type: ignore[call-overload]


@in_loop
async def test_cancellation_token_of_another_type_is_a_type_error() -> None:
    token: Any = 3
    async with isolated_session() as session, session.declare_querier("k") as querier:
        for replies in (
            session.get("k", cancellation_token=token),
            querier.get(cancellation_token=token),
            session.liveliness().get("k", cancellation_token=token),
        ):
            with pytest.raises(TypeError, match="expected CancellationToken, found 'int'"):
                await replies
