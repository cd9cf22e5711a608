"""`zenspark.shm` is a module of its own."""

import pytest

import zenspark.shm
from zenspark.errors import UsageError


def test_shm_names_raise_usage_error() -> None:
    for name in zenspark.shm.NAMES:
        with pytest.raises(UsageError, match="no shared memory"):
            getattr(zenspark.shm, name)


def test_importing_a_shm_name_raises_import_error() -> None:
    with pytest.raises(ImportError, match="no shared memory"):
        from zenspark.shm import ZShm  # noqa: F401 - that is the point
