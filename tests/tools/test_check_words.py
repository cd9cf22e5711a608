from pathlib import Path

import pytest

from tools.check_words import (
    BESIDE,
    ROOT,
    SOURCES,
    find_former_twins,
    find_long_files_beside,
    find_vague_actors_beside,
    find_violations,
)


def write(file: Path, text: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_plain_sources_have_no_violations(tmp_path: Path) -> None:
    write(tmp_path / "net/driver.py", '"""Reads a link for its session."""\n\nclass Driver:\n    pass\n')
    write(tmp_path / "engine/matching.py")
    assert find_violations(tmp_path) == []


def test_a_class_name_of_two_classes_is_a_violation(tmp_path: Path) -> None:
    write(tmp_path / "net/driver.py", "class Known: ...\n")
    write(tmp_path / "router/face.py", "class Known: ...\n")
    assert find_violations(tmp_path) == ["class Known is defined in net/driver.py, router/face.py"]


def test_a_class_of_aio_may_be_called_like_its_synchronous_form(tmp_path: Path) -> None:
    write(tmp_path / "api/session.py", "class Session: ...\n")
    write(tmp_path / "aio/session.py", "class Session: ...\n")
    assert find_violations(tmp_path) == []


def test_only_a_listed_name_may_be_shared_with_aio(tmp_path: Path) -> None:
    write(tmp_path / "api/session.py", "class Cache: ...\n")
    write(tmp_path / "aio/session.py", "class Cache: ...\n")
    assert find_violations(tmp_path) == ["class Cache is defined in aio/session.py, api/session.py"]


def test_a_third_class_of_a_listed_name_is_a_violation(tmp_path: Path) -> None:
    for package in ("aio", "api", "net"):
        write(tmp_path / package / "session.py", "class Session: ...\n")
    assert find_violations(tmp_path) == ["class Session is defined in aio/session.py, api/session.py, net/session.py"]


def test_twins_that_are_none_any_more_are_named(tmp_path: Path) -> None:
    write(tmp_path / "api/session.py", "class Session: ...\n")
    assert "class Session is listed as a twin of aio, api, but has no twin" in find_former_twins(tmp_path)
    assert list(find_former_twins(SOURCES)) == []


def test_two_classes_of_one_package_are_no_twins(tmp_path: Path) -> None:
    write(tmp_path / "aio/session.py", "class Session: ...\n")
    write(tmp_path / "aio/query.py", "class Session: ...\n")
    assert find_violations(tmp_path) == ["class Session is defined in aio/query.py, aio/session.py"]


@pytest.mark.parametrize("file", ["net/speaking.py", "speaking/__init__.py", "net/_speaking.py"])
def test_a_module_named_by_a_gerund_is_a_violation(tmp_path: Path, file: str) -> None:
    write(tmp_path / file)
    assert find_violations(tmp_path) == [f"{file} is named by a gerund"]


@pytest.mark.parametrize(
    ("text", "line"),
    [('"""Reads a link.\n\nWhoever wrote it.\n"""\n', 3), ("x = 1  # somebody needs it\n", 1), ('log("nobody")\n', 1)],
)
def test_indefinite_pronoun_as_actor_is_a_violation(tmp_path: Path, text: str, line: int) -> None:
    write(tmp_path / "net/driver.py", text)
    (violation,) = find_violations(tmp_path)
    assert violation.startswith(f"net/driver.py:{line} says")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('"""Joins two nodes.\n\nWhoever is there.\n"""\n', 3),
        ('LIMIT = 1\n"""Bytes nobody sends."""\n', 2),
        ('class Peer:\n    """Peer."""\n\n    name: str\n    """As anyone calls it."""\n', 5),
        ('def receive() -> None:\n    "What is said."\n', 2),
        ("x = 1\ny = 2  # how it gets on\n", 2),
    ],
)
@pytest.mark.parametrize("folder", BESIDE)
def test_docstrings_and_comments_beside_the_sources_name_the_actor(
    tmp_path: Path, folder: str, text: str, line: int
) -> None:
    write(tmp_path / folder / "unit/test_router.py", text)
    (violation,) = find_vague_actors_beside(tmp_path)
    assert violation.startswith(f"{folder}/unit/test_router.py:{line} says")


@pytest.mark.parametrize("text", ['log("nobody")\n', 'TEXT = """\nWhoever.\n"""\n', '"somebody".upper()\n'])
def test_strings_beside_the_sources_are_data(tmp_path: Path, text: str) -> None:
    write(tmp_path / "tests/test_router.py", f'"""Routes to the peer."""\n\n{text}')
    write(tmp_path / "tests/names.txt", "nobody\n")
    assert list(find_vague_actors_beside(tmp_path)) == []


def test_long_files_are_violations_unless_generated(tmp_path: Path) -> None:
    write(tmp_path / "wire/codec.py", "x = 1\n" * 801)
    write(tmp_path / "wire/columns.py", "x = 1\n" * 801)
    write(tmp_path / "wire/values.py", "x = 1\n" * 800)
    assert find_violations(tmp_path) == ["wire/columns.py has 801 lines, more than 800"]


@pytest.mark.parametrize("folder", BESIDE)
def test_long_files_beside_the_sources_are_violations(tmp_path: Path, folder: str) -> None:
    write(tmp_path / folder / "unit/test_router.py", "x = 1\n" * 801)
    write(tmp_path / folder / "unit/test_face.py", "x = 1\n" * 800)
    write(tmp_path / folder / "corpus/long.txt", "x\n" * 801)
    assert list(find_long_files_beside(tmp_path)) == [f"{folder}/unit/test_router.py has 801 lines, more than 800"]


def test_folders_beside_the_sources_exist() -> None:
    assert all(any((ROOT / folder).glob("*.py")) for folder in BESIDE)
