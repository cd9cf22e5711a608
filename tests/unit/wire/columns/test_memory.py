"""Memory of columns belongs to one thread at a time."""

from __future__ import annotations

import pytest

from zenspark.errors import UsageError
from zenspark.wire.columns.memory import check_idle


def test_memory_in_use_by_another_thread_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="another thread"):
        check_idle(True)
