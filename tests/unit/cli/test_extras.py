import tomllib
from pathlib import Path

from zenspark.cli.extras import SPARK_EXTRA, describe_missing

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_a_package_of_the_extra_says_what_to_install() -> None:
    error = ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql")
    assert describe_missing(error) == "needs pyspark: pip install 'zenspark[spark]'"


def test_another_package_is_a_mistake_of_ours() -> None:
    assert describe_missing(ModuleNotFoundError("No module named 'foo'", name="foo")) is None
    assert describe_missing(ModuleNotFoundError("No module")) is None


def test_every_package_of_the_extra_is_known() -> None:
    listed = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]["spark"]
    assert {name.partition(">")[0] for name in listed} <= SPARK_EXTRA
