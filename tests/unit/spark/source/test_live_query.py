from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, In, InputPartition

from tests.interop.reference import ours, unused
from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.arrow import SCHEMA
from zenspark.engine.reply_collector import TIMEOUT_ERROR
from zenspark.errors import ZError
from zenspark.spark.options import BatchOptions
from zenspark.spark.source import live_query
from zenspark.spark.source.live_query import (
    MAX_QUERIES_IN_FLIGHT,
    FilteringQueryReader,
    QueryReader,
    _error_row,
    make_reader,
    schema_of,
)
from zenspark.spark.zenoh_session import connect_session
from zenspark.types.encoding import Encoding
from zenspark.types.ids import EntityGlobalId, ZenohId
from zenspark.types.network_info import ReplyError
from zenspark.types.query import Query
from zenspark.types.sample import Reply
from zenspark.types.zbytes import ZBytes


def options(selector: str, **more: str) -> BatchOptions:
    return BatchOptions.of({"selector": selector, "connect": "tcp/127.0.0.1:1", **more})


def selectors(reader: DataSourceReader) -> list[tuple[str, ...]]:
    return [part.value for part in reader.partitions()]


def test_selectors_are_divided_among_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_query, "available_cores", lambda: 2)
    many = '["a?x=1;y=2", "b", "c", "d", "e"]'
    assert selectors(make_reader(options(many))) == [("a?x=1;y=2", "c", "e"), ("b", "d")]
    assert selectors(make_reader(options(many, parallelism="1"))) == [("a?x=1;y=2", "b", "c", "d", "e")]
    assert len(selectors(make_reader(options(many, minPartitions="9")))) == 5
    assert selectors(make_reader(options("a"))) == [("a",)]
    assert list(make_reader(options("a")).read(InputPartition(None))) == []


def test_selectors_that_cannot_match_wanted_keys_are_skipped() -> None:
    reader = make_reader(options('["a/*", "b/**", "c"]', pushDown="true", parallelism="2"))
    assert isinstance(reader, FilteringQueryReader)
    filters = [In(("key",), ("a/x", "b/y")), EqualTo(("kind",), "PUT")]
    assert reader.pushFilters(filters) == filters
    assert selectors(reader) == [("a/*",), ("b/**",)]
    reader.pushFilters([EqualTo(("key",), "b/y")])
    assert selectors(reader) == [("b/**",)]
    reader.pushFilters([EqualTo(("key",), "other")])
    assert selectors(reader) == []


@contextmanager
def serving_queries(key_expr: str, on_query: Callable[[Query], object]) -> Iterator[str]:
    """A router with a queryable; where it is."""
    endpoint = unused()
    with open_session(ours(mode="router", listen__endpoints=[endpoint])) as session:
        session.declare_queryable(key_expr, on_query)
        yield endpoint


def rows(endpoint: str, *selector: str, **more: str) -> list[dict[str, Any]]:
    """The rows of one task with these selectors."""
    given = BatchOptions.of({"selector": json.dumps(selector), "connect": endpoint, **more})
    return [row for batch in QueryReader(given).read(InputPartition(selector)) for row in batch.to_pylist()]


@pytest.mark.parametrize("on_error", ["fail", "row"])
def test_replies_become_rows(on_error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_query, "MAX_REPLY_BATCH_ROWS", 2)
    endpoint = unused()

    def on_query(query: Query) -> None:
        for number in range(5):
            query.reply(f"a/{number}", f"value {number}", encoding="text/plain")
        if on_error == "row":
            query.reply_err(b"\xffno")

    given = BatchOptions.of({"selector": "a/*", "connect": endpoint, "onError": on_error, "consolidation": "none"})
    with open_session(ours(mode="router", listen__endpoints=[endpoint])) as session:
        session.declare_queryable("a/*", on_query)
        batches = list(QueryReader(given).read(InputPartition(("a/*",))))
    assert all(batch.schema.equals(schema_of(given)) for batch in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    values = [row for row in rows if row["kind"] == "PUT"]
    assert [(row["key"], row["payload"], row["encoding"]) for row in values] == [
        (f"a/{number}", f"value {number}".encode(), "text/plain") for number in range(5)
    ]
    errors = [(row["key"], row["payload"], row["error"]) for row in rows if row["kind"] == "ERROR"]
    assert errors == ([("a/*", b"\xffno", "\ufffdno")] if on_error == "row" else [])
    assert schema_of(options("a")).equals(SCHEMA)


def test_error_reply_fails_the_query() -> None:
    with (
        serving_queries("a", lambda query: query.reply_err("broken")) as endpoint,
        pytest.raises(ZError, match="a: a queryable replied with an error: broken"),
    ):
        rows(endpoint, "a")


@pytest.mark.slow
def test_many_selectors_share_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[Session] = []

    def note(given: BatchOptions) -> Session:
        sessions.append(connect_session(given))
        return sessions[-1]

    monkeypatch.setattr(live_query, "connect_session", note)
    monkeypatch.setattr(live_query, "MAX_BACKLOG_REPLIES", 3)

    def on_query(query: Query) -> None:
        for number in range(10):
            query.reply(f"{query.key_expr}/{number}", "x")

    wanted = [f"a/{name}" for name in range(30)]
    with serving_queries("a/*", on_query) as endpoint:
        found = rows(endpoint, *(f"{name}?_anyke" for name in wanted), consolidation="none")
    assert len(sessions) == 1
    assert sorted(row["key"] for row in found) == sorted(f"{name}/{number}" for name in wanted for number in range(10))


def test_slow_selector_does_not_delay_others() -> None:
    held: list[Query] = []

    def on_query(query: Query) -> None:
        if str(query.key_expr) == "a/late":
            held.append(query)
            return
        query.reply(query.key_expr, "x")
        if str(query.key_expr) == f"a/{MAX_QUERIES_IN_FLIGHT}":  # queried when another one has ended
            held.pop().reply("a/late", "y")

    wanted = ["a/late", *(f"a/{number}" for number in range(MAX_QUERIES_IN_FLIGHT + 1))]
    with serving_queries("a/*", on_query) as endpoint:
        assert sorted(row["key"] for row in rows(endpoint, *wanted)) == sorted(wanted)


@pytest.mark.slow
def test_no_final_reply_in_time_is_not_an_error_of_a_queryable() -> None:
    held: list[Query] = []

    def on_query(query: Query) -> None:
        held.append(query)
        query.reply("a", "x")

    with serving_queries("a", on_query) as endpoint:
        with pytest.raises(ZError, match=r"^a: timed out"):
            rows(endpoint, "a", timeout="0.2")
        value, late = sorted(rows(endpoint, "a", timeout="0.2", onError="row"), key=lambda row: str(row["kind"]))
    assert value["kind"] == "PUT"
    assert (late["key"], late["kind"], late["payload"], late["encoding"]) == ("a", "TIMEOUT", None, None)
    assert late["error"].startswith("timed out")


def test_error_reply_timeout_of_a_queryable_is_not_a_timeout() -> None:
    with serving_queries("a", lambda query: query.reply_err("Timeout")) as endpoint:
        (row,) = rows(endpoint, "a", onError="row")
    assert (row["kind"], row["payload"], row["error"]) == ("ERROR", b"Timeout", "Timeout")


def test_timeout_names_session_or_router() -> None:
    own, replier = Reply(TIMEOUT_ERROR), EntityGlobalId(ZenohId("ab"), 0)
    error = ReplyError(ZBytes(b"Timeout"), Encoding.ZENOH_BYTES)
    (row,) = _error_row("a?x", own, 1.5).to_pylist()
    assert (row["key"], row["kind"], row["error"]) == (
        "a",
        "TIMEOUT",
        "timed out after 1.5 s without a final reply",
    )
    (row,) = _error_row("a?x", Reply(error, replier), 1.5).to_pylist()
    assert (row["kind"], row["error"]) == ("TIMEOUT", "timed out: a router received no final reply from ab")


@pytest.mark.slow
def test_task_that_ends_early_releases_pending_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_query, "MAX_BACKLOG_REPLIES", 1)

    def on_query(query: Query) -> None:
        query.reply_err("broken")
        for number in range(5000):
            query.reply(f"a/{number}", "x")

    with serving_queries("a/*", on_query) as endpoint, pytest.raises(ZError, match="broken"):
        rows(endpoint, "a/*", consolidation="none")
