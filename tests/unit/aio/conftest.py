"""What tests of sessions share: a router with the synchronous API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.api.sessions import listening
from zenspark.api.session import Session


@pytest.fixture
def router() -> Iterator[Session]:
    with listening("router") as session:
        yield session
