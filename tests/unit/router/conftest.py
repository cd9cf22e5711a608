"""What tests of the router share: a network without nodes."""

from __future__ import annotations

import pytest

from tests.unit.router.nodes import Network


@pytest.fixture
def net() -> Network:
    return Network()
