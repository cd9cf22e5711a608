"""Fast and general paths of queries do the same: same queries, both paths, same replies (docs/architecture.md).

Each test also counts the calls of both paths, as in `test_fast_paths.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.property.twin_networks import (
    OPERATED,
    Calls,
    Network,
    count_calls,
    describe,
    metadata,
    node_options,
    payloads,
    run_numbers,
    sources,
)
from tests.unit.api.sessions import connected, listening
from tests.wait import TIMEOUT_SECONDS, until
from zenspark.engine.direct_queries import DirectQueries, DirectReplyHandle
from zenspark.engine.queries import SessionQueries
from zenspark.handlers.channel import ChannelClosed
from zenspark.net.node.dispatch import Dispatcher
from zenspark.router.face import Face
from zenspark.transport.receiver import MessageReceived
from zenspark.types.encoding import Encoding
from zenspark.types.enums import ConsolidationMode, Priority, QueryTarget
from zenspark.types.query import Query
from zenspark.types.sample import Reply
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import NetworkMessage

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


# -- the timeout of a query


EXPIRY = (DirectReplyHandle, "_expire")
QUERY_TIMEOUT_SECONDS = 20.0
"""Time for the replies to arrive; then the clock of the queryables' node advances by as much."""
LEASE_MS = 4 * 1000 * int(QUERY_TIMEOUT_SECONDS)


class TimedOut(msgspec.Struct):
    """What a querier and its node received of a query without a final reply."""

    replies: list[tuple[object, ...]]
    messages: list[NetworkMessage]
    """RESPONSEs and RESPONSE_FINAL, with their key as text and without the request id."""


class TimeoutNetwork:
    """A router with queryables and a client with queriers, of which only the router has a clock that can be advanced.

    So what the client receives of a query that times out was sent by the node of the queryable.
    """

    def __init__(self, stack: ExitStack, *, is_general: bool) -> None:
        options = node_options(is_general) | {"transport__link__tx__lease": LEASE_MS}
        self.router = stack.enter_context(listening("router", timestamping__enabled=False, **options))
        self.client = stack.enter_context(connected("client", self.router, **options))
        self._received: dict[int, list[NetworkMessage]] = {}
        """Normalised messages to the client, by request id."""

    def time_out(self, replies: list[list[ReplyCall]]) -> list[TimedOut]:
        """Send a query for each list of replies, and end it after these."""
        prefix = f"run{next(run_numbers)}/"
        held_queries: list[Query] = []

        def on_query(query: Query) -> None:
            key = str(query.key_expr)
            for call in replies[int(key.removeprefix(prefix))]:
                send_reply(query, key, call)
            held_queries.append(query)  # no final reply while it lives

        with (
            self.router.declare_queryable(f"{prefix}*", on_query),
            self.client.declare_querier(f"{prefix}*") as querier,
            self._recording(prefix),
        ):
            until(lambda: querier.matching_status.matching)
            options: dict[str, Any] = {"timeout": QUERY_TIMEOUT_SECONDS, "consolidation": ConsolidationMode.NONE}
            handlers = [self.client.get(f"{prefix}{number}", **options) for number in range(len(replies))]
            until(lambda: sum(map(len, self._received.values())) == sum(map(len, replies)))
            until(lambda: len(held_queries) == len(replies))
            with self._advanced_clock():
                found = [take_all(handler) for handler in handlers]
            for query in held_queries:
                query.drop()
        return [
            TimedOut([self._describe(reply, prefix) for reply in each], received)
            for each, (_, received) in zip(found, sorted(self._received.items()), strict=True)
        ]

    @contextmanager
    def _recording(self, prefix: str) -> Iterator[None]:
        """Record the replies that the client receives."""
        self._received.clear()
        dispatch = Dispatcher.receive

        def record(dispatcher: Dispatcher, source: Face, event: MessageReceived) -> None:
            message = event.message
            is_from_router = dispatcher is self.client._runtime.node.dispatcher
            if is_from_router and isinstance(message, messages.Response | messages.ResponseFinal):
                self._received.setdefault(message.request_id, []).append(self._normalise(message, source, prefix))
            dispatch(dispatcher, source, event)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Dispatcher, "receive", record)
            yield

    @contextmanager
    def _advanced_clock(self) -> Iterator[None]:
        """Advance the clock of the router by the timeout of the queries."""
        loop = self.router._runtime.node.loop
        now = loop.now
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "now", lambda: now() + QUERY_TIMEOUT_SECONDS)
            loop.call_soon(lambda: None)  # wakes it up
            yield

    def _normalise(
        self, message: messages.Response | messages.ResponseFinal, source: Face, prefix: str
    ) -> NetworkMessage:
        """Return a message without what differs from network to network."""
        if isinstance(message, messages.ResponseFinal):
            return replace(message, request_id=0)
        assert message.responder is not None
        assert message.responder.zid == self.router.zid().to_wire()
        key = wire.WireExpr(0, (source.resolve(message.wire_expr) or "").removeprefix(prefix))
        responder = wire.EntityId(wire.ZenohId(1), message.responder.eid)
        return replace(message, request_id=0, wire_expr=key, responder=responder)

    def _describe(self, reply: Reply, prefix: str) -> tuple[object, ...]:
        assert reply.replier_id is not None
        assert reply.replier_id.zid == self.router.zid()
        return (*describe_reply(reply, prefix), reply.replier_id.eid)


@pytest.fixture(scope="module")
def timeout_networks() -> Iterator[tuple[TimeoutNetwork, TimeoutNetwork]]:
    """One with direct queries, and one in which the router handles them."""
    with ExitStack() as stack:
        yield TimeoutNetwork(stack, is_general=False), TimeoutNetwork(stack, is_general=True)


@OPERATED
@example(replies=[[]])
@given(replies=st.lists(st.lists(reply_calls, max_size=3), min_size=1, max_size=4))
def test_queries_without_a_final_reply_time_out_alike(
    timeout_networks: tuple[TimeoutNetwork, TimeoutNetwork], replies: list[list[ReplyCall]]
) -> None:
    """By the timer of the direct query, or by that of the router of the queryable's node."""
    fast, general = timeout_networks
    with count_calls(EXPIRY) as calls:
        direct = fast.time_out(replies)
    assert calls["_expire"] == len(replies)
    with count_calls(EXPIRY) as calls:
        routed = general.time_out(replies)
    assert calls["_expire"] == 0
    assert direct == routed
    for sent, found in zip(replies, direct, strict=True):
        assert len(found.replies) == len(sent) + 1
        assert found.replies[-1][0] == b"Timeout"
        assert [type(message) for message in found.messages] == [messages.Response] * (len(sent) + 1) + [
            messages.ResponseFinal
        ]
