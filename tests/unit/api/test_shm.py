import pytest

from zenspark.api import shm
from zenspark.errors import UsageError


@pytest.mark.parametrize("name", shm.NAMES)
def test_every_name_explains_itself(name: str) -> None:
    with pytest.raises(UsageError, match=f"zenspark.shm.{name}: zenspark offers no shared memory"):
        getattr(shm, name)


def test_importing_a_name_explains_it_too() -> None:
    with pytest.raises(ImportError, match="no shared memory"):
        from zenspark.api.shm import ZShm  # noqa: F401 - that is the point


def test_other_names_are_just_missing() -> None:
    assert not hasattr(shm, "something")
