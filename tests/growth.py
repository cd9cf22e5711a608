"""Whether something grows that must not: medians of a measure early and late in a soak, and the table of them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

TOLERANCE = 1.2
"""Grown is what is so many times larger than before, and by more than its slack besides."""


class Measure(NamedTuple):
    """Something that must not grow."""

    name: str
    unit: str
    slack: float
    """By so much it may be larger: noise, which counts where there is little."""


class Verdict(NamedTuple):
    """Medians of a measure in the second and the last quarter of the time, and its greatest value."""

    measure: Measure
    before: float
    after: float
    greatest: float

    @property
    def has_grown(self) -> bool:
        return self.after > self.before * TOLERANCE and self.after > self.before + self.measure.slack


def verdicts(measures: Sequence[Measure], measured: Mapping[str, Sequence[float]]) -> list[Verdict]:
    """Compare the last quarter of the values of each measure with the second."""
    found = []
    for measure in measures:
        values = measured[measure.name]
        quarter = max(1, len(values) // 4)
        before, after = statistics.median(values[quarter : 2 * quarter]), statistics.median(values[-quarter:])
        found.append(Verdict(measure, before, after, max(values)))
    return found


def table(found: Sequence[Verdict]) -> str:
    """The figures, as the documents have them."""
    lines = ["| | second quarter | last quarter | greatest | |", "|---|---|---|---|---|"]
    for verdict in found:
        figures = (f"{value:,.1f}" for value in (verdict.before, verdict.after, verdict.greatest))
        word = "**grows**" if verdict.has_grown else "flat"
        lines.append(f"| {verdict.measure.name} ({verdict.measure.unit}) | {' | '.join(figures)} | {word} |")
    return "\n".join(lines)
