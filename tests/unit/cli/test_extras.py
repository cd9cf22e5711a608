import tomllib
from pathlib import Path

from zenspark.cli.extras import SPARK_EXTRA, describe_missing

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_missing_package_of_the_spark_extra_names_the_install_command() -> None:
    error = ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql")
    assert describe_missing(error) == "needs pyspark: pip install 'zenspark[spark]'"


def test_missing_package_outside_of_the_extra_is_not_described() -> None:
    assert describe_missing(ModuleNotFoundError("No module named 'foo'", name="foo")) is None
    assert describe_missing(ModuleNotFoundError("No module")) is None


def test_every_package_of_the_extra_is_known() -> None:
    listed = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]["spark"]
    assert {name.partition(">")[0] for name in listed} <= SPARK_EXTRA
