"""Tables and SQL of the page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from tests.unit.web.lakes import Tables
from tests.unit.web.served import opened, send_request, serving
from zenspark.web.server import HttpServer
from zenspark.web.tables import cell_value, result_document

SAMPLES = pa.table({"key": ["a", "b"], "payload": [b"\x00", None], "n": [1, 2**60]})


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    with opened() as session, serving(session, sql=Tables(samples=SAMPLES)) as made:
        yield made


def test_tables_are_listed_with_columns_and_rows(server: HttpServer) -> None:
    (table,) = send_request(server, "/_api/tables").json["tables"]
    assert (table["name"], table["rows"], table["files"]) == ("samples", 2, 1)
    assert table["columns"][1] == {"name": "payload", "type": "binary"}
    assert send_request(server, "/_api/node").json["sql"]


def test_sql_returns_columns_and_limited_rows(server: HttpServer) -> None:
    found = send_request(server, "/_api/sql", {"query": "select * from samples order by key"}).json
    assert [column["name"] for column in found["columns"]] == ["key", "payload", "n"]
    assert found["rows"] == [["a", {"base64": "AA==", "size": 1}, 1], ["b", None, str(2**60)]]
    assert found["truncated"] is False
    cut = send_request(server, "/_api/sql", {"query": "select * from samples", "limit": 1}).json
    assert (len(cut["rows"]), cut["truncated"]) == (1, True)


def test_invalid_sql_is_status_400(server: HttpServer) -> None:
    reply = send_request(server, "/_api/sql", {"query": "selekt"})
    assert reply.status == 400
    assert "syntax error" in reply.error
    assert "\n" not in reply.error
    assert send_request(server, "/_api/sql", {"limit": 1}).status == 400


def test_node_without_a_lake_replies_404_to_sql() -> None:
    with opened() as session, serving(session) as server:
        for reply in (send_request(server, "/_api/tables"), send_request(server, "/_api/sql", {"query": "select 1"})):
            assert (reply.status, "no lake" in reply.error) == (404, True)
        assert not send_request(server, "/_api/node").json["sql"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, True),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (datetime(2024, 7, 1, tzinfo=UTC), "2024-07-01T00:00:00Z"),
        (datetime(2024, 7, 1), "2024-07-01T00:00:00"),
        (date(2024, 7, 1), "2024-07-01"),
        ([1, b"x"], [1, {"base64": "eA==", "size": 1}]),
        ({"a": {"b": None}}, {"a": {"b": None}}),
        (complex(1), "(1+0j)"),
    ],
)
def test_cell_values_are_converted_to_json(value: object, shown: object) -> None:
    assert cell_value(value) == shown


def test_payload_cells_are_decoded_by_their_encoding() -> None:
    rows = pa.table(
        {
            "payload": [b"21.5", (42).to_bytes(4, "little"), b"\x00", b"x" * 5000, None],
            "encoding": ["zenoh/bytes", "zenoh/serialized;int32", "image/png", "text/plain", None],
            "attachment": [b"{}", b"\xff", None, b"", None],
        }
    )
    shown = result_document(rows)["rows"]
    assert isinstance(shown, list)
    found = list(zip(*shown, strict=True))
    assert found[0] == (
        {"text": "21.5"},
        {"text": "42"},
        {"base64": "AA==", "size": 1},
        {"text": "x" * 4096},
        None,
    )
    assert found[2] == ({"text": "{}"}, {"base64": "/w==", "size": 1}, None, {"text": ""}, None)
    twice = pa.table([pa.array([b"a"]), pa.array([b"b"])], ["payload", "payload"])
    assert result_document(twice)["rows"] == [({"text": "a"}, {"text": "b"})]
