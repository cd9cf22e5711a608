"""Fast and general paths of one behaviour do the same: same input, both paths, same output (docs/architecture.md).

Two networks of a router and two clients get the same operations. In one of them every node has an access control that
permits everything: with interceptors each message takes the general path, through the router and one object at a time.
In the other one publications travel as rows of columns, and queries with one target pass the router's tables by.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.shuttle import feed, opened_pair, send, written
from tests.strategies import examples
from tests.unit.api.sessions import connected, listening
from tests.unit.net.io.test_forwarding_backpressure import BACKLOGGED_BYTES, FakeLink, forwarded_rows, held, rows_of
from tests.waiting import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.handlers import FifoChannel
from zenspark.transport.handshake import Capabilities
from zenspark.transport.receiver import MessageReceived
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl, ConsolidationMode, Priority, QueryTarget
from zenspark.types.query import Query
from zenspark.types.sample import Reply, Sample
from zenspark.types.timestamps import NTP64, Timestamp, TimestampId
from zenspark.wire.messages import Push, Put
from zenspark.wire.values import Priority as WirePriority
from zenspark.wire.values import QoS, WireExpr

ALLOW_ALL = {
    "enabled": True,
    "default_permission": "allow",
    "rules": [
        {
            "id": "r",
            "permission": "deny",
            "flows": ["ingress", "egress"],
            "messages": ["put"],
            "key_exprs": ["never/**"],
        }
    ],
    "subjects": [{"id": "s"}],
    "policies": [{"rules": ["r"], "subjects": ["s"]}],
}
"""Refuses nothing that the tests send, but every message passes it."""
NAMESPACE = "fleet/robot1"
KEYS = ("a", "a/b", "a/b/c", "b")
LARGE_BYTES = 200_000
"""More than a batch: sent in fragments."""
CAPACITY = 1000

numbers = itertools.count()


class Network(msgspec.Struct):
    """A router, a client that publishes and queries, and one that receives and replies."""

    router: Session
    sender: Session
    receiver: Session


def open_network(stack: ExitStack, *, is_general: bool, namespace: str | None) -> Network:
    options: dict[str, object] = {"access_control": ALLOW_ALL} if is_general else {}
    names = {} if namespace is None else {"namespace": namespace}
    router = stack.enter_context(listening("router", timestamping__enabled=False, **options))
    sender = stack.enter_context(connected("client", router, **options, **names))
    receiver = stack.enter_context(connected("client", router, **options, **names))
    return Network(router, sender, receiver)


@pytest.fixture(scope="module", params=[None, NAMESPACE], ids=["plain", "namespace"])
def networks(request: pytest.FixtureRequest) -> Iterator[tuple[Network, Network]]:
    """The same network twice: with fast paths, and with the general ones."""
    with ExitStack() as stack:
        yield (
            open_network(stack, is_general=False, namespace=request.param),
            open_network(stack, is_general=True, namespace=request.param),
        )


def has_interceptors(session: Session) -> bool:
    """Whether all messages from and to neighbours pass interceptors."""
    faces = session._runtime.node.router._faces.values()
    neighbours = [face for face in faces if str(face.zid) != str(session.zid())]
    assert neighbours
    return all(face.ingress is not None and face.egress is not None for face in neighbours)


class Publication(msgspec.Struct, frozen=True):
    """One call of put or delete."""

    key: str
    payload: bytes | None
    """None: a DELETE."""
    options: dict[str, Any]


payloads = st.one_of(st.binary(max_size=40), st.just(bytes(range(256)) * (LARGE_BYTES // 256)))
times = st.builds(NTP64, st.integers(0, 1 << 31), st.integers(0, 999_999_999))
stamps = st.builds(Timestamp, times, st.just(TimestampId(b"\x01\x02")))
options_of_all = {
    "congestion_control": st.just(CongestionControl.BLOCK),  # nothing is dropped, whatever the path
    "priority": st.sampled_from(list(Priority)),
    "express": st.booleans(),
}
optional = {"attachment": st.binary(max_size=20), "timestamp": stamps}
encodings = st.sampled_from([Encoding.ZENOH_BYTES, Encoding.TEXT_PLAIN, Encoding("application/x-own;schema")])


@st.composite
def publications(draw: st.DrawFn) -> Publication:
    options = draw(st.fixed_dictionaries(options_of_all, optional=optional))
    if draw(st.integers(0, 3)) == 0:
        return Publication(draw(st.sampled_from(KEYS)), None, options)
    options |= draw(st.fixed_dictionaries({}, optional={"encoding": encodings}))
    return Publication(draw(st.sampled_from(KEYS)), draw(payloads), options)


def describe(sample: Sample, prefix: str) -> tuple[object, ...]:
    """Everything users see of a sample, but for the prefix of its key."""
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
    )


def publish(session: Session, prefix: str, publication: Publication) -> None:
    key = f"{prefix}{publication.key}"
    if publication.payload is None:
        session.delete(key, **publication.options)
    else:
        session.put(key, publication.payload, **publication.options)


def receive_published(network: Network, operations: list[Publication]) -> dict[object, list[tuple[object, ...]]]:
    """Publish and receive; samples by priority, for order holds within one."""
    prefix = f"run{next(numbers)}/"
    with network.receiver.declare_subscriber(f"{prefix}**", FifoChannel(CAPACITY)) as subscriber:
        wait_until_matching(network.sender, f"{prefix}{KEYS[0]}")
        for operation in operations:
            publish(network.sender, prefix, operation)
        samples = [subscriber.handler.recv(TIMEOUT_SECONDS) for _ in operations]
        assert subscriber.handler.try_recv() is None
    found: dict[object, list[tuple[object, ...]]] = {}
    for sample in samples:
        found.setdefault(sample.priority, []).append(describe(sample, prefix))
    return found


def wait_until_matching(session: Session, key: str) -> None:
    with session.declare_publisher(key) as publisher:
        until(lambda: publisher.matching_status.matching)


SHARED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def test_the_networks_differ_in_their_interceptors_only(networks: tuple[Network, Network]) -> None:
    fast, general = networks
    for node in (general.router, general.sender, general.receiver):
        assert has_interceptors(node)
    for node in (fast.router, fast.sender, fast.receiver):
        assert not has_interceptors(node)


@settings(examples(40), suppress_health_check=SHARED)
@given(operations=st.lists(publications(), min_size=1, max_size=30))
def test_publications_arrive_alike(networks: tuple[Network, Network], operations: list[Publication]) -> None:
    """put (pre-encoded or encoded), forwarding, reassembly, namespace, delivery to subscribers."""
    fast, general = networks
    assert receive_published(fast, operations) == receive_published(general, operations)


class Answer(msgspec.Struct, frozen=True):
    """One call of reply, reply_err or reply_del."""

    kind: str
    payload: bytes
    options: dict[str, Any]


answers = st.builds(
    Answer,
    st.sampled_from(["reply", "reply", "reply_err", "reply_del"]),
    payloads,
    st.fixed_dictionaries({}, optional={"attachment": st.binary(max_size=20)}),
)


def give_answer(query: Query, key: str, answer: Answer) -> None:
    match answer.kind:
        case "reply":
            query.reply(key, answer.payload, encoding=Encoding.TEXT_PLAIN, **answer.options)
        case "reply_err":
            query.reply_err(answer.payload, encoding=Encoding.APPLICATION_JSON)
        case "reply_del":
            query.reply_del(key, **answer.options)


def describe_reply(reply: Reply, prefix: str) -> tuple[object, ...]:
    if reply.ok is not None:
        return describe(reply.ok, prefix)
    assert reply.err is not None
    return reply.err.payload.to_bytes(), str(reply.err.encoding)


def query_network(
    network: Network, replies: list[Answer], options: dict[str, Any], is_answered: bool
) -> tuple[list[object], list[tuple[object, ...]]]:
    """Send one query; what its queryable saw, and what came back."""
    prefix = f"run{next(numbers)}/"
    seen: list[object] = []
    held: list[Query] = []

    def on_query(query: Query) -> None:
        payload, attachment = query.payload, query.attachment
        seen.append(str(query.selector).removeprefix(prefix))
        seen.append(None if payload is None else payload.to_bytes())
        seen.append(None if attachment is None else attachment.to_bytes())
        for answer in replies:
            give_answer(query, f"{prefix}a", answer)
        if not is_answered:
            held.append(query)  # no final reply while it lives

    key = f"{prefix}a"
    with network.receiver.declare_queryable(key, on_query), network.sender.declare_querier(key) as querier:
        until(lambda: querier.matching_status.matching)
        found = list(network.sender.get(f"{key}?x=1;y", **options))
    return seen, [describe_reply(reply, prefix) for reply in found]


queries = st.fixed_dictionaries(
    {"consolidation": st.just(ConsolidationMode.NONE), "timeout": st.just(TIMEOUT_SECONDS)},
    optional={
        "payload": st.binary(max_size=50),
        "attachment": st.binary(max_size=20),
        "target": st.sampled_from(list(QueryTarget)),
        "priority": st.sampled_from(list(Priority)),
        "express": st.booleans(),
    },
)


@settings(examples(40), suppress_health_check=SHARED)
@given(replies=st.lists(answers, max_size=5), options=queries)
def test_queries_are_answered_alike(
    networks: tuple[Network, Network], replies: list[Answer], options: dict[str, Any]
) -> None:
    fast, general = networks
    assert query_network(fast, replies, options, True) == query_network(general, replies, options, True)


@pytest.mark.parametrize("count", [0, 2])
def test_queries_without_a_final_reply_time_out_alike(networks: tuple[Network, Network], count: int) -> None:
    replies = [Answer("reply", b"one", {})] * count
    options = {"timeout": 0.3, "consolidation": ConsolidationMode.NONE}
    fast, general = (query_network(network, replies, options, False) for network in networks)
    # the error is made by the querier or by the router, whichever timer is first, and their encodings differ
    assert [(seen, replies[:-1], replies[-1][0]) for seen, replies in (fast, general)] == [
        (fast[0], [fast[1][0]] * count, b"Timeout")
    ] * 2


@examples(100)
@given(
    sizes=st.lists(st.integers(0, 5000), min_size=1, max_size=8),
    priority=st.sampled_from(list(WirePriority)),
    cut=st.integers(1, 3000),
)
def test_fragments_are_reassembled_alike_in_one_read_and_in_many(
    sizes: list[int], priority: WirePriority, cut: int
) -> None:
    """In one read the decoder of columns joins them where they lie; otherwise the lane collects them."""
    pushes = [
        Push(wire_expr=WireExpr(suffix="a"), qos=QoS(priority=priority), body=Put(payload=bytes([number % 256]) * size))
        for number, size in enumerate(sizes)
    ]
    capabilities = Capabilities(batch_size=512)
    found = []
    for pieces in (0, cut):
        alice, bob = opened_pair(capabilities, capabilities)
        for push in pushes:
            send(alice, push, priority=priority)
        found.append(feed(bob, written(alice), pieces))
    assert found[0] == found[1] == [MessageReceived(push, True) for push in pushes]


@examples(200)
@given(runs=st.lists(st.one_of(st.just(""), st.text("dbfg", min_size=1, max_size=12)), max_size=12))
def test_backlogged_targets_get_the_same_rows_and_messages(runs: list[str]) -> None:
    """Runs of publications to a target that is behind; an empty run: the target has drained."""
    by_rows, by_messages = (Backlogged(*held()) for _ in range(2))
    for keys in runs:
        if not keys:
            for each in (by_rows, by_messages):
                each.backpressure.resume_sources(each.target)
            continue
        pushes, share = rows_of(keys)
        rows = forwarded_rows(by_rows.backpressure, by_rows.source, by_rows.target, share, pushes)
        messages = [
            row
            for row in range(len(keys))
            if by_messages.backpressure.pause_source_or_drop(
                by_messages.source, by_messages.target, pushes.columns.push(row)
            )
        ]
        assert rows == messages
        assert by_rows.target.dropped == by_messages.target.dropped
        assert bool(by_rows.source.paused) == bool(by_messages.source.paused)


class Backlogged:
    """A target that is behind, and a source that publishes to it."""

    def __init__(self, _: object, backpressure: Any) -> None:  # noqa: ANN401 - with links of the test
        self.backpressure = backpressure
        self.source, self.target = FakeLink(), FakeLink(BACKLOGGED_BYTES)
