"""The rows of one recorder in a batch."""

from zenspark.spark.lake.samples import Span


def test_spans_of_several_files_are_one() -> None:
    assert Span(5, 10, 5) | Span(0, 5, 5) | Span(12, 13, 1) == Span(0, 13, 11)
