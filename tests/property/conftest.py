"""Networks that several property tests operate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.property.twin_networks import NAMESPACE, Network, open_network


@pytest.fixture(scope="module", params=[None, NAMESPACE], ids=["plain", "namespace"])
def networks(request: pytest.FixtureRequest) -> Iterator[tuple[Network, Network]]:
    """The same network twice: with fast paths, and with the general ones."""
    with ExitStack() as stack:
        yield (
            open_network(stack, is_general=False, namespace=request.param),
            open_network(stack, is_general=True, namespace=request.param),
        )
