"""The names users import."""

import subprocess
import sys

import pytest

import zenspark.lake


@pytest.mark.parametrize("name", zenspark.lake.__all__)
def test_public_names_are_exported(name: str) -> None:
    assert getattr(zenspark.lake, name).__name__ == name


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = zenspark.lake.nonsense


@pytest.mark.slow
def test_neither_lake_nor_storage_loads_pyspark() -> None:
    script = "import sys, zenspark.lake, zenspark.storage, zenspark.storage.manager; zenspark.lake.Lake; "
    script += "print('pyspark' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "False"
