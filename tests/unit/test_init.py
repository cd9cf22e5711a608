"""The names users import."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import zenspark


def test_version_is_one_a_package_index_accepts() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", zenspark.__version__)


def test_says_which_build_runs() -> None:
    assert zenspark.build_kind() in ("compiled", "interpreted")


@pytest.mark.parametrize("name", [name for name in zenspark.__all__ if not name.startswith("_")])
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(zenspark, name) is not None
    assert name in dir(zenspark)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = zenspark.nonsense


def test_importing_the_package_loads_none_of_it() -> None:
    script = "import sys, zenspark; print([name for name in sys.modules if name.startswith('zenspark.')])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "['zenspark._pure']"
