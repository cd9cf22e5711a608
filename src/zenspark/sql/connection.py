"""A connection of the embedded engine that can read the tables of one query, and nothing else.

Every query has a connection of its own, to a database in memory: opening one takes some milliseconds, queries in
several threads are independent, and nothing is left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import duckdb
import pyarrow as pa

from zenspark.errors import UsageError
from zenspark.sql import functions
from zenspark.sql.tables import ArrowScan, Scan

CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # variables of this program are not tables
    "temp_directory": "",  # nothing is written, not even rows that do not fit into memory
    "default_null_order": "nulls_first_on_asc_last_on_desc",  # as Spark orders
}
DEFAULT_MEMORY_LIMIT = "2GB"
"""Memory of one query: it fails beyond that, rather than take memory that other programs on the machine need."""
NTP64_FUNCTION = "_zenoh_ntp64"
NTP64_MACRO = (
    f"create macro zenoh_ntp64_to_timestamp(ntp64)"
    f" as {NTP64_FUNCTION}((cast(ntp64 as hugeint) & 18446744073709551615::hugeint)::ubigint)"
)
"""The time is unsigned in a signed column, and a literal may have either form."""

ArrowFunction = Callable[..., pa.Array]


class FunctionErrors:
    """The error that an SQL function in Python raised: the engine passes on only its text."""

    def __init__(self) -> None:
        self.first: UsageError | None = None

    def watch(self, function: ArrowFunction) -> ArrowFunction:
        """Make a function for the engine that takes chunked columns, and records an error."""

        @wraps(function)  # the engine counts the parameters of its signature
        def call(*columns: pa.ChunkedArray) -> pa.Array:
            try:
                return function(*(column.combine_chunks() for column in columns))
            except UsageError as error:
                self.first = self.first or error
                raise

        return call


def connect(memory_limit: str = DEFAULT_MEMORY_LIMIT) -> duckdb.DuckDBPyConnection:
    """Open a connection to an empty database."""
    connection = duckdb.connect(":memory:", config={**CONFIG, "memory_limit": memory_limit})
    connection.execute("set TimeZone = 'UTC'")  # the setting exists only once there is a connection
    return connection


def register_functions(connection: duckdb.DuckDBPyConnection) -> FunctionErrors:
    """Register the functions on keys, payloads and timestamps."""
    errors = FunctionErrors()
    make: Any = connection.create_function

    def add(name: str, function: ArrowFunction, parameters: list[str], result: str) -> None:
        make(name, errors.watch(function), parameters, result, type="arrow", null_handling="special")

    for function in functions.KEY_FUNCTIONS:
        add(function.__name__, function, ["VARCHAR", "VARCHAR"], "BOOLEAN")
    add("zenoh_decode_payload", functions.zenoh_decode_payload, ["VARCHAR", "BLOB"], "VARCHAR")
    add(NTP64_FUNCTION, functions.zenoh_ntp64_to_timestamp, ["UBIGINT"], "TIMESTAMPTZ")
    connection.execute(NTP64_MACRO)
    return errors


def register_tables(connection: duckdb.DuckDBPyConnection, scans: Mapping[str, Scan]) -> None:
    """Make the tables of a query, then lock the connection: no other file, no other setting, no change."""
    paths = [path for scan in scans.values() if not isinstance(scan, ArrowScan) for path in scan.paths]
    connection.execute("set allowed_paths = ?", [paths])
    connection.execute("set enable_external_access = false")
    for name, scan in scans.items():
        if isinstance(scan, ArrowScan):
            connection.register(name, scan.rows)
        else:
            connection.execute(f"create view {name} as {scan.select}")
    connection.execute("set lock_configuration = true")
    connection.execute("begin transaction read only")
