"""Arguments of public methods, as they are sent."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.wait import TIMEOUT_SECONDS, until
from zenspark.api.session import Session
from zenspark.errors import UsageError
from zenspark.types.encoding import Encoding
from zenspark.types.enums import (
    ReplyKeyExpr,
)
from zenspark.types.query import Query
from zenspark.wire import messages
from zenspark.wire import values as wire


def test_query_without_payload_has_no_payload_or_encoding(peer: Session) -> None:
    seen: list[object] = []

    def on_query(query: Query) -> None:
        seen.append((query.payload, query.encoding, query.attachment, query.source_info))
        seen.append((str(query.selector), query.accepts_replies()))

    peer.declare_queryable("q", on_query)
    list(peer.get("q?a=1", timeout=TIMEOUT_SECONDS))
    assert seen == [(None, None, None, None), ("q?a=1", ReplyKeyExpr.MATCHING_QUERY)]


def test_query_with_encoding_only_has_an_empty_payload(peer: Session) -> None:
    seen: list[object] = []
    peer.declare_queryable("q", lambda query: seen.append((query.payload, query.encoding)))
    list(peer.get("q", encoding="text/plain", timeout=TIMEOUT_SECONDS))
    assert seen == [(b"", Encoding.TEXT_PLAIN)]


def test_parameters_longer_than_65535_bytes_are_rejected(router: Session, client: Session) -> None:
    """MR-229, QU-49: longer ones are refused where they are given, and read where they come."""
    sizes: list[int] = []
    router.declare_queryable("q", lambda query: sizes.append(len(str(query.parameters).encode())))
    until(lambda: client.declare_querier("q").matching_status)
    longest = "é" * (2**15 - 1) + "x"
    assert list(client.get(f"q?{longest}", timeout=TIMEOUT_SECONDS)) == []
    querier = client.declare_querier("q")
    refused: list[Callable[[], object]] = [
        lambda: client.get(f"q?{longest}x"),
        lambda: querier.get(parameters=f"{longest}x"),
        lambda: client.get(f"q?{longest}", accept_replies=ReplyKeyExpr.ANY),
    ]
    for call in refused:
        with pytest.raises(UsageError, match="bytes, more than 65535"):
            call()
    body = messages.Query(parameters="x" * 70_000)
    with client._runtime.lock:
        client._runtime.node.send_local(messages.Request(request_id=77, wire_expr=wire.WireExpr(0, "q"), body=body))
    until(lambda: sizes == [65_535, 70_000])


def test_query_defaults_are_block_and_ten_seconds(router: Session, client: Session) -> None:
    """MR-139, QU-42: what is written where the program gives neither."""
    queries = router.declare_queryable("q")
    until(lambda: client.declare_querier("q").matching_status)
    for send_query in (partial(client.get, "q"), client.declare_querier("q").get):
        found = send_query()
        with queries.recv(TIMEOUT_SECONDS) as query:
            request = query._require_handle().request
            assert (request.qos, request.timeout_ms) == (wire.QoS.REQUEST, 10_000)
        assert list(found) == []
