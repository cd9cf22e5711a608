from pathlib import Path

import pytest

from tests.tools.projects import FILE, STRONG, WEAK, small_project, write
from tools.conformance import Mutation, Row
from tools.mutate_conformance import main, mutants, sample

ROWS = """\
title = "Push"
about = "PUSH."

[[section]]
title = "PUT"
{}
"""
ROW = """
[[section.row]]
id = "{}"
statement = "values are doubled"
status = "shown"
tests = ["{}"]

[[section.row.mutation]]
file = "{}"
find = 'value * 2'
replace = 'value * 3'
"""
MUTATION = Mutation(FILE, "2", "3")


def row(id_: str, *tests: str) -> Row:
    return Row(id_, "a statement", "shown", tests, mutations=(MUTATION,))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return small_project(tmp_path)


def declare(project: Path, *rows: tuple[str, str]) -> None:
    text = ROWS.format("".join(ROW.format(id_, test, FILE) for id_, test in rows))
    write(project / "tests/conformance/push.toml", text)


def test_row_whose_test_kills_the_mutation_passes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declare(project, ("PU-1", STRONG))
    assert main(["--jobs", "1"], project) == 0
    assert "1 of 1 mutations were noticed" in capsys.readouterr().out


def test_row_whose_test_misses_the_mutation_fails(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declare(project, ("PU-1", STRONG), ("PU-2", WEAK))
    assert main(["--jobs", "1", "PU-2"], project) == 1
    output = capsys.readouterr().out
    assert "0 of 1 mutations were noticed" in output
    assert "PU-2" in output
    assert "PU-1" not in output


def test_row_whose_test_fails_without_mutation_is_reported(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declare(project, ("PU-1", STRONG))
    write(project / FILE, "def double(value):\n    return value * 2 + 1\n")
    assert main([], project) == 1
    assert capsys.readouterr().out == f"0 of 0 mutations were noticed\n{STRONG} fails without any mutation\n"


def test_rows_with_the_same_mutation_and_tests_share_a_run() -> None:
    one, other = mutants([row("PU-1", STRONG), row("PU-2", WEAK), row("PU-3", STRONG)])
    assert one.name.startswith("PU-1, PU-3 (")
    assert other.name.startswith("PU-2 (")


def test_quick_tests_come_first_and_the_sample_has_no_others() -> None:
    slow = row("PU-1", "tests/interop/test_a.py::test_a", STRONG)
    (mutant,) = mutants([slow])
    assert mutant.stages == ((STRONG, "tests/interop/test_a.py::test_a"),)
    rows = [slow, *(row(f"PU-{number}", f"tests/unit/test_{number}.py::test") for number in range(2, 9))]
    first = sample(mutants(rows), 3)
    assert len(first) == 3
    assert mutant not in first
    assert sample(mutants(rows), 3) == sample(mutants(rows), 4)[:3]
