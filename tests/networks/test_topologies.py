"""Links made by gossip in topologies of a few nodes: a sample here, all up to five nodes behind `make topologies`."""

from __future__ import annotations

import random

import pytest

from tests.networks.processes import Pool
from tests.networks.topologies import compare, shapes

SAMPLE = 4


def test_topologies_are_counted_once() -> None:
    assert [len(list(shapes(size))) for size in (1, 2, 3, 4)] == [2, 5, 16, 79]


@pytest.mark.interop
def test_links_made_by_gossip_are_those_of_eclipse_zenoh() -> None:
    """A peer at two linked routers is told of peers, not of routers; then some others by lot."""
    pytest.importorskip("zenoh")
    two_routers = (("router", "router", "peer"), ((1, 0), (2, 0)))
    drawn = random.Random(1).sample([shape for size in (3, 4, 5) for shape in shapes(size)], SAMPLE)
    with Pool() as pool:
        for shape in (two_routers, *drawn):
            comparison = compare(shape, pool)  # type: ignore[arg-type]
            assert not comparison.problems, str(comparison)
