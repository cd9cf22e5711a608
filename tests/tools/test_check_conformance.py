from pathlib import Path

import pytest

from tools.check_conformance import main, problems

PUSH = """\
title = "Push"
about = "PUSH, PUT and DEL."

[[section]]
title = "PUT"

[[section.row]]
id = "PU-1"
statement = "a payload"
status = "shown"
tests = ["tests/conformance/test_push.py::test_payload", "tests/unit/test_put.py::TestPut::test_it"]

[[section.row.mutation]]
file = "src/put.py"
find = 'length = 1'
replace = 'length = 2'

[[section.row]]
id = "PU-2"
statement = "a timestamp"
status = "differs"
place = "21.18"
eclipse = "no length, `21 f99e`"
zenspark = "the same"
reason = "it has to be understood"
tests = ["tests/conformance/test_push.py::test_payload"]

[[section.row]]
id = "PU-4"
statement = "where it goes"
status = "shown"
tests = ["tests/unit/test_put.py::TestPut::test_it"]

[[section.row.mutation]]
file = "src/put.py"
find = 'other = 1'
replace = 'other = 2'
"""
QUERY = """\
title = "Query"
about = "REQUEST and QUERY."

[[section]]
title = "REQUEST"

[[section.row]]
id = "QU-1"
statement = "header `Z|M|N`"
status = "shown"
tests = ["tests/conformance/test_push.py::test_flags"]
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
FILE = "tests/conformance/push.toml"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write(tmp_path / FILE, PUSH)
    write(tmp_path / "tests/conformance/query.toml", QUERY)
    write(tmp_path / "tests/conformance/test_push.py", TESTS)
    write(tmp_path / "tests/unit/test_put.py", UNIT)
    write(tmp_path / "src/put.py", "length = 1\nother = 1\n")
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_consistent_rows_and_tests_have_no_problems(tree: Path) -> None:
    assert problems(tree) == []


BREAKAGES = {
    "twice": ('"PU-2"', '"PU-1"', "PU-1 is there 2 times"),
    "out of order": ('"PU-4"', '"PU-0"', f"{FILE}: PU-0 comes after PU-2"),
    "on another page": ('"PU-4"', '"QU-4"', f"{FILE}: QU-4 stands among rows that begin with PU"),
    "unknown status": (
        'status = "differs"',
        'status = "open"',
        f"{FILE}: PU-2 has the status 'open' instead of shown or differs",
    ),
    "shown by nothing": (
        'tests = ["tests/unit/test_put.py::TestPut::test_it"]',
        "tests = []",
        f"{FILE}: PU-4 names no test",
    ),
    "differs without bytes": ("no length, `21 f99e`", "no length", f"{FILE}: PU-2 differs but has no captured bytes"),
    "differs without us": ('zenspark = "the same"\n', "", f"{FILE}: PU-2 is 'differs' without 'zenspark'"),
    "differs without reason": (
        'reason = "it has to be understood"\n',
        "",
        f"{FILE}: PU-2 is 'differs' without 'reason'",
    ),
    "a reason for nothing": (
        'statement = "where it goes"\n',
        'statement = "where it goes"\nreason = "why not"\n',
        f"{FILE}: PU-4 is 'shown' with 'reason'",
    ),
    "no such test": (
        "TestPut::test_it",
        "TestPut::test_that",
        f"{FILE}: PU-1 names tests/unit/test_put.py::TestPut::test_that, which does not exist",
    ),
    "no such file": (
        "tests/unit/test_put.py",
        "tests/unit/test_del.py",
        f"{FILE}: PU-1 names tests/unit/test_del.py::TestPut::test_it, which does not exist",
    ),
    "one case": (
        "TestPut::test_it",
        "TestPut::test_it[N]",
        f"{FILE}: PU-1 names one case, tests/unit/test_put.py::TestPut::test_it[N]; name the whole test",
    ),
    "no mutation": (
        """
[[section.row.mutation]]
file = "src/put.py"
find = 'other = 1'
replace = 'other = 2'
""",
        "",
        f"{FILE}: PU-4 is about behaviour but has no mutation",
    ),
    "a mutation of nothing": (
        '"src/put.py"',
        '"src/del.py"',
        "PU-1 has a mutation that changes src/del.py, which does not exist",
    ),
    "a mutation of what is not there": (
        "find = 'length = 1'",
        "find = 'length = 3'",
        "PU-1 has a mutation that does not apply: src/put.py has 0 times 'length = 3'",
    ),
    "a mutation of two places": (
        "find = 'length = 1'",
        "find = '1'",
        "PU-1 has a mutation that does not apply: src/put.py has 2 times '1'",
    ),
    "a mutation that changes nothing": (
        "replace = 'length = 2'",
        "replace = 'length = 1  # one'",
        "PU-1 has a mutation that changes nothing",
    ),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_problem_of_a_row_is_reported(tree: Path, breakage: str) -> None:
    old, new, problem = BREAKAGES[breakage]
    change(tree / FILE, old, new)
    assert problem in problems(tree)


def test_mutation_to_invalid_python_is_reported(tree: Path) -> None:
    change(tree / FILE, "replace = 'length = 2'", "replace = 'length = '")
    (problem,) = problems(tree)
    assert problem.startswith("PU-1 has a mutation that makes src/put.py unreadable: ")


def test_unknown_field_of_a_row_raises(tree: Path) -> None:
    change(tree / FILE, "place =", "section =")
    with pytest.raises(TypeError, match="section"):
        problems(tree)


def test_malformed_id_of_a_row_raises(tree: Path) -> None:
    change(tree / FILE, '"PU-4"', '"PU-4b"')
    with pytest.raises(ValueError, match="'PU-4b' is not the id of a row"):
        problems(tree)


def test_difference_may_state_in_words_that_there_are_no_bytes(tree: Path) -> None:
    change(tree / FILE, "`21 f99e`", "no bytes of it")
    assert problems(tree) == []


DOCSTRINGS = {
    "unknown row": ("QU-1: they", "QU-1, QU-7: they", "{} names QU-7, which is no row"),
    "row of others": ("QU-1: they", "PU-1, QU-1: they", "{} names PU-1, which does not name it"),
    "forgotten row": ("QU-1: they", "they", "{} does not begin its docstring with the id of a row"),
    "no docstring": ('"""QU-1: they are bits."""', "...", "{} does not begin its docstring with the id of a row"),
    "id not in front": ("QU-1: they", "they, as QU-1,", "{} does not begin its docstring with the id of a row"),
}


@pytest.mark.parametrize("breakage", DOCSTRINGS)
def test_problem_of_a_docstring_is_reported(tree: Path, breakage: str) -> None:
    old, new, problem = DOCSTRINGS[breakage]
    change(tree / "tests/conformance/test_push.py", old, new)
    assert problem.format("tests/conformance/test_push.py::test_flags") in problems(tree)


def test_row_missing_in_the_docstring_of_its_test_is_reported(tree: Path) -> None:
    change(tree / "tests/conformance/test_push.py", "PU-1, PU-2: it", "PU-1: it")
    assert problems(tree) == ["tests/conformance/test_push.py::test_payload does not name PU-2, which names it"]


def test_docstring_may_name_a_range_of_rows(tree: Path) -> None:
    change(
        tree / FILE,
        'tests = ["tests/unit/test_put.py',
        'tests = ["tests/conformance/test_push.py::test_payload", "tests/unit/test_put.py',
    )
    assert len(problems(tree)) == 1
    change(tree / "tests/conformance/test_push.py", "PU-1, PU-2: it", "PU-1 to PU-4: it")
    assert problems(tree) == []


def test_problems_are_printed_and_are_exit_code_1(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tree) == 0
    change(tree / FILE, '"PU-4"', '"PU-0"')
    assert main(tree) == 1
    assert capsys.readouterr().out == f"{FILE}: PU-0 comes after PU-2\n"
