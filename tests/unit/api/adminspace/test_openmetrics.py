"""Families and samples as OpenMetrics text."""

from __future__ import annotations

from zenspark.api.adminspace.openmetrics import Family, format_families, format_labels, samples_by_label


def test_labels_are_escaped() -> None:
    assert format_labels({"lake": 'a"b\\c\nd'}) == '{lake="a\\"b\\\\c\\nd"}'
    assert format_labels({}) == ""


def test_samples_follow_the_header_of_their_metric_family() -> None:
    rows = Family("x_rows", "counter", "Rows.", ("lake",))
    other = Family("x_up", "gauge", "Whether it runs.")
    seconds = Family("x_seconds", "histogram", "Durations.")
    samples = [(other, {}, 1.0), *samples_by_label(rows, "lake", {"b": 2, "a": 0.5})]
    assert list(format_families([rows, other, seconds], samples, {seconds: ["x_seconds_sum 3"]})) == [
        "# HELP x_rows Rows.",
        "# TYPE x_rows counter",
        'x_rows_total{lake="a"} 0.5',
        'x_rows_total{lake="b"} 2',
        "# HELP x_up Whether it runs.",
        "# TYPE x_up gauge",
        "x_up 1",
        "# HELP x_seconds Durations.",
        "# TYPE x_seconds histogram",
        "x_seconds_sum 3",
        "# EOF",
    ]
