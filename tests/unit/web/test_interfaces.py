"""What is given to a server fits what it expects."""

from __future__ import annotations

from tests.unit.web.lakes import Flow
from zenspark.web.interfaces import Pipeline


def test_a_pipeline() -> None:
    assert isinstance(Flow(), Pipeline)
    assert not isinstance(object(), Pipeline)
