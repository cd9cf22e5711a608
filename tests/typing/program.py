"""A program of a user: type checkers must know the type of every result, and refuse what is wrong.

It is checked by mypy and basedpyright (`make check`), never run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from queue import Queue
from typing import assert_type

import pyarrow as pa

import zenspark
from zenspark import (
    ArrowBatches,
    BatchOrTable,
    CancellationToken,
    Config,
    ConnectionStatus,
    Declaration,
    Encoding,
    EntityGlobalId,
    Handler,
    Hello,
    IntoCallback,
    IntoCallbackAndHandler,
    IntoChannel,
    IntoKeyExpr,
    IntoParameters,
    IntoZBytes,
    KeyExpr,
    Link,
    LinkEvent,
    LinkEventsListener,
    LivelinessToken,
    MatchingListener,
    MatchingStatus,
    NeighbourEvent,
    NeighbourEventsListener,
    Parameters,
    Publisher,
    Querier,
    Query,
    Queryable,
    Reply,
    ReplyError,
    Sample,
    SampleKind,
    Scout,
    Selector,
    Session,
    SessionInfo,
    Subscriber,
    Timestamp,
    TimestampCallback,
    TransportEvent,
    TransportEventsListener,
    ZBytes,
    ZenohId,
    errors,
    ext,
)
from zenspark import zenoh as native
from zenspark.ext import (
    AdvancedPublisher,
    AdvancedSubscriber,
    CacheConfig,
    HistoryConfig,
    Miss,
    MissDetectionConfig,
    RecoveryConfig,
    SampleMissListener,
)
from zenspark.handlers import Callback, ChannelClosed, DefaultHandler, FifoChannel, RingChannel


def on_sample(sample: Sample) -> None:
    assert_type(sample.key_expr, KeyExpr)
    assert_type(sample.payload, ZBytes)
    assert_type(sample.payload.to_string(), str)
    assert_type(sample.kind, SampleKind)
    assert_type(sample.encoding, Encoding)
    assert_type(sample.timestamp, Timestamp | None)


def on_query(query: Query) -> None:
    with query:
        assert_type(query.parameters, Parameters)
        assert_type(query.selector, Selector)
        query.reply(query.key_expr, "value", encoding="text/plain")
        query.reply_del("demo/gone")
        query.reply_err("no such key")


def on_reply(reply: Reply) -> None:
    assert_type(reply.ok, Sample | None)
    assert_type(reply.err, ReplyError | None)


def on_hello(hello: Hello) -> None:
    assert_type(hello.zid, ZenohId)


def on_status(status: MatchingStatus) -> None:
    assert_type(status.matching, bool)


def on_miss(miss: Miss) -> None:
    assert_type(miss.source, EntityGlobalId)
    assert_type(miss.nb, int)


def open_and_publish() -> None:
    config = Config.from_json5('{mode: "client"}')
    assert_type(zenspark.open(), Session)
    with zenspark.open(config) as session:
        assert_type(session, Session)
        assert_type(session.zid(), ZenohId)
        assert_type(session.id, EntityGlobalId)
        assert_type(session.info, SessionInfo)
        assert_type(session.new_timestamp(), Timestamp)
        assert_type(session.declare_keyexpr("demo/**"), KeyExpr)
        assert_type(session.is_closed(), bool)
        session.put("demo/a", b"bytes", priority=zenspark.Priority.DATA_HIGH, express=True)
        session.put(KeyExpr("demo/a"), "text", encoding=Encoding.TEXT_PLAIN, timestamp=session.new_timestamp())
        session.delete("demo/a", congestion_control=zenspark.CongestionControl.BLOCK)
        assert_type(session.put_batch(pa.record_batch({"key": ["demo/a"], "payload": [b"1"]})), int)
        with session.declare_publisher("demo/a", encoding="text/plain") as publisher:
            assert_type(publisher, Publisher)
            assert_type(publisher.key_expr, KeyExpr)
            assert_type(publisher.matching_status, MatchingStatus)
            publisher.put("1", attachment=b"with")
            publisher.delete()
        session.put("demo/a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        session.put("demo/a", 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        session.put("demo/a", b"", priority=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        session.put_batch(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def subscribe(session: Session) -> None:
    channel: FifoChannel[Sample] = FifoChannel(10)
    assert_type(session.declare_subscriber("k"), Subscriber[Handler[Sample]])
    assert_type(session.declare_subscriber("k", channel), Subscriber[Handler[Sample]])
    assert_type(session.declare_subscriber("k", FifoChannel(10)), Subscriber[Handler[Sample]])
    assert_type(session.declare_subscriber("k", RingChannel(10)), Subscriber[Handler[Sample]])
    assert_type(session.declare_subscriber("k", DefaultHandler()), Subscriber[Handler[Sample]])
    assert_type(session.declare_subscriber("k", on_sample), Subscriber[None])
    assert_type(session.declare_subscriber("k", Callback(on_sample)), Subscriber[None])
    assert_type(session.declare_subscriber("k", lambda sample: None), Subscriber[None])
    assert_type(session.declare_subscriber("k", Callback(lambda sample: print(sample.payload))), Subscriber[None])
    assert_type(session.declare_subscriber("k", (Callback(lambda sample: print(sample.kind)), 3)), Subscriber[int])
    assert_type(session.declare_subscriber("k", (lambda sample: print(sample.kind), "mine")), Subscriber[str])
    assert_type(session.declare_subscriber("k", ArrowBatches()), Subscriber[Handler[pa.RecordBatch]])
    queue: Queue[Sample] = Queue()
    assert_type(session.declare_subscriber("k", (queue.put, queue)), Subscriber[Queue[Sample]])

    with session.declare_subscriber("k", allowed_origin=zenspark.Locality.REMOTE) as subscriber:
        assert_type(subscriber, Subscriber[Handler[Sample]])
        assert_type(subscriber.handler, Handler[Sample])
        assert_type(subscriber.handler.recv(), Sample)
        assert_type(subscriber.recv(), Sample)
        assert_type(subscriber.recv(timeout=1.5), Sample)
        assert_type(subscriber.try_recv(), Sample | None)
        try:
            subscriber.recv(timeout=1)
        except zenspark.ReceiveTimeout as error:
            assert_type(error.timeout, float)
        except (zenspark.errors.SessionClosed, ChannelClosed):
            subscriber.undeclare()
        assert_type(iter(subscriber), Iterator[Sample])
        for sample in subscriber:
            assert_type(sample, Sample)
    with session.declare_subscriber("k", ArrowBatches(max_rows=100, max_delay=0.5)) as batches:
        assert_type(batches.recv(), pa.RecordBatch)
        assert_type(batches.recv().num_rows, int)
        assert_type(batches.recv(), pa.Table)  # type: ignore[assert-type]  # pyright: ignore[reportAssertTypeFailure]
        batches.recv().no_such_method()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    silent = session.declare_subscriber("k", on_sample)
    silent.recv()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    session.declare_subscriber("k", on_reply)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    session.declare_subscriber("k", Callback(on_reply))  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    session.declare_subscriber("k", (Callback(on_reply), 3))  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    session.declare_subscriber("k", Callback(lambda sample: sample.no_such))  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    session.declare_subscriber("k", 3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


def reply_to_queries(session: Session) -> None:
    assert_type(session.declare_queryable("k"), Queryable[Handler[Query]])
    assert_type(session.declare_queryable("k", RingChannel(1)), Queryable[Handler[Query]])
    assert_type(session.declare_queryable("k", on_query, complete=True), Queryable[None])
    assert_type(session.declare_queryable("k", (on_query, "mine")), Queryable[str])
    assert_type(session.declare_queryable("k", Callback(lambda query: query.drop(), print)), Queryable[None])
    session.declare_queryable("k", Callback(on_reply))  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    session.declare_queryable("k", ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    with session.declare_queryable("k") as queryable:
        assert_type(queryable.recv(), Query)
        for query in queryable:
            assert_type(query, Query)


def query(session: Session) -> None:
    token = CancellationToken()
    assert_type(session.get("k"), Handler[Reply])
    assert_type(session.get("k", FifoChannel(3), timeout=2, cancellation_token=token), Handler[Reply])
    assert_type(session.get(Selector("k?a=1"), target=zenspark.QueryTarget.ALL, budget=3), Handler[Reply])
    for reply in session.get("k", payload="value", encoding="text/plain"):
        assert_type(reply, Reply)
    replies: list[Reply] = []
    assert_type(session.get("k", (replies.append, replies)), list[Reply])
    session.get("k", on_reply, express=True)
    session.get("k", Callback(lambda reply: print(reply.ok)))
    session.get("k", ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    session.get("k", timeout="soon")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    with session.declare_querier("k", timeout=1) as querier:
        assert_type(querier, Querier)
        assert_type(querier.get(), Handler[Reply])
        assert_type(querier.get(RingChannel(1), parameters={"a": "1"}), Handler[Reply])
        assert_type(querier.get((on_reply, 5)), int)
        assert_type(querier.declare_matching_listener(), MatchingListener[Handler[MatchingStatus]])
        assert_type(querier.declare_matching_listener(on_status), MatchingListener[None])
        querier.get(ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
        querier.declare_matching_listener(ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


def watch_tokens(session: Session) -> None:
    liveliness = session.liveliness()
    assert_type(liveliness.declare_token("k"), LivelinessToken)
    assert_type(liveliness.declare_subscriber("k", history=True), Subscriber[Handler[Sample]])
    assert_type(liveliness.declare_subscriber("k", on_sample), Subscriber[None])
    assert_type(liveliness.declare_subscriber("k", ArrowBatches()), Subscriber[Handler[pa.RecordBatch]])
    assert_type(liveliness.get("k", timeout=1), Handler[Reply])
    liveliness.get("k", on_reply)
    liveliness.get("k", ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


def watch_the_network(session: Session) -> None:
    info = session.info
    assert_type(info.links(), list[Link])
    assert_type(info.declarations(), list[Declaration])
    assert_type(info.connections(), list[ConnectionStatus])
    assert_type(info.declare_neighbour_events_listener(), NeighbourEventsListener[Handler[NeighbourEvent]])
    assert_type(info.declare_transport_events_listener(), TransportEventsListener[Handler[TransportEvent]])
    assert_type(info.declare_link_events_listener(history=True), LinkEventsListener[Handler[LinkEvent]])
    assert_type(info.declare_link_events_listener(lambda event: None), LinkEventsListener[None])
    assert_type(info.declare_link_events_listener().recv(), LinkEvent)
    info.declare_neighbour_events_listener(ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    info.declare_transport_events_listener(ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    info.declare_link_events_listener(ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert_type(info.declare_link_events_listener().handler.is_stalled, bool)
    zenspark.scout(ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert_type(zenspark.scout(), Scout[Handler[Hello]])
    assert_type(zenspark.scout(on_hello, "router|peer", Config()), Scout[None])
    with zenspark.scout(what="peer") as scout:
        assert_type(scout.recv(timeout=1), Hello)
        for hello in scout:
            assert_type(hello, Hello)


def publish_from_anything(session: Session, key: IntoKeyExpr, values: Sequence[IntoZBytes]) -> None:
    """A program that passes on what it is given."""
    callback: IntoCallback[Sample] = on_sample
    channel: IntoChannel[Sample] = FifoChannel(3)
    pair: IntoCallbackAndHandler[Sample, str] = (on_sample, "mine")
    parameters: IntoParameters = {"a": "1"}
    batch: BatchOrTable = pa.table({"key": ["demo/a"], "payload": [b"1"]})
    clock: TimestampCallback = lambda context: b""  # noqa: E731 - as a program may write it
    zenspark.open(timestamp_callback=clock)
    session.put_batch(batch)
    for value in values:
        session.put(key, value)
    assert_type(session.declare_subscriber(key, callback), Subscriber[None])
    assert_type(session.declare_subscriber(key, channel), Subscriber[Handler[Sample]])
    assert_type(session.declare_subscriber(key, pair), Subscriber[str])
    assert_type(session.declare_querier(key).get(parameters=parameters), Handler[Reply])
    other: IntoZBytes = 3  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    session.put(key, other)


def use_the_names_of_the_native_module() -> None:
    assert_type(native.KeyExpr("demo/a"), KeyExpr)
    assert_type(native.open(), Session)
    assert_type(native.handlers.RingChannel[Sample](1), RingChannel[Sample])
    native.no_such_name()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def handle_errors(session: Session) -> None:
    try:
        session.put_batch(pa.record_batch({"key": ["demo//a"], "payload": [b"1"]}))
    except errors.RowError as error:
        assert_type(error.row, int)
    except errors.ListenError as error:
        assert_type(error.endpoint, str)


def publish_reliably(session: Session) -> None:
    publisher = ext.declare_advanced_publisher(
        session, "k", cache=CacheConfig(10), sample_miss_detection=MissDetectionConfig(heartbeat=0.5)
    )
    assert_type(publisher, AdvancedPublisher)
    publisher.put("1")
    subscriber = ext.declare_advanced_subscriber(
        session, "k", history=HistoryConfig(max_samples=3), recovery=RecoveryConfig(heartbeat=True)
    )
    assert_type(subscriber, AdvancedSubscriber[Handler[Sample]])
    assert_type(subscriber.recv(), Sample)
    assert_type(ext.declare_advanced_subscriber(session, "k", on_sample), AdvancedSubscriber[None])
    assert_type(
        ext.declare_advanced_subscriber(session, "k", ArrowBatches()), AdvancedSubscriber[Handler[pa.RecordBatch]]
    )
    assert_type(subscriber.sample_miss_listener(), SampleMissListener[Handler[Miss]])
    assert_type(subscriber.sample_miss_listener(on_miss), SampleMissListener[None])
    subscriber.sample_miss_listener(ArrowBatches())  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert_type(subscriber.detect_publishers(ArrowBatches()), Subscriber[Handler[pa.RecordBatch]])
    assert_type(subscriber.detect_publishers(history=True), Subscriber[Handler[Sample]])
