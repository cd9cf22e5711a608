"""Clients that come and go leave a router as it was: for a moment here, for ten minutes behind `make soak-network`."""

from __future__ import annotations

import os

import pytest

from tests.growth import table, verdicts

pytest.importorskip("zenoh")

from tests.hostile.soak import LATENCY, MEASURES, run, summary

SECONDS = float(os.environ.get("ZENSPARK_SOAK_NETWORK_SECONDS", "15"))


@pytest.mark.interop
@pytest.mark.nightly
def test_router_resources_do_not_grow_while_clients_come_and_go() -> None:
    outcome = run(SECONDS)
    results = verdicts(MEASURES, outcome.measured)
    print(f"\n{summary(outcome, SECONDS)}\n{table(results)}")
    assert outcome.unreplied == 0
    assert outcome.left <= 0
    assert "Traceback" not in outcome.log, outcome.log[-5000:]
    assert outcome.done["resets"] > 0
    # other tests on the machine change the latency
    others = [verdict for verdict in results if verdict.measure is not LATENCY]
    assert [verdict.measure.name for verdict in others if verdict.has_grown] == []
