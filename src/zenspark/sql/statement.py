"""Checks of a statement before it runs: it must be one query, about the tables of the lake and nothing else.

Three barriers keep a query from reading or writing anything but the lake. This module rejects statements that
are not queries, by the syntax tree. The connection (`zenspark.sql.connection`) may open no file but those of the
tables, and its transaction is read-only. Any of them would suffice for most statements.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import duckdb

from zenspark.errors import UsageError
from zenspark.sql.dialect import Translation, translate
from zenspark.sql.messages import describe_error

ONLY_QUERIES = (
    "only read-only SQL is allowed: select, with ... select, values, describe, summarize and show tables;"
    " nothing in a lake can be changed by SQL"
)
TABLE_FUNCTIONS = frozenset({"generate_series", "range", "unnest", "json_each", "json_tree", "regexp_split_to_table"})
"""Table functions that read nothing outside the query."""
REFUSED_FUNCTIONS = frozenset({"current_setting", "getvariable", "nextval", "sleep_ms", "write_log"})
"""Scalar functions that are no part of a query."""
SELECT_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""Kinds of query nodes that only read; others change tables."""


class Statement(NamedTuple):
    """A statement that was checked."""

    translation: Translation
    tables: frozenset[str]
    """Names that it uses as tables, in lower case; includes those that it defines itself."""
    shows_tables: bool
    """Whether it is `show tables`."""


def parse_statement(connection: duckdb.DuckDBPyConnection, text: str) -> Statement:
    """Parse a statement; raises UsageError if it is not exactly one query."""
    translation = translate(text)
    try:
        statements = connection.extract_statements(translation.text)
    except duckdb.Error as error:
        raise UsageError(describe_error(error, translation)) from None
    if not statements:
        raise UsageError("the statement is empty: expected for example select key, received_at from latest")
    if len(statements) > 1:
        raise UsageError(f"expected one statement, found {len(statements)}: run them separately")
    if statements[0].type != duckdb.StatementType.SELECT:
        raise UsageError(ONLY_QUERIES)
    row = connection.execute("select json_serialize_sql(?)", [translation.text]).fetchall()[0]
    tree = json.loads(row[0])
    if tree["error"]:
        raise UsageError(ONLY_QUERIES)
    return _check(translation, list(_nodes(tree["statements"])))


def _check(translation: Translation, nodes: list[dict[str, Any]]) -> Statement:
    tables: set[str] = set()
    shows_tables = False
    for node in nodes:
        kind = str(node.get("type", ""))
        if kind.endswith("_NODE") and kind not in SELECT_NODES:
            raise UsageError(ONLY_QUERIES)
        if kind == "TABLE_FUNCTION":
            _check_table_function(node)
        elif kind == "BASE_TABLE":
            tables.add(_check_table(node))
        elif kind == "SHOW_REF":
            shows_tables |= _is_show_tables(node)
        elif node.get("class") == "FUNCTION":
            _check_function(str(node["function_name"]).lower())
        elif node.get("class") == "PARAMETER":
            raise UsageError("a query has no parameters: write the value in place of ? or $1")
    return Statement(translation, frozenset(tables), shows_tables)


def _check_table_function(node: dict[str, Any]) -> None:
    name = str(node["function"]["function_name"]).lower()
    if name not in TABLE_FUNCTIONS:
        raise UsageError(f"{name} cannot be used: only the tables of the lake can be read")


def _check_function(name: str) -> None:
    if name in REFUSED_FUNCTIONS:
        raise UsageError(f"{name} cannot be used in a query")


def _check_table(node: dict[str, Any]) -> str:
    name = str(node["table_name"]).lower()
    schema = str(node.get("schema_name") or "").lower()
    if schema or node.get("catalog_name"):
        raise UsageError(f"there is no table {schema}.{name}: only the tables of the lake can be read")
    return name


def _is_show_tables(node: dict[str, Any]) -> bool:
    """Whether it is `show tables`; of its other forms only those about a query or a table can be used."""
    if node.get("query") is not None:
        return False
    name = str(node.get("table_name", "")).strip('"').lower()
    if name in ("tables", "__show_tables_expanded"):
        return True
    raise UsageError(f"show {name} cannot be used: show tables and describe TABLE can")


def _nodes(value: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - a JSON document
    """Yield all objects in a document."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _nodes(inner)
