from __future__ import annotations

import pytest
from pyspark.sql.datasource import EqualTo, In, InputPartition

from tests.interop.reference import ours, unused
from zenspark.api.opening import open as open_session
from zenspark.api.query import Query
from zenspark.arrow import SCHEMA
from zenspark.errors import ZError
from zenspark.spark import query
from zenspark.spark.options import BatchOptions
from zenspark.spark.query import FilteringQueryReader, QueryReader, reader_of, schema_of


def options(selector: str, **more: str) -> BatchOptions:
    return BatchOptions.of({"selector": selector, "connect": "tcp/127.0.0.1:1", **more})


def test_a_task_for_each_selector() -> None:
    reader = reader_of(options('["a/*?x=1;y=2", "b/**"]'))
    assert [part.value for part in reader.partitions()] == ["a/*?x=1;y=2", "b/**"]
    assert list(reader.read(InputPartition(None))) == []


def test_selectors_that_cannot_bring_a_key_are_not_asked() -> None:
    reader = reader_of(options('["a/*", "b/**", "c"]', pushDown="true"))
    assert isinstance(reader, FilteringQueryReader)
    filters = [In(("key",), ("a/x", "b/y")), EqualTo(("kind",), "PUT")]
    assert reader.pushFilters(filters) == filters
    assert [part.value for part in reader.partitions()] == ["a/*", "b/**"]
    reader.pushFilters([EqualTo(("key",), "b/y")])
    assert [part.value for part in reader.partitions()] == ["b/**"]


@pytest.mark.parametrize("on_error", ["fail", "row"])
def test_replies_become_rows(on_error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "ROWS", 2)
    endpoint = unused()

    def answer(asked: Query) -> None:
        for number in range(5):
            asked.reply(f"a/{number}", f"value {number}", encoding="text/plain")
        if on_error == "row":
            asked.reply_err(b"\xffno")

    given = BatchOptions.of({"selector": "a/*", "connect": endpoint, "onError": on_error, "consolidation": "none"})
    with open_session(ours(mode="router", listen__endpoints=[endpoint])) as session:
        session.declare_queryable("a/*", answer)
        batches = list(QueryReader(given).read(InputPartition("a/*")))
    assert all(batch.schema.equals(schema_of(given)) for batch in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    values = [row for row in rows if row["kind"] == "PUT"]
    assert [(row["key"], row["payload"], row["encoding"]) for row in values] == [
        (f"a/{number}", f"value {number}".encode(), "text/plain") for number in range(5)
    ]
    errors = [(row["key"], row["payload"], row["error"]) for row in rows if row["kind"] == "ERROR"]
    assert errors == ([("a/*", b"\xffno", "\ufffdno")] if on_error == "row" else [])
    assert schema_of(options("a")).equals(SCHEMA)


def test_an_error_ends_it() -> None:
    endpoint = unused()
    with open_session(ours(mode="router", listen__endpoints=[endpoint])) as session:
        session.declare_queryable("a", lambda asked: asked.reply_err("broken"))
        given = BatchOptions.of({"selector": "a", "connect": endpoint})
        with pytest.raises(ZError, match="a: a queryable answered with an error: broken"):
            list(QueryReader(given).read(InputPartition("a")))
