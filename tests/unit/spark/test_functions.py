"""The functions as Arrow UDFs; tests/spark/test_functions.py runs them."""

from zenspark.spark.functions import FUNCTIONS
from zenspark.sql.functions import FUNCTION_NAMES


def test_sql_names_are_those_of_python() -> None:
    assert tuple(function.func.__name__ for function in FUNCTIONS) == FUNCTION_NAMES
