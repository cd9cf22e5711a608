"""A program of a user of asyncio: type checkers must know the type of every result, and refuse what is wrong.

It is checked by mypy and basedpyright (`make check`), never run.
"""

from __future__ import annotations

from typing import assert_type

import pyarrow as pa

from zenspark import (
    ArrowBatches,
    Config,
    Hello,
    KeyExpr,
    LinkEvent,
    MatchingStatus,
    NeighbourEvent,
    Priority,
    Reply,
    Sample,
    ZenohId,
    aio,
)
from zenspark.aio import Channel
from zenspark.handlers import Callback, FifoChannel, RingChannel


def on_sample(sample: Sample) -> None:
    assert_type(sample.key_expr, KeyExpr)


async def on_sample_slowly(sample: Sample) -> None:
    assert_type(sample.payload.to_string(), str)


async def on_query(query: aio.Query) -> None:
    async with query:
        await query.reply(query.key_expr, "value", encoding="text/plain")
        await query.reply_err("no such key")


async def on_reply(reply: Reply) -> None:
    assert_type(reply.ok, Sample | None)


def on_hello(hello: Hello) -> None:
    assert_type(hello.zid, ZenohId)


async def open_and_publish() -> None:
    opening: aio.Pending[aio.Session] = aio.open()
    assert_type(await opening, aio.Session)
    async with aio.open(Config()) as session:
        assert_type(session, aio.Session)
        assert_type(session.zid(), ZenohId)
        assert_type(await session.put("demo/a", b"bytes", priority=Priority.DATA_HIGH), None)
        await session.delete("demo/a")
        assert_type(await session.put_batch(pa.record_batch({"key": ["demo/a"], "payload": [b"1"]})), int)
        async with session.declare_publisher("demo/a", encoding="text/plain") as publisher:
            assert_type(publisher, aio.Publisher)
            assert_type(publisher.matching_status, MatchingStatus)
            await publisher.put("1", attachment=b"with")
            await publisher.delete()
        await session.put("demo/a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        await session.put("demo/a", 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        await session.put_batch(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def subscribe(session: aio.Session) -> None:
    assert_type(await session.declare_subscriber("k"), aio.Subscriber[Channel[Sample]])
    assert_type(await session.declare_subscriber("k", FifoChannel(10)), aio.Subscriber[Channel[Sample]])
    assert_type(await session.declare_subscriber("k", RingChannel(10)), aio.Subscriber[Channel[Sample]])
    assert_type(await session.declare_subscriber("k", on_sample), aio.Subscriber[None])
    assert_type(await session.declare_subscriber("k", on_sample_slowly), aio.Subscriber[None])
    assert_type(await session.declare_subscriber("k", Callback(on_sample)), aio.Subscriber[None])
    assert_type(
        await session.declare_subscriber("k", Callback(lambda sample: print(sample.kind))), aio.Subscriber[None]
    )
    assert_type(await session.declare_subscriber("k", (Callback(on_sample_slowly), 3)), aio.Subscriber[int])
    assert_type(await session.declare_subscriber("k", (on_sample, "mine")), aio.Subscriber[str])
    assert_type(await session.declare_subscriber("k", ArrowBatches()), aio.Subscriber[Channel[pa.RecordBatch]])
    async with session.declare_subscriber("k") as subscriber:
        assert_type(subscriber, aio.Subscriber[Channel[Sample]])
        assert_type(subscriber.handler, Channel[Sample])
        assert_type(await subscriber.recv(), Sample)
        assert_type(await subscriber.recv(timeout=1.5), Sample)
        assert_type(subscriber.try_recv(), Sample | None)
        async for sample in subscriber:
            assert_type(sample, Sample)
    async with session.declare_subscriber("k", ArrowBatches()) as batches:
        batch = await batches.recv()
        assert_type(batch, pa.RecordBatch)
        assert_type(batch, pa.Table)  # type: ignore[assert-type]  # pyright: ignore[reportAssertTypeFailure]
        batch.no_such_method()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    silent = await session.declare_subscriber("k", on_sample)
    await silent.recv()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


async def reply_to_queries(session: aio.Session) -> None:
    assert_type(await session.declare_queryable("k"), aio.Queryable[Channel[aio.Query]])
    assert_type(await session.declare_queryable("k", on_query, complete=True), aio.Queryable[None])
    session.declare_queryable("k", ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    async with session.declare_queryable("k") as queryable:
        async for query in queryable:
            assert_type(query, aio.Query)


async def query(session: aio.Session) -> None:
    assert_type(session.get("k"), aio.Replies[Channel[Reply]])
    assert_type(session.get("k", on_reply, timeout=2), aio.Replies[None])
    session.get("k", ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    async for reply in session.get("k", timeout=2):
        assert_type(reply, Reply)
    async with session.get("k") as replies:
        assert_type(await replies.recv(), Reply)
        assert_type(replies.handler, Channel[Reply])
    async with session.declare_querier("k", timeout=1) as querier:
        assert_type(querier, aio.Querier)
        assert_type(querier.get(parameters="a=1"), aio.Replies[Channel[Reply]])
        listener = await querier.declare_matching_listener()
        assert_type(listener, aio.MatchingListener[Channel[MatchingStatus]])


async def watch(session: aio.Session) -> None:
    assert_type(await session.liveliness().declare_token("k"), aio.LivelinessToken)
    assert_type(await session.liveliness().declare_subscriber("k"), aio.Subscriber[Channel[Sample]])
    async for reply in session.liveliness().get("k"):
        assert_type(reply, Reply)
    neighbours = await session.info.declare_neighbour_events_listener()
    assert_type(neighbours, aio.NeighbourEventsListener[Channel[NeighbourEvent]])
    listener = await session.info.declare_link_events_listener(history=True)
    assert_type(listener, aio.LinkEventsListener[Channel[LinkEvent]])
    assert_type(await listener.recv(), LinkEvent)
    assert_type(await aio.scout(), aio.Scout[Channel[Hello]])
    assert_type(await aio.scout(on_hello), aio.Scout[None])
    aio.scout(ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    session.info.declare_link_events_listener(ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    async with aio.scout(what="peer") as scout:
        async for hello in scout:
            assert_type(hello, Hello)
