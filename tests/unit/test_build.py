import sys
from importlib.machinery import EXTENSION_SUFFIXES, SourceFileLoader
from pathlib import Path

import pytest

from zenspark import _build
from zenspark._build import SourceFinder, build_kind, choose_build, has_extensions

PURE = {"ZENSPARK_PURE": "1"}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A directory with `both` in two builds, `source` and `extension` in one each."""
    for name in ("both.py", "source.py", f"both{EXTENSION_SUFFIXES[0]}", f"extension{EXTENSION_SUFFIXES[0]}"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def finders(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Python's finders without ours, restored afterwards."""
    finders: list[object] = [finder for finder in sys.meta_path if finder is not SourceFinder]
    monkeypatch.setattr(sys, "meta_path", finders)
    return finders


@pytest.mark.parametrize("name", ["both", "source"])
def test_source_finder_finds_the_source_even_beside_an_extension(package: Path, name: str) -> None:
    spec = SourceFinder.find_spec(f"zenspark.{name}", [str(package)])
    assert spec is not None
    assert isinstance(spec.loader, SourceFileLoader)
    assert spec.origin == str(package / f"{name}.py")


def test_source_finder_searches_every_directory_of_the_package(package: Path) -> None:
    spec = SourceFinder.find_spec("zenspark.both", [str(package / "empty"), str(package)])
    assert spec is not None
    assert spec.origin == str(package / "both.py")


@pytest.mark.parametrize("name", ["zenspark.extension", "other.both", "zensparkle.both", "zenspark"])
def test_source_finder_ignores_other_modules(package: Path, name: str) -> None:
    assert SourceFinder.find_spec(name, [str(package)]) is None


def test_source_finder_without_a_path_finds_nothing() -> None:
    assert SourceFinder.find_spec("zenspark.both", None) is None


def test_source_finder_is_installed_first_and_only_once(finders: list[object]) -> None:
    choose_build(PURE)
    choose_build(PURE)
    assert finders.index(SourceFinder) == 0
    assert finders.count(SourceFinder) == 1


@pytest.mark.parametrize("environment", [{}, {"ZENSPARK_PURE": "0"}])
def test_source_finder_is_not_installed_by_default(finders: list[object], environment: dict[str, str]) -> None:
    choose_build(environment)
    assert SourceFinder not in finders


@pytest.mark.usefixtures("finders")
def test_build_is_interpreted_when_only_source_is_loaded() -> None:
    choose_build(PURE)
    assert build_kind() == "interpreted"


@pytest.mark.usefixtures("finders")
def test_build_is_compiled_with_an_extension_in_the_package(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_build, "__file__", str(package / "_build.py"))
    assert build_kind() == "compiled"


@pytest.mark.usefixtures("finders")
def test_build_is_interpreted_without_an_extension_in_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_build, "__file__", str(tmp_path / "_build.py"))
    assert build_kind() == "interpreted"


def test_extensions_in_subpackages_are_found(package: Path) -> None:
    assert has_extensions(str(package.parent))


def test_extensions_of_another_python_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "both.cpython-20-nowhere.so").touch()
    assert not has_extensions(str(tmp_path))
