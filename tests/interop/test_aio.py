"""Tasks beside eclipse-zenoh on loopback: publications, queries and tokens, both ways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

import zenspark.aio as aio
from tests.interop.reference import Reference, ours, reference, unused
from tests.unit.aio.event_loop import until
from zenspark.types.enums import SampleKind

pytest.importorskip("zenoh")
pytestmark = pytest.mark.interop

TIMEOUT_SECONDS = 40.0
"""Seconds after which a test fails instead of waiting on."""

ROLES = [("router", "client"), ("peer", "peer"), ("peer", "client")]

Test = Callable[[aio.Session, Reference], Coroutine[Any, Any, None]]


@asynccontextmanager
async def joined(endpoint: str, mode: str) -> AsyncIterator[aio.Session]:
    """A session of ours with the one that listens."""
    async with aio.open(ours(mode=mode, connect__endpoints=[endpoint])) as session:
        await until(session.info.transports)
        yield session


def with_reference(test: Test) -> Callable[[str, str], None]:
    """A test with a node of theirs that listens and a session of ours that calls it, in each pair of roles."""

    async def run(endpoint: str, mode: str, other: Reference) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS), joined(endpoint, mode) as session:
            await test(session, other)

    @pytest.mark.parametrize(("theirs", "mode"), ROLES)
    def run_all(theirs: str, mode: str) -> None:
        endpoint = unused()
        with reference(mode=theirs, listen__endpoints=[endpoint]) as other:
            asyncio.run(run(endpoint, mode, other))

    run_all.__name__ = run_all.__qualname__ = test.__name__
    run_all.__doc__ = test.__doc__
    return run_all


async def execute_async(other: Reference, command: str) -> list[str]:
    return await asyncio.to_thread(other.execute, command)


@with_reference
async def test_async_subscriber_receives_from_eclipse_zenoh(session: aio.Session, other: Reference) -> None:
    async with session.declare_subscriber("demo/**") as subscriber:
        while subscriber.try_recv() is None:  # until it has received the declaration of the subscriber
            await execute_async(other, "put demo/a ready")
        for number in range(20):
            await execute_async(other, f"put demo/a {number}")
        found: list[str] = []
        async for sample in subscriber:
            found.append(sample.payload.to_string())
            if found[-1] == "19":
                break
    assert [text for text in found if text != "ready"] == [str(number) for number in range(20)]


@with_reference
async def test_eclipse_zenoh_receives_from_async_publisher(session: aio.Session, other: Reference) -> None:
    await execute_async(other, "sub demo/**")
    async with session.declare_publisher("demo/a") as publisher:
        await until(lambda: publisher.matching_status)
        for number in range(20):
            await publisher.put(str(number))
        received = [await asyncio.to_thread(other.line) for _ in range(20)]
    assert received == [f"received demo/a {number}" for number in range(20)]


@with_reference
async def test_async_get_and_querier_receive_eclipse_zenoh_replies(session: aio.Session, other: Reference) -> None:
    await execute_async(other, "queryable demo/q")
    async with session.declare_querier("demo/q") as querier:
        await until(lambda: querier.matching_status)
        for replies in (session.get("demo/q"), querier.get()):
            assert [reply.ok.payload.to_string() async for reply in replies if reply.ok] == ["answer"]


@with_reference
async def test_async_queryable_replies_to_eclipse_zenoh(session: aio.Session, other: Reference) -> None:
    async def on_query(query: aio.Query) -> None:
        await query.reply("demo/q/1", "one")
        await asyncio.sleep(0)
        await query.reply("demo/q/2", "two")
        if "fail" in query.parameters:
            raise KeyError("after the last reply")

    async with session.declare_queryable("demo/q/*", on_query):
        for selector in ("demo/q/*", "demo/q/*?fail"):
            found: list[str] = []
            while not found:  # until it has received the declaration of the queryable
                found = await execute_async(other, f"get {selector}")
            assert sorted(found) == ["reply one", "reply two"]


@with_reference
async def test_tokens_are_seen_on_both_sides(session: aio.Session, other: Reference) -> None:
    async with session.liveliness().declare_subscriber("alive/*", history=True) as subscriber:
        await execute_async(other, "token alive/theirs")
        sample = await subscriber.recv()
        assert (sample.kind, str(sample.key_expr)) == (SampleKind.PUT, "alive/theirs")
        found = [reply.ok async for reply in session.liveliness().get("alive/*")]
        assert [str(sample.key_expr) for sample in found if sample] == ["alive/theirs"]
        async with session.liveliness().declare_token("alive/ours"):
            while "alive alive/ours" not in await execute_async(other, "live alive/*"):
                assert not other.process.poll()
        while "alive alive/ours" in await execute_async(other, "live alive/*"):
            assert not other.process.poll()
        other.kill()
        async for sample in subscriber:
            if sample.kind is SampleKind.DELETE and str(sample.key_expr) == "alive/theirs":
                return


@with_reference
async def test_cancelling_the_task_of_a_get_ends_the_query(session: aio.Session, other: Reference) -> None:
    async with session.declare_queryable("demo/slow") as queryable:  # it never replies

        async def iterate() -> None:
            async for _ in session.get("demo/slow", timeout=1000):
                pass

        task = asyncio.create_task(iterate())
        (await queryable.recv()).drop()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not session._sync._runtime.queries._collectors
    assert await execute_async(other, "peers")
