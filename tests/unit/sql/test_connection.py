"""Connections of the embedded engine; test_statement.py tests what they refuse."""

from __future__ import annotations

import pyarrow as pa
import pytest

from zenspark.errors import UsageError
from zenspark.sql.connection import FunctionErrors, connect, register_functions, register_tables
from zenspark.sql.tables import ArrowScan


def test_rows_of_arrow_are_a_table() -> None:
    connection = connect()
    try:
        register_functions(connection)
        register_tables(connection, {"samples": ArrowScan(pa.table({"key": ["a", "b"]}))})
        found = connection.execute("select key from samples where zenoh_key_match(key, 'a')").fetchall()
    finally:
        connection.close()
    assert found == [("a",)]


def test_the_first_error_of_a_function_is_remembered() -> None:
    errors = FunctionErrors()

    def fail(column: pa.Array) -> pa.Array:
        raise UsageError(f"{len(column)} rows")

    column = pa.chunked_array([["a"], ["b"]])
    for _ in range(2):
        with pytest.raises(UsageError):
            errors.watch(fail)(column)
    assert str(errors.first) == "2 rows"


def test_variables_of_the_program_are_not_tables() -> None:
    mine = pa.table({"word": ["xyzzy"]})
    connection = connect()
    try:
        with pytest.raises(Exception, match="mine does not exist"):
            connection.sql("select * from mine")
    finally:
        connection.close()
    assert mine.num_rows == 1
