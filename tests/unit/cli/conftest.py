"""Commands that run inside the process of the tests leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.command_process import restored_process


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    with restored_process():
        yield
