from pathlib import Path

import pytest

from tools.check_tests import files_testing, orphans


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for file in ("src/wire/buffer.py", "src/_pure.py", "tests/wire/test_buffer.py", "tests/test_pure.py"):
        write(tmp_path / file)
    return tmp_path


def write(file: Path, text: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def found(tree: Path) -> list[str]:
    return [line.replace(f"{tree}/", "") for line in orphans(tree / "src", tree / "tests")]


def test_source_with_its_test_is_not_reported(tree: Path) -> None:
    assert found(tree) == []


def test_source_without_test(tree: Path) -> None:
    write(tree / "src/wire/values.py")
    assert found(tree) == ["src/wire/values.py has no test tests/wire/test_values.py"]


def test_test_without_source(tree: Path) -> None:
    write(tree / "tests/key/test_buffer.py")
    assert found(tree) == ["tests/key/test_buffer.py tests no file under src"]


def test_tests_of_one_source_may_be_divided_by_subject(tree: Path) -> None:
    write(tree / "tests/wire/test_buffer_limits.py")
    write(tree / "tests/test_pure_long_subject.py")
    assert found(tree) == []


@pytest.mark.parametrize("name", ["key/test_buffer_limits.py", "wire/test_buffers.py", "wire/test_limits_buffer.py"])
def test_subject_stands_behind_the_name_of_a_source_in_the_same_folder(tree: Path, name: str) -> None:
    write(tree / "tests" / name)
    assert found(tree) == [f"tests/{name} tests no file under src"]


def test_subject_alone_is_not_enough(tree: Path) -> None:
    (tree / "tests/wire/test_buffer.py").rename(tree / "tests/wire/test_buffer_limits.py")
    assert found(tree) == ["src/wire/buffer.py has no test tests/wire/test_buffer.py"]


def test_test_belongs_to_the_source_with_the_longest_name(tree: Path) -> None:
    write(tree / "src/wire/buffer_pool.py")
    for name in ("buffer_limits", "buffer_pool", "buffer_pool_limits"):
        write(tree / f"tests/wire/test_{name}.py")
    tests = {
        source: [test.name for test in files_testing(tree / "src/wire" / source, tree / "src", tree / "tests")]
        for source in ("buffer.py", "buffer_pool.py")
    }
    assert tests == {
        "buffer.py": ["test_buffer.py", "test_buffer_limits.py"],
        "buffer_pool.py": ["test_buffer_pool.py", "test_buffer_pool_limits.py"],
    }


def test_files_that_are_not_tests_need_no_source(tree: Path) -> None:
    write(tree / "tests/wire/conftest.py")
    assert found(tree) == []


@pytest.mark.parametrize("exists", [True, False])
def test_generated_file_may_have_a_test(tree: Path, exists: bool) -> None:
    write(tree / "src/wire/codec.py", "def decode() -> None: ...")
    if exists:
        write(tree / "tests/wire/test_codec.py")
    assert found(tree) == []


def test_package_that_only_names_things_needs_no_test(tree: Path) -> None:
    write(tree / "src/wire/__init__.py", '"""Bytes."""\nimport a\nfrom b import c\n__all__ = ["a", "c"]\n')
    assert found(tree) == []


@pytest.mark.parametrize("code", ["def main() -> None: ...", "limit = 3", "if a: b()", "a.b = 1"])
def test_package_with_code_needs_one(tree: Path, code: str) -> None:
    write(tree / "src/wire/__init__.py", code)
    assert found(tree) == ["src/wire/__init__.py has no test tests/wire/test_init.py"]


def test_folders_of_other_packages_are_left_out(tree: Path) -> None:
    write(tree / "tests/other/test_init.py")
    assert found(tree) == ["tests/other/test_init.py tests no file under src"]
    assert orphans(tree / "src", tree / "tests", frozenset({"other"})) == []
