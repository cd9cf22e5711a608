"""`zenspark sql`: queries a lake in Spark SQL."""

from __future__ import annotations

import argparse
import csv
import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from difflib import get_close_matches
from itertools import islice

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from rich.table import Table

from zenspark.cli import Parser
from zenspark.cli.screen import Screen
from zenspark.errors import UsageError
from zenspark.spark.engine import spark_session
from zenspark.spark.functions import register
from zenspark.spark.lake import Lake

DESCRIPTION = """\
Query a lake. Its tables are samples, latest, gaps, traffic, sessions and declarations.

  zenspark sql "select key, zenoh_decode_payload(encoding, payload) as value from latest where key like 'fleet/%'"
  zenspark sql "select prefix, minute, messages, latency_avg_us from traffic order by minute desc limit 10"
  zenspark sql "describe samples"

The functions are zenoh_key_match, zenoh_intersects, zenoh_includes, zenoh_decode_payload and zenoh_ntp64_to_timestamp.
Bytes are shown as text where they are text, and as hexadecimal numbers otherwise."""

MAX_TABLE_ROWS = 1000
"""Maximum rows of the table output; csv and json have no limit."""

Line = tuple[object, ...]


def run(arguments: list[str]) -> int:
    """Run the command. Returns the exit code."""
    given = _parser().parse_args(arguments)
    lake = Lake(given.lake)
    if not lake.exists():
        raise UsageError(f"{given.lake}: there is no lake here; zenspark up makes one, --lake names another place")
    logging.getLogger("SQLQueryContextLogger").disabled = True  # the error is printed below in one line
    spark = spark_session(given.master, "zenspark sql")
    try:
        with errors_as_one_line():
            result = run_query(spark, lake, given.query)
            FORMATS[given.format](result.columns, iterate_rows(result))
    finally:
        spark.stop()
    return 0


def _parser() -> Parser:
    parser = Parser(prog="zenspark sql", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("query", help="SQL query")
    add("--lake", metavar="PLACE", default="lake", help="directory or URI of the lake (default: ./lake)")
    add("--format", choices=list(FORMATS), default="table", help="output format (default: table)")
    add("--master", metavar="URL", default="local[*]", help="Spark master (default: local[*])")
    return parser


def run_query(spark: SparkSession, lake: Lake, query: str) -> DataFrame:
    """Run a query; registers only the tables whose names occur in it."""
    register(spark)
    for name in lake.tables():
        if re.search(rf"\b{name}\b", query, re.IGNORECASE) or re.search(r"\bshow\b", query, re.IGNORECASE):
            lake.read(spark, name).createOrReplaceTempView(name)
    return spark.sql(query)


@contextmanager
def errors_as_one_line() -> Iterator[None]:
    """Convert Spark errors of a query to a UsageError in one line."""
    try:
        yield
    except PySparkException as error:
        raise UsageError(format_error(error)) from None


def format_error(error: PySparkException) -> str:
    """Format a Spark error in one line, with the closest name for an unknown one."""
    parameters = error.getMessageParameters() or {}
    condition = error.getCondition() or ""
    position = f" (line {parameters['line']})" if "line" in parameters else ""
    match condition.split(".")[0]:
        case "TABLE_OR_VIEW_NOT_FOUND":
            name = str(parameters.get("relationName", "")).replace("`", "")
            near = get_close_matches(name, ["samples", "latest", "gaps", "traffic", "sessions", "declarations"], 1)
            hint = (
                f"did you mean {near[0]}?"
                if near
                else "there are samples, latest, gaps, traffic, sessions, declarations"
            )
            return f"there is no table {name}: {hint}"
        case "UNRESOLVED_COLUMN":
            name = str(parameters.get("objectName", "")).replace("`", "")
            there = str(parameters.get("proposal", "")).replace("`", "")
            return f"there is no column {name}" + (f"; there are {there}" if there else "")
    text = re.sub(r"\s+", " ", str(error).split("\n\nJVM stacktrace")[0].split("\n\n==")[0]).strip()
    kind = "cannot be understood" if isinstance(error, AnalysisException) else "failed"
    return f"the query {kind}{position}: {text[:500]}"


def iterate_rows(result: DataFrame) -> Iterator[Line]:
    """Yield rows without collecting all of them in memory."""
    for row in result.toLocalIterator():
        yield tuple(row)


# --- formats ----------------------------------------------------------------------------------------------------------


def format_cell(value: object) -> str:
    """Format a value for people."""
    match value:
        case None:
            return ""
        case bytes() | bytearray():
            return _bytes(bytes(value))
        case datetime():
            return value.isoformat(sep=" ")
        case float():
            return f"{value:.6g}"
    return str(value)


def _bytes(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value.hex()
    return text if text.isprintable() else value.hex()


def print_table(columns: Sequence[str], rows: Iterable[Line]) -> None:
    """Print rows as a table."""
    left = iter(rows)
    table = Table(*columns)
    for row in islice(left, MAX_TABLE_ROWS):
        table.add_row(*map(format_cell, row))
    count = table.row_count
    more = next(left, None) is not None
    screen = Screen()
    screen.print(table)
    screen.print(
        f"the first {count} rows; --format csv gives all" if more else f"{count} row{'' if count == 1 else 's'}"
    )


def print_csv(columns: Sequence[str], rows: Iterable[Line]) -> None:
    """Print rows as CSV with a header line."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([format_cell(value) for value in row] for row in rows)


def print_json(columns: Sequence[str], rows: Iterable[Line]) -> None:
    """Print rows as JSON, one object per line."""
    for row in rows:
        print(json.dumps(dict(zip(columns, map(_plain, row), strict=True)), ensure_ascii=False))


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else format_cell(value)


FORMATS: dict[str, Callable[[Sequence[str], Iterable[Line]], None]] = {
    "table": print_table,
    "csv": print_csv,
    "json": print_json,
}
