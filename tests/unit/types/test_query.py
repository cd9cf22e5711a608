"""A query gets replies, and is ended exactly once in all cases."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from zenspark.errors import UsageError
from zenspark.key import KeyExpr
from zenspark.types.encoding import Encoding
from zenspark.types.enums import ConsolidationMode, QueryTarget, ReplyKeyExpr
from zenspark.types.query import Query, RequestHandle
from zenspark.types.timestamps import Timestamp
from zenspark.types.zbytes import ZBytes
from zenspark.wire import messages
from zenspark.wire import values as wire

RESPONDER = wire.EntityId(wire.ZenohId(1), 5)


class ReplyRecorder:
    """Records the replies."""

    def __init__(self, parameters: str = "", body: wire.QueryBody | None = None) -> None:
        self.replies: list[tuple[str, messages.Reply | messages.Err, wire.EntityId]] = []
        self.finals = 0
        self.waiting: list[Callable[[], None]] = []
        query = messages.Query(
            parameters=parameters,
            body=body,
            attachment=b"more",
            source_info=wire.SourceInfo(wire.ZenohId(2), 3, 4),
        )
        request = messages.Request(request_id=1, wire_expr=wire.WireExpr(0, "q/*"), body=query)
        self.receive_request(request)

    def receive_request(self, request: messages.Request) -> None:
        self.handle = RequestHandle(request, KeyExpr("q/*"), self.send_reply, self.finish, self.waiting.append)

    def send_reply(
        self,
        key: str,
        body: messages.Reply | messages.Err,
        responder: wire.EntityId,
        qos: wire.QoS | None,
        timestamp: wire.Timestamp | None,
    ) -> None:
        self.replies.append((key, body, responder))

    def finish(self) -> None:
        self.finals += 1

    def queries(self, count: int) -> list[Query]:
        self.handle.start(count)
        return [Query(self.handle, RESPONDER) for _ in range(count)]


def test_query_has_the_fields_of_the_request() -> None:
    recorder = ReplyRecorder("a=1", wire.QueryBody(wire.Encoding(1), b"value"))
    (query,) = recorder.queries(1)
    assert (str(query.key_expr), str(query.parameters), str(query.selector)) == ("q/*", "a=1", "q/*?a=1")
    assert query.payload == ZBytes(b"value")
    assert query.encoding == Encoding.from_wire(wire.Encoding(1))
    assert query.attachment == b"more"
    assert query.source_info is not None
    assert query.source_info.source_sn == 4
    assert query.timestamp_stack is None
    assert query.accepts_replies() is ReplyKeyExpr.MATCHING_QUERY
    assert str(query) == repr(query) == 'Query { selector: "q/*?a=1" }'


def test_query_has_target_budget_timeout_and_consolidation() -> None:
    """QU-35, QU-39, QU-52: target, budget, timeout and consolidation, as received."""
    recorder = ReplyRecorder()
    (query,) = recorder.queries(1)
    assert (query.target, query.budget, query.timeout) == (QueryTarget.BEST_MATCHING, None, None)
    assert query.consolidation is ConsolidationMode.AUTO
    recorder.receive_request(
        messages.Request(
            request_id=1,
            wire_expr=wire.WireExpr(0, "q/*"),
            target=wire.QueryTarget.ALL_COMPLETE,
            budget=7,
            timeout_ms=1500,
            body=messages.Query(consolidation=wire.Consolidation.MONOTONIC),
        )
    )
    (query,) = recorder.queries(1)
    assert (query.target, query.budget, query.timeout) == (QueryTarget.ALL_COMPLETE, 7, 1.5)
    assert query.consolidation is ConsolidationMode.MONOTONIC


def test_replies_are_sent_with_their_fields() -> None:
    recorder = ReplyRecorder()
    (query,) = recorder.queries(1)
    stamp = Timestamp.from_wire(wire.Timestamp(1, wire.ZenohId(9)))
    query.reply("q/a", "text", encoding="text/plain", attachment=b"x", timestamp=stamp)
    query.reply_del("q/b", timestamp=stamp)
    query.reply_err("no", encoding="text/plain")
    value, gone, error = recorder.replies
    assert isinstance(value[1], messages.Reply)
    assert isinstance(value[1].body, messages.Put)
    assert (value[0], value[1].body.payload, value[1].body.attachment, value[2]) == ("q/a", b"text", b"x", RESPONDER)
    assert isinstance(gone[1], messages.Reply)
    assert isinstance(gone[1].body, messages.Del)
    assert gone[1].body.timestamp == stamp.to_wire()
    assert isinstance(error[1], messages.Err)
    assert (error[0], error[1].payload) == ("q/*", b"no")


@pytest.mark.parametrize(("given", "sent"), [(None, "zenoh/bytes"), ("text/plain", "text/plain")])
def test_error_reply_has_the_given_encoding_or_zenoh_bytes(given: str | None, sent: str) -> None:
    recorder = ReplyRecorder()
    (query,) = recorder.queries(1)
    query.reply_err("no", encoding=given)
    ((_, error, _),) = recorder.replies
    assert isinstance(error, messages.Err)
    assert str(Encoding.from_wire(error.encoding)) == sent


def test_reply_on_another_key_needs_accept_replies_any() -> None:
    (query,) = ReplyRecorder().queries(1)
    with pytest.raises(UsageError, match="does not match"):
        query.reply("other", b"")
    (query,) = ReplyRecorder("_anyke").queries(1)
    assert query.accepts_replies() is ReplyKeyExpr.ANY
    query.reply("other", b"")


def test_request_is_finished_when_its_last_query_is_dropped() -> None:
    recorder = ReplyRecorder()
    first, second = recorder.queries(2)
    first.drop()
    first.drop()
    assert recorder.finals == 0
    with second:
        pass
    assert recorder.finals == 1


def test_request_without_queryables_is_finished_at_once() -> None:
    recorder = ReplyRecorder()
    assert recorder.queries(0) == []
    assert recorder.finals == 1


def test_unreferenced_query_is_finished_by_a_scheduled_call() -> None:
    recorder = ReplyRecorder()
    queries = recorder.queries(1)
    del queries
    gc.collect()
    assert recorder.finals == 0
    (end,) = recorder.waiting
    end()
    assert recorder.finals == 1


def test_use_of_a_dropped_query_raises() -> None:
    (query,) = ReplyRecorder().queries(1)
    query.drop()
    uses: list[Callable[[], object]] = [
        lambda: query.key_expr,
        lambda: query.payload,
        lambda: str(query),
        lambda: query.reply("q/a", b""),
        lambda: query.reply_err(b""),
    ]
    for use in uses:
        with pytest.raises(UsageError, match="dropped"):
            use()
    assert repr(query) == "Query { dropped }"
