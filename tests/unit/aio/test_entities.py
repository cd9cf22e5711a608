"""Entities of tasks: each does what the synchronous one does, and ends when that ends."""

from __future__ import annotations

import asyncio
import gc
import math

import pyarrow as pa
import pytest

import zenspark.aio as aio
from tests.unit.aio.event_loop import client_of, in_loop, isolated_session, run_other_tasks, until
from zenspark.aio.channels import Channel
from zenspark.api.session import Session
from zenspark.errors import UsageError
from zenspark.handlers.arrow import ArrowBatches
from zenspark.handlers.channel import ChannelClosed, ReceiveTimeout
from zenspark.handlers.handler import FifoChannel, RingChannel
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl, Priority, Reliability, ReplyKeyExpr, SampleKind
from zenspark.types.sample import Sample


def text(sample: Sample | None) -> str:
    assert sample is not None
    return sample.payload.to_string()


# --- subscribers


@in_loop
async def test_subscriber_receives_by_iteration_and_recv(router: Session) -> None:
    async with client_of(router) as session, session.declare_subscriber("k/**") as subscriber:
        assert subscriber.key_expr == "k/**"
        assert isinstance(subscriber.handler, Channel)
        publisher = router.declare_publisher("k/a")
        await until(lambda: publisher.matching_status)
        for number in range(5):
            publisher.put(str(number))
        first = await subscriber.recv(timeout=10)
        assert isinstance(first, Sample)
        rest = []
        async for sample in subscriber:
            rest.append(text(sample))
            if len(rest) == 4:
                break
        assert [text(first), *rest] == ["0", "1", "2", "3", "4"]
        assert subscriber.try_recv() is None
        with pytest.raises(ReceiveTimeout):
            await subscriber.recv(timeout=0.01)


@pytest.mark.slow
@in_loop
async def test_burst_arrives_completely_through_a_small_channel(router: Session) -> None:
    count = 20_000
    async with client_of(router) as session, session.declare_subscriber("k", FifoChannel(10)) as subscriber:
        publisher = router.declare_publisher("k", congestion_control=CongestionControl.BLOCK)
        await until(lambda: publisher.matching_status)

        def publish() -> None:
            for number in range(count):
                publisher.put(str(number))

        publishing = asyncio.create_task(asyncio.to_thread(publish))
        async for sample in subscriber:
            last = int(text(sample))
            if last == count - 1:
                break
            if not last % 1000:
                await asyncio.sleep(0.001)  # a slow consumer
        await publishing


@pytest.mark.slow
@in_loop
async def test_cancelled_recv_loses_no_sample(router: Session) -> None:
    count = 3000
    async with client_of(router) as session, session.declare_subscriber("k", FifoChannel(100)) as subscriber:
        publisher = router.declare_publisher("k", congestion_control=CongestionControl.BLOCK)
        await until(lambda: publisher.matching_status)

        def publish() -> None:
            for number in range(count):
                publisher.put(str(number))

        publishing = asyncio.create_task(asyncio.to_thread(publish))
        found: list[int] = []
        while len(found) < count:
            task = asyncio.create_task(subscriber.recv())
            await asyncio.sleep(0)
            if not task.done() and len(found) % 2:
                task.cancel()
            try:
                found.append(int(text(await task)))
            except asyncio.CancelledError:
                found.append(int(text(await subscriber.recv())))
        await publishing
    assert found == list(range(count))


@in_loop
async def test_coroutine_callback_receives_samples(router: Session) -> None:
    found: list[str] = []

    async def on_sample(sample: Sample) -> None:
        await asyncio.sleep(0)
        found.append(text(sample))

    async with client_of(router) as session:
        subscriber = await session.declare_subscriber("k", on_sample)
        with pytest.raises(UsageError, match="callback gets everything"):
            subscriber.try_recv()  # type: ignore[misc]
        del subscriber  # it lives on in the background
        gc.collect()
        await until(lambda: router.declare_publisher("k").matching_status)
        for number in range(100):
            router.put("k", str(number))
        await until(lambda: len(found) == 100)
    assert found == [str(number) for number in range(100)]


@in_loop
async def test_record_batches_are_received_by_iteration(router: Session) -> None:
    batches = ArrowBatches(max_rows=10, max_delay=60)
    async with client_of(router) as session, session.declare_subscriber("k", batches) as subscriber:
        publisher = router.declare_publisher("k")
        await until(lambda: publisher.matching_status)
        for number in range(20):
            publisher.put(str(number))
        found: list[pa.RecordBatch] = []
        async for batch in subscriber:
            found.append(batch)
            if len(found) == 2:
                break
    table = pa.Table.from_batches(found)
    assert table["payload"].to_pylist() == [str(number).encode() for number in range(20)]


@in_loop
async def test_ring_channel_keeps_the_newest_samples() -> None:
    async with isolated_session() as session, session.declare_subscriber("k", RingChannel(2)) as subscriber:
        for number in range(5):
            await session.put("k", str(number))
        assert [text(subscriber.try_recv()), text(subscriber.try_recv())] == ["3", "4"]


@in_loop
async def test_undeclare_ends_iteration_and_recv() -> None:
    async with isolated_session() as session:
        subscriber = await session.declare_subscriber("k")
        waits = asyncio.create_task(subscriber.recv())

        async def iterate() -> list[Sample]:
            return [sample async for sample in subscriber]

        iterates = asyncio.create_task(iterate())
        await run_other_tasks()
        await subscriber.undeclare()
        with pytest.raises(ChannelClosed):
            await waits
        assert await iterates == []
        with pytest.raises(UsageError, match="was undeclared"):
            await subscriber.recv()
        with pytest.raises(UsageError, match="was undeclared"):
            await subscriber.undeclare()


@in_loop
async def test_end_of_async_with_undeclares() -> None:
    async with isolated_session() as session:
        async with session.declare_subscriber("k") as subscriber:
            publisher = await session.declare_publisher("k")
            assert publisher.matching_status
        assert not publisher.matching_status
        with pytest.raises(UsageError):
            subscriber.try_recv()


@in_loop
async def test_unreferenced_subscriber_ends_unless_it_is_iterated() -> None:
    async with isolated_session() as session:
        publisher = await session.declare_publisher("k")
        found: list[str] = []

        async def iterate() -> None:
            async for sample in await session.declare_subscriber("k"):
                found.append(text(sample))

        task = asyncio.create_task(iterate())
        await until(lambda: publisher.matching_status)
        gc.collect()
        await publisher.put("held")
        await until(lambda: found)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        del task
        gc.collect()
        await until(lambda: not publisher.matching_status)


# --- publishers


@in_loop
async def test_async_publisher_properties_are_its_arguments(router: Session) -> None:
    subscriber = router.declare_subscriber("k")
    async with client_of(router) as session:
        declared = session.declare_publisher(
            "k",
            encoding="text/plain",
            congestion_control=CongestionControl.BLOCK,
            priority=Priority.REAL_TIME,
            reliability=Reliability.RELIABLE,
        )
        async with declared as publisher:
            assert publisher.key_expr == "k"
            assert publisher.encoding == Encoding.TEXT_PLAIN
            assert publisher.congestion_control is CongestionControl.BLOCK
            assert publisher.priority is Priority.REAL_TIME
            assert publisher.reliability is Reliability.RELIABLE
            assert publisher.id.zid == session.zid()
            await until(lambda: publisher.matching_status)
            await publisher.put("value", attachment=b"more")
            await publisher.delete()
        put, deletion = subscriber.recv(5), subscriber.recv(5)
        assert (text(put), put.attachment, put.priority) == ("value", b"more", Priority.REAL_TIME)  # type: ignore[comparison-overlap]  # equal by design
        assert deletion.kind is SampleKind.DELETE
        with pytest.raises(UsageError):
            await publisher.put("too late")


@in_loop
async def test_async_matching_listener_receives_changes() -> None:
    async with isolated_session() as session:
        publisher = await session.declare_publisher("k")
        async with publisher.declare_matching_listener() as listener:
            subscriber = await session.declare_subscriber("k")
            assert (await listener.recv()).matching
            await subscriber.undeclare()
            assert not (await listener.recv()).matching
        statuses: list[bool] = []
        await publisher.declare_matching_listener(lambda status: statuses.append(status.matching))
        async with session.declare_subscriber("k"):
            await until(lambda: statuses == [True])


# --- queryables and queriers


@in_loop
async def test_async_queryable_replies_to_a_querier(router: Session) -> None:
    async with client_of(router) as session, session.declare_queryable("k/*", complete=True) as queryable:

        async def reply_to_queries() -> None:
            async for query in queryable:
                async with query:
                    await query.reply("k/a", f"{query.parameters}")

        task = asyncio.create_task(reply_to_queries())
        assert queryable.key_expr == "k/*"
        querier = router.declare_querier("k/a")
        await until(lambda: querier.matching_status)
        replies = await asyncio.to_thread(lambda: [text(reply.ok) for reply in querier.get(parameters="n=1")])
        assert replies == ["n=1"]
    await task


@in_loop
async def test_coroutine_callback_replies_and_the_query_ends(router: Session) -> None:
    async def on_query(query: aio.Query) -> None:
        await query.reply("k", "first")
        await asyncio.sleep(0)
        if "fail" in query.parameters:
            raise KeyError
        await query.reply("k/more", "second")

    async with client_of(router) as session, session.declare_queryable("k/**", on_query):
        querier = router.declare_querier("k/**")
        await until(lambda: querier.matching_status)
        replies_to = lambda parameters: [text(reply.ok) for reply in querier.get(parameters=parameters)]  # noqa: E731
        assert await asyncio.to_thread(replies_to, "") == ["first", "second"]
        assert await asyncio.to_thread(replies_to, "fail") == ["first"]


@in_loop
async def test_async_querier_sends_several_queries(router: Session) -> None:
    queryable = router.declare_queryable("k", lambda query: query.reply("k", query.parameters.get("n") or ""))
    async with client_of(router) as session:
        async with session.declare_querier("k", accept_replies=ReplyKeyExpr.MATCHING_QUERY) as querier:
            assert querier.accept_replies is ReplyKeyExpr.MATCHING_QUERY
            await until(lambda: querier.matching_status)
            for number in range(3):
                replies = [text(reply.ok) async for reply in querier.get(parameters=f"n={number}") if reply.ok]
                assert replies == [str(number)]
        with pytest.raises(UsageError):
            await querier.get()
    queryable.undeclare()


@in_loop
async def test_async_recv_with_a_timeout_that_is_no_number_raises() -> None:
    async with isolated_session() as session, session.declare_subscriber("k") as subscriber:
        with pytest.raises(ValueError, match="nan"):
            await subscriber.recv(math.nan)
        with pytest.raises(TypeError):
            await subscriber.recv("1")  # type: ignore[arg-type]
