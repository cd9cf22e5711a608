"""Memory of columns belongs to one thread at a time."""

from __future__ import annotations

import pytest

from zenspark.errors import UsageError
from zenspark.wire.columns.memory import check_idle


def test_what_one_thread_works_on_is_not_for_another() -> None:
    with pytest.raises(UsageError, match="another thread"):
        check_idle(True)
