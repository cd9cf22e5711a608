"""Fast and general paths of one behaviour do the same: same input, both paths, same output (docs/architecture.md).

Each test also counts the calls of both paths: where the fast one is no longer taken, the comparison would be of the
general path with itself. Most tests operate two networks (`twin_networks.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.property.publications import decode_rows
from tests.property.twin_networks import (
    CAPACITY,
    OPERATED,
    TIMESTAMP,
    Network,
    count_calls,
    describe,
    has_interceptors,
    metadata,
    open_network,
    payloads,
    run_numbers,
)
from tests.shuttle import feed, opened_pair, send, written
from tests.strategies import examples
from tests.unit.net.io.test_forwarding_backpressure import BACKLOGGED_BYTES, ROWS, FakeLink, forwarded_rows, held
from tests.unit.net.nodes import qos
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.arrow import SCHEMA
from zenspark.arrow.decode import concat_chunks
from zenspark.engine import publisher as publisher_module
from zenspark.engine.batch_publisher import BatchPublisher
from zenspark.engine.runtime import SessionRuntime
from zenspark.handlers import FifoChannel
from zenspark.handlers.arrow import ArrowBatches, chunk_from_samples
from zenspark.net.io.writer import LinkWriter
from zenspark.net.node.dispatch import Dispatcher
from zenspark.router.forwarding.plans import ForwardingPlanner, plans_by_neighbour
from zenspark.router.limits import is_key_expression
from zenspark.router.router import Router
from zenspark.router.timestamping import TimestampPolicy
from zenspark.transport import lane as lane_module
from zenspark.transport.handshake import Capabilities
from zenspark.transport.lane import Defragmenter
from zenspark.transport.outbox import GIL_ATOMIC
from zenspark.transport.receiver import MessageReceived
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl, Priority
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.columns import PushColumns, PushRun
from zenspark.wire.messages import NetworkMessage, Push, Put, Request
from zenspark.wire.templates import put_head

KEYS = ("a", "a/b", "a/b/c", "b", "a/*", "**")


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


options_of_all = {
    "congestion_control": st.just(CongestionControl.BLOCK),  # nothing is dropped, whatever the path
    "priority": st.sampled_from(list(Priority)),
    "express": st.booleans(),
}
encodings = st.sampled_from([Encoding.ZENOH_BYTES, Encoding.TEXT_PLAIN, Encoding("application/x-own;schema")])


@st.composite
def publications(draw: st.DrawFn, payloads: st.SearchStrategy[bytes] = payloads) -> Publication:
    options = draw(st.fixed_dictionaries(options_of_all, optional=metadata))
    if draw(st.integers(0, 3)) == 0:
        return Publication(draw(st.sampled_from(KEYS)), None, options)
    options |= draw(st.fixed_dictionaries({}, optional={"encoding": encodings}))
    return Publication(draw(st.sampled_from(KEYS)), draw(payloads), options)


def publish(session: Session, prefix: str, publication: Publication) -> None:
    key = f"{prefix}{publication.key}"
    if publication.payload is None:
        session.delete(key, **publication.options)
    else:
        session.put(key, publication.payload, **publication.options)


Publish = Callable[[Session, str, list[Publication]], None]
"""Publishes on keys with a prefix."""
Received = dict[Priority, list[tuple[object, ...]]]
"""Samples by priority, for order holds within one."""


def publish_each(session: Session, prefix: str, operations: list[Publication]) -> None:
    for operation in operations:
        publish(session, prefix, operation)


def receive_published(network: Network, operations: list[Publication], publish_all: Publish = publish_each) -> Received:
    """Publish and receive, as samples and as record batches."""
    prefix = f"run{next(run_numbers)}/"
    with (
        network.receiver.declare_subscriber(f"{prefix}**", FifoChannel(CAPACITY)) as subscriber,
        network.receiver.declare_subscriber(f"{prefix}**", ArrowBatches(CAPACITY, max_delay=0.0)) as batches,
    ):
        wait_until_matching(network.sender, f"{prefix}{KEYS[0]}")
        publish_all(network.sender, prefix, operations)
        samples = [subscriber.handler.recv(TIMEOUT_SECONDS) for _ in operations]
        assert subscriber.handler.try_recv() is None
        rows: list[dict[str, object]] = []
        while len(rows) < len(samples):
            rows += rows_of(batches.handler.recv(TIMEOUT_SECONDS))
    assert rows == rows_of(concat_chunks([chunk_from_samples(samples, 0)]))
    found: Received = {}
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


@OPERATED
@given(operations=st.lists(publications(st.binary(max_size=1000)), min_size=1, max_size=30))
def test_publications_appended_without_the_lock_arrive_alike(
    networks: tuple[Network, Network], operations: list[Publication]
) -> None:
    """While the sender's loop has a flush to do: all that is pre-encoded and not express is appended to its outbox."""
    fast, general = networks
    driver = next(iter(fast.sender._runtime.node.link_drivers))

    def publish_without_lock(session: Session, prefix: str, operations: list[Publication]) -> None:
        with held_loop(session), count_calls(PUBLISH) as calls:
            with driver._lock:
                driver._flush_soon()
            driver.publish(*UNRECEIVED)
            publish_each(session, prefix, operations)
        appended = sum(each.is_preencoded and not each.options["express"] for each in operations)
        assert calls["publish"] == 1 + len(operations) - (appended if GIL_ATOMIC else 0)

    by_outbox = receive_published(fast, operations, publish_without_lock)
    with count_calls(PUBLISH) as calls:
        by_messages = receive_published(general, operations)
    assert calls["publish"] == len(operations)
    assert by_outbox == by_messages


PUBLISH = (LinkWriter, "publish")
UNRECEIVED = (put_head(wire.WireExpr(0, "unused"), wire.QoS.DEFAULT, wire.Encoding.BYTES), b"", wire.QoS.DEFAULT, True)
"""Arguments of a publication without a receiver: it leaves the outbox open for those that follow."""


@contextmanager
def held_loop(session: Session) -> Iterator[None]:
    """Keep the loop of a session busy, so that it writes nothing."""
    is_held, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        may_go_on.wait(TIMEOUT_SECONDS)

    session._runtime.node.loop.call_soon(hold)
    assert is_held.wait(TIMEOUT_SECONDS)
    try:
        yield
    finally:
        may_go_on.set()


# -- record batches


BATCH_PATHS = ((LinkWriter, "publish_rows"), (BatchPublisher, "_send_individually"), (publisher_module, "encode_for"))


def publish_batch(session: Session, prefix: str, operations: list[Publication]) -> None:
    rows = [row_of(operation, prefix) for operation in operations]
    columns = [field for field in SCHEMA if field.name in rows[0]]
    assert session.put_batch(pa.RecordBatch.from_pylist(rows, schema=pa.schema(columns))) == 0


def row_of(operation: Publication, prefix: str) -> dict[str, object]:
    """Return the row of a record batch that is published like one call of put or delete."""
    options = operation.options
    timestamp, source = options.get("timestamp"), options.get("source_info")
    return {
        "key": f"{prefix}{operation.key}",
        "kind": "DELETE" if operation.payload is None else "PUT",
        "payload": operation.payload,
        "encoding": None if operation.payload is None else str(options.get("encoding", Encoding.ZENOH_BYTES)),
        "timestamp_ntp64": None if timestamp is None else as_signed(timestamp.to_wire().ntp64),
        "timestamp_id": None if timestamp is None else str(timestamp.get_id()),
        "attachment": options.get("attachment"),
        "source_zid": None if source is None else str(source.source_id.zid),
        "source_eid": None if source is None else source.source_id.eid,
        "source_sn": None if source is None else source.source_sn,
        "priority": options["priority"].name,
        "congestion": options["congestion_control"].name,
        "express": options["express"],
    }


def as_signed(ntp64: int) -> int:
    """Return an NTP64 as the sample schema has it."""
    return ntp64 - (1 << 64) if ntp64 >> 63 else ntp64


def is_row(operation: Publication) -> bool:
    """Whether a row can stand for a publication: the NTP64 0 means there that there is no timestamp."""
    timestamp = operation.options.get("timestamp")
    return timestamp is None or timestamp.to_wire().ntp64 != 0


@OPERATED
@given(operations=st.lists(publications().filter(is_row), min_size=1, max_size=30))
def test_rows_of_a_record_batch_arrive_like_calls_of_put(
    networks: tuple[Network, Network], operations: list[Publication]
) -> None:
    """As rows; with interceptors row by row as messages; and without a batch."""
    fast, general = networks
    with count_calls(*BATCH_PATHS) as calls:
        by_rows = receive_published(fast, operations, publish_batch)
    assert calls["publish_rows"] > 0
    assert calls["_send_individually"] == calls["encode_for"] == 0
    with count_calls(*BATCH_PATHS) as calls:
        by_messages = receive_published(general, operations, publish_batch)
    assert calls["publish_rows"] == 0
    assert calls["_send_individually"] > 0
    assert by_rows == by_messages == receive_published(general, operations)


# -- timestamps


TIMESTAMP_PATHS = ((TimestampPolicy, "timestamp_rows"), (TimestampPolicy, "timestamp"))


@pytest.fixture(scope="module")
def timestamping_networks() -> Iterator[tuple[Network, Network]]:
    """The same network twice, each with a router that adds timestamps: with fast paths, and with the general ones."""
    with ExitStack() as stack:
        yield (
            open_network(stack, is_general=False, namespace=None, adds_timestamps=True),
            open_network(stack, is_general=True, namespace=None, adds_timestamps=True),
        )


@OPERATED
@given(operations=st.lists(publications(), min_size=1, max_size=30))
def test_publications_are_timestamped_alike(
    timestamping_networks: tuple[Network, Network], operations: list[Publication]
) -> None:
    """Row by row, or each as a message; a run with a timestamp too far in the future as messages in both networks."""
    fast, general = timestamping_networks
    with count_calls(*TIMESTAMP_PATHS) as calls:
        by_rows = receive_published(fast, operations)
    assert calls["timestamp_rows"] > 0
    assert any(map(is_in_future, operations)) or calls["timestamp"] == 0
    with count_calls(*TIMESTAMP_PATHS) as calls:
        by_messages = receive_published(general, operations)
    assert calls["timestamp_rows"] == 0
    assert calls["timestamp"] == len(operations)
    assert without_own_timestamps(by_rows, fast.router) == without_own_timestamps(by_messages, general.router)


def is_in_future(operation: Publication) -> bool:
    timestamp = operation.options.get("timestamp")
    return timestamp is not None and timestamp.get_time_as_ntp64().as_secs() > time.time()


def without_own_timestamps(found: Received, router: Session) -> Received:
    """Check that the timestamps of a router are in the order of its samples, and replace them by its role."""
    replaced: Received = {}
    for priority, samples in found.items():
        own = [str(sample[TIMESTAMP]) for sample in samples if is_own(sample[TIMESTAMP], router)]
        assert own == sorted(set(own))
        replaced[priority] = [
            (*sample[:TIMESTAMP], "router", *sample[TIMESTAMP + 1 :]) if is_own(sample[TIMESTAMP], router) else sample
            for sample in samples
        ]
    return replaced


def is_own(timestamp: object, router: Session) -> bool:
    return timestamp is not None and str(timestamp).endswith(f"/{router.zid()}")


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
NAMESPACE_PATHS = ("strip_prefix", "strip_from_message")


@examples(200)
@example(keys=[*OUTSIDE, *INSIDE])
@given(keys=st.lists(received_keys, min_size=1, max_size=20))
def test_received_keys_lose_their_namespace_alike(networks: tuple[Network, Network], keys: list[str]) -> None:
    """Once for each template of a run, or once for each message; with keys that the router would not deliver, too."""
    runtime = networks[0].receiver._runtime
    paths = [(runtime.namespace, name) for name in NAMESPACE_PATHS]
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
        with runtime.lock, count_calls(*paths) as calls:
            runtime.receive_push_run(face, PushRun(columns, 0, len(columns)), template_keys)
        assert calls["strip_prefix"] == (len(template_keys) if networks[0].has_namespace else 0)
        assert calls["strip_from_message"] == 0
        by_rows = [received_samples(each.handler) for each in (subscriber, admin_subscriber)]
        with runtime.lock, count_calls(*paths) as calls:
            for push in pushes:
                runtime.receive(push, face, True)
        assert calls["strip_from_message"] == len(pushes)
        by_messages = [received_samples(each.handler) for each in (subscriber, admin_subscriber)]
    assert by_rows == by_messages
    if networks[0].has_namespace and keys == [*OUTSIDE, *INSIDE]:
        assert [(sample[2], sample[0]) for samples in by_rows for sample in samples] == [
            (key.encode(), inner) for key, inner in INSIDE.items()
        ]


def received_samples(handler: Any) -> list[tuple[object, ...]]:  # noqa: ANN401 - of a channel
    """Take what a channel holds."""
    return [describe(sample, "") for sample in iter(handler.try_recv, None)]


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


# -- backpressure of forwarded publications


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
