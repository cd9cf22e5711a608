"""Links made by gossip in topologies of a few nodes: a sample here, all up to five nodes behind `make topologies`."""

from __future__ import annotations

import random

import pytest

from tests.networks.processes import Pool
from tests.networks.topologies import Shape, compare, shapes

ALWAYS: tuple[Shape, ...] = (
    (("router", "router", "peer"), ((1, 0), (2, 0))),
    (("router", "peer", "peer"), ((1, 0), (2, 0), (2, 1))),
)
"""A peer at one of two linked routers must not learn of the other; two linked peers at a router must not get from it
what they get from each other, with and without gossip."""
SAMPLE = 3


def test_topologies_are_counted_once() -> None:
    assert [len(list(shapes(size))) for size in (1, 2, 3, 4)] == [2, 5, 16, 79]


@pytest.mark.interop
def test_links_made_by_gossip_are_those_of_eclipse_zenoh() -> None:
    pytest.importorskip("zenoh")
    drawn = random.Random(1).sample([shape for size in (3, 4, 5) for shape in shapes(size)], SAMPLE)
    with Pool() as pool:
        for shape in (*ALWAYS, *drawn):
            comparison = compare(shape, pool)
            assert not comparison.problems, str(comparison)
