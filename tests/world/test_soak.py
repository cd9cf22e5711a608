"""Disk, memory, files and lag stay as they are under load.

For forty seconds here, two minutes in `make nightly`, half an hour in `make soak-pipeline`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.growth import Measure, Verdict, table, verdicts
from tests.world.soak import MEASURES, Soak, run

pytest.importorskip("zenoh")

SECONDS = float(os.environ.get("ZENSPARK_SOAK_SECONDS", "40"))
RATE = float(os.environ.get("ZENSPARK_SOAK_RATE", "5000"))


@pytest.mark.spark
@pytest.mark.interop
def test_nothing_grows_under_load(tmp_path: Path) -> None:
    outcome = run(Soak(SECONDS, RATE), tmp_path)
    found = verdicts(MEASURES, outcome.measured)
    print(f"\n{outcome.sent} messages in {SECONDS:.0f} s\n{table(found)}")
    assert outcome.ingested == outcome.sent
    assert outcome.sent > SECONDS * RATE / 2  # or else this was no load
    assert [verdict.measure.name for verdict in found if verdict.has_grown] == []


def test_growth_is_found() -> None:
    """By the comparison itself: what grows by a tenth of its size each tenth of the time has grown."""
    flat = {measure.name: [100.0 + number % 7 for number in range(40)] for measure in MEASURES}
    grown = MEASURES[4]
    found = verdicts(MEASURES, flat | {grown.name: [100.0 + 10 * number for number in range(40)]})
    assert [verdict.measure for verdict in found if verdict.has_grown] == [grown]
    assert not Verdict(Measure("files", "files", 10), 1, 9, 9).has_grown  # little of it is noise
