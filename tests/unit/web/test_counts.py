"""Counts of the server."""

from __future__ import annotations

from zenspark.web.counts import Histogram, HttpCounts


def test_counts() -> None:
    counts = HttpCounts()
    counts.request("api", 200)
    counts.request("api", 200)
    counts.disconnect("stalled")
    counts.refuse("origin")
    assert counts.requests == {("api", 200): 2}
    assert (counts.disconnected, counts.refused) == ({"stalled": 1}, {"origin": 1})


def test_histogram_counts_values_by_bucket() -> None:
    histogram = Histogram((1.0, 2.0))
    for seconds in (0.0, 1.0, 1.5, 9.0):
        histogram.add(seconds)
    assert histogram.read() == ([2, 1, 1], 11.5)
