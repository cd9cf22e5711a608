from __future__ import annotations

from pathlib import Path

import pytest

from zenspark.spark.spark_home import LINKED_DIRECTORIES, spark_home


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An installed PySpark."""
    path = tmp_path / "site-packages" / "pyspark"
    for name in (*LINKED_DIRECTORIES, "python/lib"):
        (path / name).mkdir(parents=True)
    (path / "python" / "lib" / "pyspark.zip").touch()
    (path / "jars" / "spark.jar").touch()
    return path


def test_home_has_the_jars_and_no_archive_of_python(package: Path, tmp_path: Path) -> None:
    home = spark_home({}, package, tmp_path / "cache")
    assert home is not None
    assert home.parent == tmp_path / "cache"
    assert (home / "jars" / "spark.jar").is_file()
    assert not (home / "python").exists()
    assert spark_home({}, package, tmp_path / "cache") == home
    assert list(home.parent.iterdir()) == [home]


def test_another_package_has_another_home(package: Path, tmp_path: Path) -> None:
    other = package.rename(package.with_name("other"))
    homes = {spark_home({}, each, tmp_path / "cache") for each in (other, other.rename(package))}
    assert len(homes) == 2


def test_home_of_the_user_is_kept(package: Path, tmp_path: Path) -> None:
    assert spark_home({"SPARK_HOME": "/opt/spark"}, package, tmp_path / "cache") is None
    assert not (tmp_path / "cache").exists()


def test_package_without_jars_has_no_spark_home(package: Path, tmp_path: Path) -> None:
    (package / "jars" / "spark.jar").unlink()
    (package / "jars").rmdir()
    assert spark_home({}, package, tmp_path / "cache") is None


def test_unwritable_cache_gives_no_spark_home(package: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a directory should be")
    assert spark_home({}, package, tmp_path / "cache") is None


def test_a_home_that_another_process_made_meanwhile_is_used(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def late(path: Path, target: Path) -> Path:
        rename(path, target)
        path.mkdir()
        (path / "bin").mkdir()
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", late)
    home = spark_home({}, package, tmp_path / "cache")
    assert home is not None
    assert (home / "jars" / "spark.jar").is_file()
    assert list(home.parent.iterdir()) == [home]
