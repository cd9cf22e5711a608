"""Two connected sessions, and a network that loses samples."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.api.sessions import pair
from zenspark.api.ext.advanced.subscriber import (
    SampleRecovery,
)
from zenspark.api.session import Session
from zenspark.types.sample import Sample


@pytest.fixture
def sessions() -> Iterator[tuple[Session, Session]]:
    with pair("peer", "peer") as both:
        yield both


@pytest.fixture
def lossy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advanced subscribers do not see samples with the payload `lost`, unless they request them."""
    on_sample = SampleRecovery.on_sample

    def drop_lost_samples(self: SampleRecovery, sample: Sample) -> None:
        if sample.payload.to_bytes() != b"lost":
            on_sample(self, sample)

    monkeypatch.setattr(SampleRecovery, "on_sample", drop_lost_samples)
