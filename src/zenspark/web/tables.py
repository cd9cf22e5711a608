"""Tables of the lake and SQL over them: `/_api/tables` and `/_api/sql`."""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Sequence
from datetime import date, datetime
from datetime import time as time_of_day
from http import HTTPStatus
from typing import Any

import msgspec
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from zenspark.sql.payloads import decode_result_column
from zenspark.web.body import read_json
from zenspark.web.context import WebContext
from zenspark.web.http_error import HttpError
from zenspark.web.node_info import json_response
from zenspark.web.protocols import SqlEngine
from zenspark.web.values import Document, iso

DEFAULT_ROWS, MAX_TABLE_ROWS = 1000, 10_000
"""Rows of a result: without `limit`, and at most."""
SQL_QUERY_TIMEOUT_SECONDS = 60.0
"""Timeout in seconds of an SQL query."""
MAX_CELL_BYTES = 4096
"""Bytes of a binary cell that are sent to the page."""


class SqlRequest(msgspec.Struct, frozen=True):
    """A query of the page."""

    query: str
    limit: int = DEFAULT_ROWS


class TablesApi:
    """Serves `/_api/tables` and `/_api/sql`."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    async def tables(self, request: Request) -> Response:
        """List the tables with their columns and sizes."""
        engine = self._engine()
        tables = await self._context.run(engine.tables)
        return json_response({"tables": [table_document(table) for table in tables]})

    async def sql(self, request: Request) -> Response:
        """Run a query; other statements are refused."""
        body = await read_json(request, SqlRequest)
        return json_response(await self._context.run(self._run, self._engine(), body))

    def _run(self, engine: SqlEngine, body: SqlRequest) -> Document:
        limit = min(max(body.limit, 1), MAX_TABLE_ROWS)
        began = time.monotonic()
        table = engine.query(body.query, limit + 1, SQL_QUERY_TIMEOUT_SECONDS)
        elapsed = time.monotonic() - began
        return {**result_document(table.slice(0, limit)), "elapsed_ms": round(elapsed * 1000, 1)} | {
            "truncated": table.num_rows > limit
        }

    def _engine(self) -> SqlEngine:
        if self._context.sql is None:
            raise HttpError(
                HTTPStatus.NOT_FOUND, "this node has no lake to query: start it with zenspark up --lake PATH"
            )
        return self._context.sql


def table_document(table: Any) -> Document:  # noqa: ANN401 - a struct of the SQL package
    """Convert a table to its document; numbers that are not known are null."""
    columns = [{"name": str(column.name), "type": str(column.type)} for column in table.columns]
    sizes = {name: getattr(table, name, None) for name in ("rows", "bytes", "files")}
    return {"name": table.name, "columns": columns, **sizes}


def result_document(table: pa.Table) -> Document:
    """Convert a result to columns and rows of JSON values."""
    columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
    cells = [_cell_values(table, column_index) for column_index in range(table.num_columns)]
    rows: Sequence[tuple[object, ...]] = list(zip(*cells, strict=True)) if cells else []
    return {"columns": columns, "rows": rows}


def _cell_values(table: pa.Table, column_index: int) -> list[object]:
    column = table.column(column_index)
    if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
        return [cell_value(value) for value in column.to_pylist()]
    return [
        cell_value(value) if text is None else {"text": text[:MAX_CELL_BYTES]}
        for value, text in zip(column.to_pylist(), decode_result_column(table, column_index), strict=True)
    ]


def cell_value(value: object) -> object:
    """Convert a cell to a JSON value: bytes as base64 and size, times in ISO 8601, large integers as text."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) < 1 << 53 else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            return {"base64": base64.b64encode(value[:MAX_CELL_BYTES]).decode(), "size": len(value)}
        case datetime():
            return iso(value) if value.tzinfo else value.isoformat()
        case date() | time_of_day():
            return value.isoformat()
        case list() | tuple():
            return [cell_value(item) for item in value]
        case dict():
            return {str(name): cell_value(item) for name, item in value.items()}
    return str(value)
