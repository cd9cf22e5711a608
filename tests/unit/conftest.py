"""What tests of sessions share: a router and its client, and a peer that is alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.api.sessions import connected, listening
from zenspark.api.session import Session


@pytest.fixture
def router() -> Iterator[Session]:
    with listening("router") as session:
        yield session


@pytest.fixture
def client(router: Session) -> Iterator[Session]:
    with connected("client", router) as session:
        yield session


@pytest.fixture
def peer() -> Iterator[Session]:
    with listening("peer") as session:
        yield session
