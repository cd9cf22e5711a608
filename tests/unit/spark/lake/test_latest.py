"""The order of stamps; tests/spark/test_lake_latest.py tests the table."""

from zenspark.spark.lake.latest import SIGN, STAMP_ID_DIGITS
from zenspark.spark.lake.shapes import LATEST


def test_with_the_sign_turned_round_signed_numbers_are_ordered_as_unsigned_ones() -> None:
    unsigned = [0, 1, 2**63 - 1, 2**63, 2**64 - 1]
    signed = [number - 2**64 if number >= 2**63 else number for number in unsigned]
    turned = [number ^ SIGN for number in signed]
    assert turned == sorted(turned)


def test_the_longest_id_of_a_clock_fits() -> None:
    assert len(f"{2**128 - 1:x}") == STAMP_ID_DIGITS
    assert LATEST.partitions.names == ["part"]
