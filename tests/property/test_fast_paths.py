"""Fast and general paths of one behaviour do the same: same input, both paths, same output (docs/architecture.md).

Each test also counts the calls of both paths: where the fast one is no longer taken, the comparison would be of the
general path with itself. Most tests operate two networks (`twin_networks.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.property.twin_networks import (
    Calls,
    Network,
    count_calls,
    has_interceptors,
    node_options,
    open_network,
)
from tests.shuttle import feed, opened_pair, send, written
from tests.strategies import examples
from tests.unit.api.sessions import connected, listening
from tests.unit.net.io.test_forwarding_backpressure import BACKLOGGED_BYTES, ROWS, FakeLink, forwarded_rows, held
from tests.unit.net.nodes import qos
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.arrow.decode import concat_chunks
from zenspark.engine import publisher as publisher_module
from zenspark.engine.direct_queries import DirectQueries, DirectReplyHandle
from zenspark.engine.queries import SessionQueries
from zenspark.engine.runtime import SessionRuntime
from zenspark.handlers import FifoChannel
from zenspark.handlers.arrow import ArrowBatches, chunk_from_samples
from zenspark.handlers.channel import ChannelClosed
from zenspark.net.loop.event_loop import Timer
from zenspark.net.node.dispatch import Dispatcher
from zenspark.router.face import Face
from zenspark.router.forwarding.plans import ForwardingPlanner, plans_by_neighbour
from zenspark.router.limits import is_key_expression
from zenspark.router.router import Router
from zenspark.transport import lane as lane_module
from zenspark.transport.handshake import Capabilities
from zenspark.transport.lane import Defragmenter
from zenspark.transport.receiver import MessageReceived
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl, ConsolidationMode, Priority, QueryTarget
from zenspark.types.ids import EntityGlobalId, SourceInfo, ZenohId
from zenspark.types.query import Query
from zenspark.types.sample import Reply, Sample
from zenspark.types.timestamps import NTP64, Timestamp, TimestampId
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.codec import encode
from zenspark.wire.columns import BatchDecoder, Framing, PushColumns, PushRun, StopReason
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import Frame, NetworkMessage, Push, Put, Request

NAMESPACE = "fleet/robot1"
KEYS = ("a", "a/b", "a/b/c", "b", "a/*", "**")
LARGE_BYTES = 200_000
"""More than a batch: sent in fragments."""
CAPACITY = 1000
OPERATED = settings(examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
"""Examples of a test that operates networks."""

run_numbers = itertools.count()


@pytest.fixture(scope="module", params=[None, NAMESPACE], ids=["plain", "namespace"])
def networks(request: pytest.FixtureRequest) -> Iterator[tuple[Network, Network]]:
    """The same network twice: with fast paths, and with the general ones."""
    with ExitStack() as stack:
        yield (
            open_network(stack, is_general=False, namespace=request.param),
            open_network(stack, is_general=True, namespace=request.param),
        )


def test_the_networks_differ_in_their_interceptors_only(networks: tuple[Network, Network]) -> None:
    fast, general = networks
    for node in (general.router, general.sender, general.receiver):
        assert has_interceptors(node)
    for node in (fast.router, fast.sender, fast.receiver):
        assert not has_interceptors(node)


# -- publications: put, forwarding, reassembly, delivery


class Publication(msgspec.Struct, frozen=True):
    """One call of put or delete."""

    key: str
    payload: bytes | None
    """None: a DELETE."""
    options: dict[str, Any]

    @property
    def is_preencoded(self) -> bool:
        """Whether it has no field that the pre-encoded header lacks."""
        return self.payload is not None and not self.options.keys() & {"attachment", "timestamp", "source_info"}


payloads = st.one_of(st.binary(max_size=40), st.just(bytes(range(256)) * (LARGE_BYTES // 256)))
times = st.builds(NTP64, st.integers(0, 1 << 31), st.integers(0, 999_999_999))
timestamps = st.builds(Timestamp, times, st.just(TimestampId(b"\x01\x02")))
sources = st.builds(
    SourceInfo,
    st.builds(EntityGlobalId, st.sampled_from([ZenohId("a1"), ZenohId("b2c3")]), st.integers(0, (1 << 32) - 1)),
    st.integers(0, (1 << 32) - 1),
)
options_of_all = {
    "congestion_control": st.just(CongestionControl.BLOCK),  # nothing is dropped, whatever the path
    "priority": st.sampled_from(list(Priority)),
    "express": st.booleans(),
}
metadata = {"attachment": st.binary(max_size=20), "timestamp": timestamps, "source_info": sources}
encodings = st.sampled_from([Encoding.ZENOH_BYTES, Encoding.TEXT_PLAIN, Encoding("application/x-own;schema")])


@st.composite
def publications(draw: st.DrawFn) -> Publication:
    options = draw(st.fixed_dictionaries(options_of_all, optional=metadata))
    if draw(st.integers(0, 3)) == 0:
        return Publication(draw(st.sampled_from(KEYS)), None, options)
    options |= draw(st.fixed_dictionaries({}, optional={"encoding": encodings}))
    return Publication(draw(st.sampled_from(KEYS)), draw(payloads), options)


def describe(sample: Sample, prefix: str) -> tuple[object, ...]:
    """Return everything that users see of a sample, but for the prefix of its key."""
    attachment = sample.attachment
    return (
        str(sample.key_expr).removeprefix(prefix),
        sample.kind,
        sample.payload.to_bytes(),
        str(sample.encoding),
        sample.timestamp if sample.timestamp is None else str(sample.timestamp),
        sample.priority,
        sample.congestion_control,
        sample.express,
        sample.reliability,
        None if attachment is None else attachment.to_bytes(),
        sample.source_info,
        sample.timestamp_stack,
    )


def publish(session: Session, prefix: str, publication: Publication) -> None:
    key = f"{prefix}{publication.key}"
    if publication.payload is None:
        session.delete(key, **publication.options)
    else:
        session.put(key, publication.payload, **publication.options)


def receive_published(network: Network, operations: list[Publication]) -> dict[object, list[tuple[object, ...]]]:
    """Publish and receive, as samples and as record batches; samples by priority, for order holds within one."""
    prefix = f"run{next(run_numbers)}/"
    with (
        network.receiver.declare_subscriber(f"{prefix}**", FifoChannel(CAPACITY)) as subscriber,
        network.receiver.declare_subscriber(f"{prefix}**", ArrowBatches(CAPACITY, max_delay=0.0)) as batches,
    ):
        wait_until_matching(network.sender, f"{prefix}{KEYS[0]}")
        for operation in operations:
            publish(network.sender, prefix, operation)
        samples = [subscriber.handler.recv(TIMEOUT_SECONDS) for _ in operations]
        assert subscriber.handler.try_recv() is None
        rows: list[dict[str, object]] = []
        while len(rows) < len(samples):
            rows += rows_of(batches.handler.recv(TIMEOUT_SECONDS))
    assert rows == rows_of(concat_chunks([chunk_from_samples(samples, 0)]))
    found: dict[object, list[tuple[object, ...]]] = {}
    for sample in samples:
        found.setdefault(sample.priority, []).append(describe(sample, prefix))
    return found


def rows_of(batch: Any) -> list[dict[str, object]]:  # noqa: ANN401 - a record batch
    """Return the rows of a record batch without the time and the neighbour they were received at and from."""
    rows: list[dict[str, object]] = batch.drop_columns(["received_at", "via"]).to_pylist()
    return rows


def wait_until_matching(session: Session, key: str) -> None:
    with session.declare_publisher(key) as publisher:
        until(lambda: publisher.matching_status.matching)


PUBLICATION_PATHS = (
    (Dispatcher, "_forward"),
    (Dispatcher, "_route_individually"),
    (SessionRuntime, "receive_push_run"),
    (SessionRuntime, "_receive_push"),
    (publisher_module, "encode_for"),
)


@OPERATED
@given(operations=st.lists(publications(), min_size=1, max_size=30))
def test_publications_arrive_alike(networks: tuple[Network, Network], operations: list[Publication]) -> None:
    """put (pre-encoded or encoded), forwarding, reassembly, namespace, delivery to subscribers."""
    fast, general = networks
    with count_calls(*PUBLICATION_PATHS) as calls:
        by_rows = receive_published(fast, operations)
    assert calls["receive_push_run"] > 0
    assert calls["_forward"] > 0
    assert calls["_receive_push"] == calls["_route_individually"] == 0
    assert calls["encode_for"] == sum(not operation.is_preencoded for operation in operations)
    with count_calls(*PUBLICATION_PATHS) as calls:
        by_messages = receive_published(general, operations)
    assert calls["receive_push_run"] == calls["_forward"] == 0
    assert calls["_receive_push"] == calls["encode_for"] == len(operations)
    assert by_rows == by_messages


# -- the namespace of received keys


chunks = st.sampled_from(["fleet", "robot1", "robot2", "a", "*", "**", "robot$*", "$*1", "@", "@own"])
received_keys = st.lists(chunks, min_size=1, max_size=4).map("/".join).filter(is_key_expression)
OUTSIDE = ["fleet", "fleet/robot2/a", "fleet/robot1", "robot1/a"]
INSIDE = {
    "fleet/robot1/a": "a",
    "fleet/*/a": "a",
    "fleet/$*1/a/*": "a/*",
    "fleet/**": "**",
    "**": "**",
    "@/fleet": "@/fleet",
}
"""Received keys, and what they are in the namespace; the admin space has none."""


@examples(200)
@example(keys=[*OUTSIDE, *INSIDE])
@given(keys=st.lists(received_keys, min_size=1, max_size=20))
def test_received_keys_lose_their_namespace_alike(networks: tuple[Network, Network], keys: list[str]) -> None:
    """Once for each template of a run, or once for each message; with keys that the router would not deliver, too."""
    runtime = networks[0].receiver._runtime
    face = next(iter(runtime.node.drivers))
    pushes = [Push(wire_expr=wire.WireExpr(0, key), body=Put(payload=key.encode())) for key in keys]
    columns = decode_rows(pushes)
    template_keys: list[str | None] = [
        columns.template_at(index).wire_expr.suffix for index in range(columns.template_count)
    ]
    with (
        networks[0].receiver.declare_subscriber("**", FifoChannel(CAPACITY)) as subscriber,
        networks[0].receiver.declare_subscriber("@/**", FifoChannel(CAPACITY)) as admin_subscriber,
    ):
        with runtime.lock:
            runtime.receive_push_run(face, PushRun(columns, 0, len(columns)), template_keys)
        by_rows = [received_samples(each.handler) for each in (subscriber, admin_subscriber)]
        with runtime.lock:
            for push in pushes:
                runtime.receive(push, face, True)
        by_messages = [received_samples(each.handler) for each in (subscriber, admin_subscriber)]
    assert by_rows == by_messages
    if networks[0].has_namespace and keys == [*OUTSIDE, *INSIDE]:
        assert [(sample[2], sample[0]) for samples in by_rows for sample in samples] == [
            (key.encode(), inner) for key, inner in INSIDE.items()
        ]


def decode_rows(pushes: list[Push]) -> PushColumns:
    """Return publications as they are decoded from one frame."""
    columns = PushColumns(64)
    frame = encode(Frame(reliable=True, sn=0, msgs=tuple(pushes)))
    assert BatchDecoder(frame, Framing.BATCH).decode(columns) is StopReason.END
    assert len(columns) == len(pushes)
    return columns


def received_samples(handler: Any) -> list[tuple[object, ...]]:  # noqa: ANN401 - of a channel
    """Take what a channel holds."""
    return [describe(sample, "") for sample in iter(handler.try_recv, None)]


# -- queries


class ReplyCall(msgspec.Struct, frozen=True):
    """One call of reply, reply_err or reply_del."""

    kind: str
    payload: bytes
    options: dict[str, Any]


reply_calls = st.builds(
    ReplyCall,
    st.sampled_from(["reply", "reply", "reply_err", "reply_del"]),
    payloads,
    st.fixed_dictionaries({}, optional=metadata),
)


def send_reply(query: Query, key: str, call: ReplyCall) -> None:
    match call.kind:
        case "reply":
            query.reply(key, call.payload, encoding=Encoding.TEXT_PLAIN, **call.options)
        case "reply_err":
            options = {name: value for name, value in call.options.items() if name != "attachment"}
            query.reply_err(call.payload, encoding=Encoding.APPLICATION_JSON, **options)
        case "reply_del":
            query.reply_del(key, **call.options)


def describe_reply(reply: Reply, prefix: str) -> tuple[object, ...]:
    if reply.ok is not None:
        return describe(reply.ok, prefix)
    assert reply.err is not None
    error = reply.err
    return error.payload.to_bytes(), str(error.encoding), error.source_info, str(error.timestamp)


def query_network(
    network: Network, complete: bool, replies: list[ReplyCall], options: dict[str, Any]
) -> tuple[list[object], list[tuple[object, ...]]]:
    """Send one query; returns what its queryable received, and the replies."""
    key = f"run{next(run_numbers)}/a"
    prefix = key.removesuffix("a")
    received: list[object] = []

    def on_query(query: Query) -> None:
        payload, attachment = query.payload, query.attachment
        received.append(str(query.selector).removeprefix(prefix))
        received.append(None if payload is None else payload.to_bytes())
        received.append(None if attachment is None else attachment.to_bytes())
        received.append(query.source_info)
        for call in replies:
            send_reply(query, key, call)

    with (
        network.receiver.declare_queryable(key, on_query, complete=complete) as queryable,
        network.sender.declare_querier(key) as querier,
    ):
        until(lambda: querier.matching_status.matching)
        found = take_all(network.sender.get(f"{key}?x=1;y", **options))
        assert all(reply.replier_id == queryable.id for reply in found)
    return received, [describe_reply(reply, prefix) for reply in found]


def take_all(handler: Any) -> list[Reply]:  # noqa: ANN401 - of a channel
    """Take the replies to a query until it is finished."""
    replies = []
    while True:
        try:
            replies.append(handler.recv(TIMEOUT_SECONDS))
        except ChannelClosed:
            return replies


queries = st.fixed_dictionaries(
    {"consolidation": st.just(ConsolidationMode.NONE), "timeout": st.just(TIMEOUT_SECONDS)},
    optional={
        "payload": st.binary(max_size=50),
        "attachment": st.binary(max_size=20),
        "source_info": sources,
        "target": st.sampled_from(list(QueryTarget)),
        "priority": st.sampled_from(list(Priority)),
        "express": st.booleans(),
    },
)

QUERY_PATHS = ((DirectQueries, "send"), (DirectReplyHandle, "__init__"), (SessionQueries, "_send"))


@OPERATED
@given(complete=st.booleans(), replies=st.lists(reply_calls, max_size=5), options=queries)
def test_queries_are_replied_to_alike(
    networks: tuple[Network, Network], complete: bool, replies: list[ReplyCall], options: dict[str, Any]
) -> None:
    """Past the tables of the router of each end, or through them; with a namespace always through them. A query without
    a target has none with interceptors: it takes the direct path in both networks.
    """
    fast, general = networks
    has_target = complete or options.get("target") is not QueryTarget.ALL_COMPLETE
    with count_calls(*QUERY_PATHS) as calls:
        direct = query_network(fast, complete, replies, options)
    assert bool(direct[0]) == has_target
    assert call_counts(calls) == ((0, 0, 1) if fast.has_namespace else (1, has_target, 0))
    with count_calls(*QUERY_PATHS) as calls:
        routed = query_network(general, complete, replies, options)
    assert call_counts(calls) == ((0, 0, 1) if has_target or general.has_namespace else (1, 0, 0))
    assert direct == routed


def call_counts(calls: Calls) -> tuple[int, ...]:
    """Return how often a query was sent directly, was accepted directly, and was sent to the router."""
    return tuple(calls[name] for _, name in QUERY_PATHS)


# -- the time-out of a query


class TimedOut(msgspec.Struct):
    """What a querier and its node received of a query without a final reply."""

    replies: list[tuple[object, ...]]
    messages: list[NetworkMessage]
    """RESPONSEs and RESPONSE_FINAL, with their key as text and without the request id."""


def time_out(is_general: bool, count: int) -> TimedOut:
    """Query a queryable that sends `count` replies and no final one; its node ends the query, not that of the querier.

    The querier's node has no timers, so what it receives was sent by the node of the queryable.
    """
    options = node_options(is_general)
    received: list[NetworkMessage] = []
    held_queries: list[Query] = []
    dispatch = Dispatcher.receive

    def on_query(query: Query) -> None:
        for _ in range(count):
            query.reply("q", b"one")
        held_queries.append(query)  # no final reply while it lives

    def record(self: Dispatcher, source: Face, event: MessageReceived) -> None:
        message = event.message
        if self is client._runtime.node.dispatcher and isinstance(message, messages.Response | messages.ResponseFinal):
            received.append(normalised(message, source))
        dispatch(self, source, event)

    def normalised(message: messages.Response | messages.ResponseFinal, source: Face) -> NetworkMessage:
        if isinstance(message, messages.ResponseFinal):
            return replace(message, request_id=0)
        assert message.responder is not None
        assert message.responder.zid == router.zid().to_wire()
        key = wire.WireExpr(0, source.resolve(message.wire_expr) or "")
        responder = replace_zid(message.responder)
        return replace(message, request_id=0, wire_expr=key, responder=responder)

    with (
        listening("router", timestamping__enabled=False, **options) as router,
        connected("client", router, **options) as client,
        router.declare_queryable("q", on_query),
        client.declare_querier("q") as querier,
        pytest.MonkeyPatch.context() as patch,
    ):
        until(lambda: querier.matching_status.matching)
        loop = client._runtime.node.loop
        patch.setattr(loop, "call_at", lambda when, _: Timer(loop, when, lambda: None))
        patch.setattr(Dispatcher, "receive", record)
        found = take_all(client.get("q", timeout=0.3, consolidation=ConsolidationMode.NONE))
        assert all(reply.replier_id is not None and reply.replier_id.zid == router.zid() for reply in found)
        replies = [(*describe_reply(reply, ""), reply.replier_id.eid) for reply in found if reply.replier_id]
        for query in held_queries:
            query.drop()
    return TimedOut(replies, received)


def replace_zid(responder: wire.EntityId) -> wire.EntityId:
    """Return an entity id with a zid that is the same in every network."""
    return wire.EntityId(wire.ZenohId(1), responder.eid)


@pytest.mark.parametrize("count", [0, 2])
def test_queries_without_a_final_reply_time_out_alike(count: int) -> None:
    """By the timer of the direct query, or by that of the router of the queryable's node."""
    with count_calls((DirectReplyHandle, "_expire")) as calls:
        direct = time_out(False, count)
    assert calls["_expire"] == 1
    with count_calls((DirectReplyHandle, "_expire")) as calls:
        routed = time_out(True, count)
    assert calls["_expire"] == 0
    assert direct == routed
    assert [reply[0] for reply in direct.replies[:count]] == ["q"] * count
    assert [reply[0] for reply in direct.replies[count:]] == [b"Timeout"]
    *responses, final = direct.messages
    assert isinstance(final, messages.ResponseFinal)
    assert [type(response) for response in responses] == [messages.Response] * (count + 1)


# -- fragments


@st.composite
def fragmented_messages(draw: st.DrawFn) -> list[NetworkMessage]:
    """PUSHes, which become rows, and REQUESTs, which do not; at least one is larger than a batch."""
    priority = draw(st.sampled_from(list(wire.Priority)))
    sizes = [*draw(st.lists(st.integers(0, 5000), max_size=7)), draw(st.integers(600, 5000))]
    found: list[NetworkMessage] = []
    for number, size in enumerate(draw(st.permutations(sizes))):
        payload, expr, treatment = bytes([number]) * size, wire.WireExpr(suffix="a"), wire.QoS(priority=priority)
        if draw(st.booleans()):
            found.append(Push(wire_expr=expr, qos=treatment, body=Put(payload=payload)))
        else:
            body = messages.Query(body=wire.QueryBody(wire.Encoding.BYTES, payload))
            found.append(Request(request_id=number, wire_expr=expr, qos=treatment, body=body))
    return found


FRAGMENT_PATHS = ((lane_module, "join_fragments"), (Defragmenter, "receive"))


@examples(100)
@given(sent=fragmented_messages(), cut=st.integers(1, 3000))
def test_fragments_are_reassembled_alike_in_the_buffer_and_by_the_lane(sent: list[NetworkMessage], cut: int) -> None:
    """In the buffer they are joined where they lie, also where a message arrives in several reads. The batches of a
    compressed session are decompressed one by one: there the lane collects the fragments as objects.
    """
    expected = [MessageReceived(message, True) for message in sent]
    for is_compressed, pieces in ((False, 0), (False, cut), (True, 0), (True, cut)):
        capabilities = Capabilities(batch_size=512, compression=is_compressed)
        sender, receiver = opened_pair(capabilities, capabilities)
        for message in sent:
            send(sender, message, priority=priority_of(message))
        with count_calls(*FRAGMENT_PATHS) as calls:
            assert feed(receiver, written(sender), pieces) == expected
        assert (calls["join_fragments"] > 0, calls["receive"] > 0) == (not is_compressed, is_compressed)


def priority_of(message: NetworkMessage) -> wire.Priority:
    assert isinstance(message, Push | Request)
    return message.qos.priority


# -- back-pressure of forwarded publications


class Backlogged:
    """A router between a source that publishes and a target that is behind."""

    def __init__(self, subscribed: set[str]) -> None:
        _, self.backpressure = held()
        self.source, self.target = FakeLink(), FakeLink(BACKLOGGED_BYTES)
        self.router = Router(wire.ZenohId(1), wire.WhatAmI.ROUTER)
        local = self.router.add_local()
        self.source_face, _ = self.router.add_face(wire.ZenohId(2), wire.WhatAmI.CLIENT, 0.0)
        self.target_face, _ = self.router.add_face(wire.ZenohId(3), wire.WhatAmI.CLIENT, 0.0)
        for number, key in enumerate(sorted(subscribed)):
            declared = messages.DeclareSubscriber(id=number, wire_expr=wire.WireExpr(0, key))
            self.router.receive(self.target_face, messages.Declare(body=declared), 0.0)
        self._planner = ForwardingPlanner(self.router, local)

    def forward_rows(self, columns: PushColumns) -> list[int]:
        """Return the rows that are forwarded by the plan of the router."""
        plans = self._planner.plans(self.source_face, columns, 0, len(columns))
        assert plans is not None
        plan = dict(plans_by_neighbour(plans)).get(self.target_face)
        if plan is None:
            return []
        return forwarded_rows(self.backpressure, self.source, self.target, plan, PushRun(columns, 0, len(columns)))

    def forward_messages(self, columns: PushColumns) -> list[int]:
        """Return the rows that are forwarded if each is routed as a message."""
        return [
            row
            for row in range(len(columns))
            for face, message in self.router.receive(self.source_face, columns.push(row), 1.0)
            if face is self.target_face and self.backpressure.pause_source_or_drop(self.source, self.target, message)
        ]


@examples(200)
@given(
    runs=st.lists(st.one_of(st.just(""), st.text("".join(ROWS), min_size=1, max_size=12)), max_size=12),
    subscribed=st.sets(st.sampled_from(list(ROWS)), min_size=1),
)
def test_backlogged_targets_get_the_same_rows_and_messages(runs: list[str], subscribed: set[str]) -> None:
    """Runs of publications to a target that is behind; an empty run: the target has drained."""
    by_rows, by_messages = Backlogged(subscribed), Backlogged(subscribed)
    for keys in runs:
        if not keys:
            for each in (by_rows, by_messages):
                each.backpressure.resume_sources(each.target)
            continue
        columns = decode_rows(
            [Push(wire_expr=wire.WireExpr(0, key), qos=qos(ROWS[key]), body=Put(payload=b"")) for key in keys]
        )
        assert by_rows.forward_rows(columns) == by_messages.forward_messages(columns)
        assert by_rows.target.dropped == by_messages.target.dropped
        assert bool(by_rows.source.paused) == bool(by_messages.source.paused)
