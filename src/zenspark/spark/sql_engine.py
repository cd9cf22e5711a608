"""SparkEngine: runs SQL queries about a lake in Spark, with the results of the embedded engine (`zenspark.sql`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import chain
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from zenspark.errors import UsageError
from zenspark.lake.lake import TABLE_SPECS
from zenspark.spark.functions import register
from zenspark.spark.lake import Lake
from zenspark.sql.messages import MAX_MESSAGE_CHARACTERS
from zenspark.sql.statement import ONLY_QUERIES
from zenspark.sql.tables import TableInfo, describe_tables

LOGICAL_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
QUERY_COMMANDS = frozenset(
    {
        "DescribeColumnCommand",
        "DescribeQueryCommand",
        "DescribeRelation",
        "DescribeTableCommand",
        "ExplainCommand",
        "ShowColumns",
        "ShowFunctions",
        "ShowTables",
        "ShowTablesCommand",
    }
)
"""Commands of Spark that only return information."""
CAUSE = re.compile(r"zenspark\.errors\.\w+: (.+)")
"""The error of a function in Python, in the Java stack trace that Spark makes of it."""


class SparkEngine:
    """Runs queries about one lake in a Spark session."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self.spark = spark
        self.lake = lake
        register(spark)

    def tables(self) -> list[TableInfo]:
        """Describe the tables."""
        self.lake.check()
        return describe_tables(self.lake)

    @contextmanager
    def open(self, text: str) -> Iterator[pa.RecordBatchReader]:
        """Run a query, and yield its rows batch by batch. Raises UsageError."""
        rows = self.query(text)
        yield pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())

    def query(self, text: str) -> pa.Table:
        """Run a query. Raises UsageError."""
        self.lake.check()
        with errors_as_one_line(self.lake):
            self._check(text)
            return self.dataframe(text).toArrow()

    def dataframe(self, text: str) -> DataFrame:
        """Plan a query; registers only the tables whose names occur in it."""
        for name in self.lake.tables():
            if re.search(rf"\b(?:{name}|show)\b", text, re.IGNORECASE):
                self.lake.read(self.spark, name).createOrReplaceTempView(name)
        return self.spark.sql(text)

    def _check(self, text: str) -> None:
        """Reject a statement that is not a query, by the plan that Spark makes of it."""
        session: Any = self.spark._jsparkSession
        plan = session.sessionState().sqlParser().parsePlan(text)
        if plan.getClass().getSimpleName() in QUERY_COMMANDS:
            return
        jvm: Any = self.spark._jvm
        commands = [jvm.java.lang.Class.forName(f"{LOGICAL_PLANS}.{kind}") for kind in ("Command", "ParsedStatement")]
        if any(kind.isInstance(node) for node in _plan_nodes(plan) for kind in commands):
            raise UsageError(ONLY_QUERIES)


def _plan_nodes(plan: Any) -> Iterator[Any]:  # noqa: ANN401 - an object of Java
    """Yield a plan and everything below it: an INSERT may follow a WITH."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _plan_nodes(children.apply(index))


@contextmanager
def errors_as_one_line(lake: Lake) -> Iterator[None]:
    """Convert Spark errors of a query to a UsageError in one line."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise UsageError(format_error(error, lake.tables())) from None


def format_error(error: PySparkException | Py4JJavaError, tables: list[str]) -> str:
    """Format a Spark error in one line, with the closest name for an unknown one."""
    cause = CAUSE.search(str(error))
    if cause:
        return cause[1].strip()
    if isinstance(error, Py4JJavaError):
        return f"the query failed: {_one_line(str(error.java_exception))}"
    parameters = error.getMessageParameters() or {}
    match (error.getCondition() or "").split(".")[0]:
        case "TABLE_OR_VIEW_NOT_FOUND":
            return _unknown("table", str(parameters.get("relationName", "")), tables)
        case "UNRESOLVED_COLUMN":
            columns = chain.from_iterable(TABLE_SPECS[name].schema.names for name in tables)
            return _unknown("column", str(parameters.get("objectName", "")), list(dict.fromkeys(columns)))
        case "UNRESOLVED_ROUTINE":
            return f"there is no function {str(parameters.get('routineName', '')).replace('`', '')}"
    kind = "cannot be understood" if isinstance(error, AnalysisException) else "failed"
    return f"the query {kind}: {_one_line(str(error))}"


def _unknown(what: str, quoted: str, known: list[str]) -> str:
    name = quoted.replace("`", "").split(".")[-1]
    near = get_close_matches(name.lower(), known, 1)
    return f"there is no {what} {name}" + (f": did you mean {near[0]}?" if near else f"; there are {', '.join(known)}")


def _one_line(text: str) -> str:
    plain = re.sub(r"\s+", " ", text.split("\n\nJVM stacktrace")[0].split("\n\n==")[0].split("\n\tat ")[0]).strip()
    return plain if len(plain) <= MAX_MESSAGE_CHARACTERS else f"{plain[:MAX_MESSAGE_CHARACTERS]}..."
