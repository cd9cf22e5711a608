"""A query is answered, and ended exactly once however it goes."""

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

WHO = wire.EntityId(wire.ZenohId(1), 5)


class Desk:
    """Writes down what is answered."""

    def __init__(self, parameters: str = "", body: wire.QueryBody | None = None) -> None:
        self.said: list[tuple[str, messages.Reply | messages.Err, wire.EntityId]] = []
        self.finals = 0
        self.waiting: list[Callable[[], None]] = []
        query = messages.Query(
            parameters=parameters,
            body=body,
            attachment=b"more",
            source_info=wire.SourceInfo(wire.ZenohId(2), 3, 4),
        )
        request = messages.Request(request_id=1, wire_expr=wire.WireExpr(0, "q/*"), body=query)
        self.asked(request)

    def asked(self, request: messages.Request) -> None:
        self.handle = RequestHandle(request, KeyExpr("q/*"), self.answer, self.finish, self.waiting.append)

    def answer(
        self,
        key: str,
        body: messages.Reply | messages.Err,
        responder: wire.EntityId,
        qos: wire.QoS | None,
        timestamp: wire.Timestamp | None,
    ) -> None:
        self.said.append((key, body, responder))

    def finish(self) -> None:
        self.finals += 1

    def queries(self, count: int) -> list[Query]:
        self.handle.start(count)
        return [Query(self.handle, WHO) for _ in range(count)]


def test_query_has_the_fields_of_the_request() -> None:
    desk = Desk("a=1", wire.QueryBody(wire.Encoding(1), b"value"))
    (query,) = desk.queries(1)
    assert (str(query.key_expr), str(query.parameters), str(query.selector)) == ("q/*", "a=1", "q/*?a=1")
    assert query.payload == ZBytes(b"value")
    assert query.encoding == Encoding.from_wire(wire.Encoding(1))
    assert query.attachment == b"more"
    assert query.source_info is not None
    assert query.source_info.source_sn == 4
    assert query.timestamp_stack is None
    assert query.accepts_replies() is ReplyKeyExpr.MATCHING_QUERY
    assert str(query) == repr(query) == 'Query { selector: "q/*?a=1" }'


def test_it_shows_how_the_querier_asks() -> None:
    """QU-35, QU-39, QU-52: target, budget, timeout and consolidation, as received."""
    desk = Desk()
    (query,) = desk.queries(1)
    assert (query.target, query.budget, query.timeout) == (QueryTarget.BEST_MATCHING, None, None)
    assert query.consolidation is ConsolidationMode.AUTO
    desk.asked(
        messages.Request(
            request_id=1,
            wire_expr=wire.WireExpr(0, "q/*"),
            target=wire.QueryTarget.ALL_COMPLETE,
            budget=7,
            timeout_ms=1500,
            body=messages.Query(consolidation=wire.Consolidation.MONOTONIC),
        )
    )
    (query,) = desk.queries(1)
    assert (query.target, query.budget, query.timeout) == (QueryTarget.ALL_COMPLETE, 7, 1.5)
    assert query.consolidation is ConsolidationMode.MONOTONIC


def test_replies_are_sent_with_their_fields() -> None:
    desk = Desk()
    (query,) = desk.queries(1)
    stamp = Timestamp.from_wire(wire.Timestamp(1, wire.ZenohId(9)))
    query.reply("q/a", "text", encoding="text/plain", attachment=b"x", timestamp=stamp)
    query.reply_del("q/b", timestamp=stamp)
    query.reply_err("no", encoding="text/plain")
    value, gone, error = desk.said
    assert isinstance(value[1], messages.Reply)
    assert isinstance(value[1].body, messages.Put)
    assert (value[0], value[1].body.payload, value[1].body.attachment, value[2]) == ("q/a", b"text", b"x", WHO)
    assert isinstance(gone[1], messages.Reply)
    assert isinstance(gone[1].body, messages.Del)
    assert gone[1].body.timestamp == stamp.to_wire()
    assert isinstance(error[1], messages.Err)
    assert (error[0], error[1].payload) == ("q/*", b"no")


@pytest.mark.parametrize(("given", "sent"), [(None, "zenoh/bytes"), ("text/plain", "text/plain")])
def test_error_reply_has_the_given_encoding_or_zenoh_bytes(given: str | None, sent: str) -> None:
    desk = Desk()
    (query,) = desk.queries(1)
    query.reply_err("no", encoding=given)
    ((_, error, _),) = desk.said
    assert isinstance(error, messages.Err)
    assert str(Encoding.from_wire(error.encoding)) == sent


def test_reply_on_another_key_needs_accept_replies_any() -> None:
    (query,) = Desk().queries(1)
    with pytest.raises(UsageError, match="does not match"):
        query.reply("other", b"")
    (query,) = Desk("_anyke").queries(1)
    assert query.accepts_replies() is ReplyKeyExpr.ANY
    query.reply("other", b"")


def test_the_last_of_several_ends_it() -> None:
    desk = Desk()
    first, second = desk.queries(2)
    first.drop()
    first.drop()
    assert desk.finals == 0
    with second:
        pass
    assert desk.finals == 1


def test_request_without_queryables_is_finished_at_once() -> None:
    desk = Desk()
    assert desk.queries(0) == []
    assert desk.finals == 1


def test_a_forgotten_one_ends_later_without_waiting() -> None:
    desk = Desk()
    queries = desk.queries(1)
    del queries
    gc.collect()
    assert desk.finals == 0
    (end,) = desk.waiting
    end()
    assert desk.finals == 1


def test_a_dropped_one_is_of_no_use() -> None:
    (query,) = Desk().queries(1)
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
