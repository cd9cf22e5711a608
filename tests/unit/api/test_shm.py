import pytest

from zenspark.api import shm
from zenspark.errors import UsageError


@pytest.mark.parametrize("name", shm.NAMES)
def test_shm_names_raise_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match=f"zenspark.shm.{name}: zenspark offers no shared memory"):
        getattr(shm, name)


def test_importing_a_shm_name_raises_import_error() -> None:
    with pytest.raises(ImportError, match="no shared memory"):
        from zenspark.api.shm import ZShm  # noqa: F401 - that is the point


def test_unknown_names_of_shm_are_missing() -> None:
    assert not hasattr(shm, "something")
