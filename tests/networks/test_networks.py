"""Random networks of zenspark and eclipse-zenoh: a few seeds here, hundreds behind `make networks`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.networks.processes import Pool
from tests.networks.scenario import scenario
from tests.networks.search import Judge

pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as processes:
        yield processes


@pytest.mark.parametrize("seed", range(1, 13))
def test_everything_arrives_once_where_it_must(seed: int, pool: Pool) -> None:
    verdict = Judge(scenario(seed), pool).judge()
    assert not verdict.findings, str(verdict)
