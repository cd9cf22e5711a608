"""The names users import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import zenspark.journal


@pytest.mark.parametrize("name", zenspark.journal.__all__)
def test_public_names_are_exported(name: str) -> None:
    assert getattr(zenspark.journal, name).__name__ == name


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = zenspark.journal.nonsense


@pytest.mark.slow
def test_reading_imports_no_session() -> None:
    script = "import sys, zenspark.journal; print([name for name in sys.modules if name.startswith({names})])"
    script = script.format(names=("zenspark.api", "zenspark.engine"))
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
