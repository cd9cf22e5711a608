"""What is given to a server fits what it expects."""

from __future__ import annotations

from tests.unit.web.lakes import FakePipeline
from zenspark.web.protocols import Pipeline


def test_object_with_a_status_method_is_a_pipeline() -> None:
    assert isinstance(FakePipeline(), Pipeline)
    assert not isinstance(object(), Pipeline)
