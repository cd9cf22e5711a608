"""The order of timestamps in Spark; tests/spark/test_lake_latest.py tests the table."""

from zenspark.lake.derived.resolve import AGGREGATIONS
from zenspark.spark.ingest.latest import SIGN_BIT, Latest


def test_flipped_sign_bit_orders_signed_numbers_as_unsigned() -> None:
    unsigned = [0, 1, 2**63 - 1, 2**63, 2**64 - 1]
    signed = [number - 2**64 if number >= 2**63 else number for number in unsigned]
    turned = [number ^ SIGN_BIT for number in signed]
    assert turned == sorted(turned)


def test_spark_and_arrow_have_the_same_definition() -> None:
    assert isinstance(Latest(), type(AGGREGATIONS["latest"]))
