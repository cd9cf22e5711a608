from pathlib import Path

import pytest

from tools import check_conformance
from tools.check_conformance import PAGE, main, problems

INTRO = """\
# Conformance

| page | shown | differs | open | rows |
|---|---|---|---|---|
| Push | 1 | 1 | 1 | 3 |
| Query | 1 | 0 | 0 | 1 |
| all | 2 | 1 | 1 | 4 |
"""
PAYLOAD = "`tests/conformance/test_push.py::test_payload`"
PUSH = f"""\
## Push

| id | statement | status | evidence |
|---|---|---|---|
| PU-1 | a payload | shown | {PAYLOAD}, `tests/unit/test_put.py::TestPut::test_it` |
| PU-2 | a timestamp | differs | 1.10.2: no length, `21 f99e`; zenspark: the same; {PAYLOAD} |
| PU-4 | where it goes | open | router |
"""
QUERY = """\
## Query

### REQUEST

| id | statement | status | evidence |
|---|---|---|---|
| QU-1 | header `Z\\|M\\|N` | shown | `tests/conformance/test_push.py::test_flags` |
"""
TESTS = '''\
def test_payload(): """PU-1, PU-2: it has a length, and is not UTF-8."""
def test_flags(): """QU-1: they are bits."""
def helper(): """PU-9"""
'''
UNIT = """\
class TestPut:
    def test_it(self): ...
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write(tmp_path / PAGE, f"{INTRO}\n{PUSH}\n{QUERY}")
    write(tmp_path / "tests/conformance/test_push.py", TESTS)
    write(tmp_path / "tests/unit/test_put.py", UNIT)
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_page_and_tests_that_agree(tree: Path) -> None:
    assert problems(tree) == []


BREAKAGES = {
    "a cell too many": (
        "| a payload |",
        "| a | payload |",
        f"docs/conformance.md: this is no row: {PUSH.splitlines()[4]}".replace("| a payload |", "| a | payload |"),
    ),
    "an id of another form": (
        "| PU-4 ",
        "| PU4 ",
        "docs/conformance.md: this is no row: | PU4 | where it goes | open | router |",
    ),
    "twice": ("| PU-2 ", "| PU-1 ", "docs/conformance.md: PU-1 is there 2 times"),
    "out of order": ("| PU-4 ", "| PU-0 ", "docs/conformance.md: PU-0 comes after PU-2"),
    "on another page": (
        "| PU-4 ",
        "| QU-4 ",
        "docs/conformance.md: QU-4 stands among the rows of 'Push', which begin with PU",
    ),
    "wrong count": (
        "| Push | 1 | 1 | 1 | 3 |",
        "| Push | 2 | 1 | 1 | 4 |",
        "docs/conformance.md: the introduction needs the line | Push | 1 | 1 | 1 | 3 |",
    ),
    "wrong total": (
        "| all | 2 | 1 | 1 | 4 |",
        "| all | 2 | 1 | 1 | 5 |",
        "docs/conformance.md: the introduction needs the line | all | 2 | 1 | 1 | 4 |",
    ),
    "count of nothing": (
        "| Push | 1",
        "| Reply | 0 | 0 | 0 | 0 |\n| Push | 1",
        "docs/conformance.md: the introduction counts 'Reply', which has no rows",
    ),
    "unknown status": (
        "| open | router |",
        "| later | router |",
        "docs/conformance.md: PU-4 has the status 'later' instead of shown, differs, open",
    ),
    "shown by nothing": (
        "| `tests/conformance/test_push.py::test_flags` |",
        "| obvious |",
        "docs/conformance.md: QU-1 is 'shown' but names no test",
    ),
    "differs without bytes": (
        "no length, `21 f99e`",
        "no length",
        "docs/conformance.md: PU-2 differs but has no captured bytes",
    ),
    "differs without us": (
        "zenspark: the same",
        "so do we",
        "docs/conformance.md: PU-2 differs but does not say what 1.10.2 does and what zenspark does",
    ),
    "open without reason": (
        "| open | router |",
        "| open | later |",
        "docs/conformance.md: PU-4 is open but does not say whether for sessions or for the router",
    ),
    "no such test": (
        "TestPut::test_it",
        "TestPut::test_that",
        "docs/conformance.md: PU-1 names tests/unit/test_put.py::TestPut::test_that, which does not exist",
    ),
    "no such file": (
        "tests/unit/test_put.py",
        "tests/unit/test_del.py",
        "docs/conformance.md: PU-1 names tests/unit/test_del.py::TestPut::test_it, which does not exist",
    ),
    "one case": (
        "test_push.py::test_flags`",
        "test_push.py::test_flags[N]`",
        "docs/conformance.md: QU-1 names one case, tests/conformance/test_push.py::test_flags[N]; name the whole test",
    ),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_what_is_wrong_on_the_page(tree: Path, breakage: str) -> None:
    old, new, problem = BREAKAGES[breakage]
    change(tree / PAGE, old, new)
    assert problem in problems(tree)


def test_no_bytes_may_be_said_in_words(tree: Path) -> None:
    change(tree / PAGE, "`21 f99e`", "no bytes of it")
    assert problems(tree) == []


DOCSTRINGS = {
    "unknown row": ("QU-1: they", "QU-1, QU-7: they", ["{} names QU-7, which is no row"]),
    "row of others": ("QU-1: they", "PU-1, QU-1: they", ["{} names PU-1, which does not name it"]),
    "forgotten row": ("QU-1: they", "they", ["{} does not begin its docstring with the id of a row"]),
    "no docstring": ('"""QU-1: they are bits."""', "...", ["{} does not begin its docstring with the id of a row"]),
    "id not in front": ("QU-1: they", "they, as QU-1,", ["{} does not begin its docstring with the id of a row"]),
}


@pytest.mark.parametrize("breakage", DOCSTRINGS)
def test_what_is_wrong_in_a_docstring(tree: Path, breakage: str) -> None:
    old, new, expected = DOCSTRINGS[breakage]
    change(tree / "tests/conformance/test_push.py", old, new)
    found = problems(tree)
    for problem in expected:
        assert problem.format("tests/conformance/test_push.py::test_flags") in found


def test_row_that_its_test_does_not_know(tree: Path) -> None:
    change(tree / "tests/conformance/test_push.py", "PU-1, PU-2: it", "PU-1: it")
    assert problems(tree) == ["tests/conformance/test_push.py::test_payload does not name PU-2, which names it"]


def test_range_of_rows(tree: Path) -> None:
    change(tree / PAGE, "| open | router |", f"| open | router; {PAYLOAD} |")
    assert len(problems(tree)) == 1
    change(tree / "tests/conformance/test_push.py", "PU-1, PU-2: it", "PU-1 to PU-4: it")
    assert problems(tree) == []


def test_prints_problems_and_fails(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_conformance, "ROOT", tree)
    assert main() == 0
    change(tree / PAGE, "| open | router |", "| open | later |")
    assert main() == 1
    assert capsys.readouterr().out == (
        "docs/conformance.md: PU-4 is open but does not say whether for sessions or for the router\n"
    )
