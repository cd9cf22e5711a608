"""Random networks of zenspark and eclipse-zenoh: a few seeds here, hundreds behind `make networks`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.networks.processes import Pool
from tests.networks.scenario import scenario
from tests.networks.search import Judge

pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

PEERS_WITH_GOSSIP_AT_A_ROUTER_WITHOUT = 2138
"""Peers with gossip at a router without: it knows their links, and carries between those that have none."""
PEERS_AT_THE_ENTRY_OF_A_RING = 2237
"""Two peers of eclipse-zenoh without gossip at one router, which is in a ring of relays."""
SEEDS = (*range(1, 6), PEERS_WITH_GOSSIP_AT_A_ROUTER_WITHOUT, PEERS_AT_THE_ENTRY_OF_A_RING)
MORE_SEEDS = range(6, 13)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as processes:
        yield processes


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in MORE_SEEDS)])
def test_random_networks_deliver_everything_once(seed: int, pool: Pool) -> None:
    verdict = Judge(scenario(seed), pool).judge()
    assert not verdict.findings, str(verdict)
