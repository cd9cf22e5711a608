"""Errors of Spark in one line; tests/spark/test_sql.py runs queries."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, PySparkException

from zenspark.spark.sql_engine import format_error
from zenspark.sql.messages import MAX_MESSAGE_CHARACTERS

TABLES = ["samples", "latest"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AnalysisException("one\n\ntwo\n\nJVM stacktrace:\n\tat x"), "the query cannot be understood: one two"),
        (PySparkException("broken\n\tat a.b.C"), "the query failed: broken"),
        (
            PySparkException("Traceback\nzenspark.errors.UsageError: key expression 'a//b', position 2: bad\n\tat x"),
            "key expression 'a//b', position 2: bad",
        ),
    ],
)
def test_spark_error_is_formatted_in_one_line(error: PySparkException, expected: str) -> None:
    assert format_error(error, TABLES) == expected


def test_a_long_message_is_shortened() -> None:
    assert len(format_error(PySparkException("x" * 1000), TABLES)) < MAX_MESSAGE_CHARACTERS + 40
