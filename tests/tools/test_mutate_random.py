import ast
from pathlib import Path

import pytest

from tests.tools.projects import FILE, STRONG, WEAK, small_project
from tools import mutate_random
from tools.covering_tests import Place, coverage_of
from tools.mutate_random import Choice, Layer, changes, main, mutants

CASES = {
    "x = 1 if a else 2": {"pass", "(1 if not a else 2)", "2", "3"},
    "x = a == b": {"pass", "(a != b)"},
    "x = a < b <= c": {"pass", "(a <= b <= c)"},
    "x = a and b": {"pass", "(a or b)"},
    "x = not a": {"pass", "(a)"},
    "x = a << 1": {"pass", "(a >> 1)", "2"},
    "x = True": {"pass", "False"},
    "x: int = a": set(),
    "f(a)": {"pass"},
    "raise a": {"pass"},
    "del a": {"pass"},
    "def f() -> int:\n    '''Text.'''\n    return a": {"return None"},
    "@f(1)\ndef g(x: Length[1]) -> Length[1]: ...": set(),
    "assert a == 1": set(),
    "log.debug('ä', 1)": set(),
    "if TYPE_CHECKING:\n    x = 1": set(),
    "import a": set(),
}
WITHOUT_A_CHECK = """\
import contextlib
from zenspark.double import double

def test_nothing():
    with contextlib.suppress(TypeError):
        double(2)
"""


@pytest.mark.parametrize("source", CASES)
def test_each_source_has_the_expected_mutations(source: str) -> None:
    assert {change.text for change in changes(source)} == CASES[source]
    for change in changes(source):
        ast.parse(change.applied(source))


def test_places_are_bytes() -> None:
    (change,) = [change for change in changes("x = 'ä' + f(3)") if change.text == "4"]
    assert change.applied("x = 'ä' + f(3)") == "x = 'ä' + f(4)"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mutate_random, "LAYERS", {"all": Layer(("double.py",), ("tests/unit",))})
    return small_project(tmp_path)


@pytest.fixture
def choice(project: Path) -> Choice:
    return Choice(project, coverage_of(project, ["tests/unit"]))


def test_the_same_seed_makes_the_same_mutants(choice: Choice) -> None:
    names = [mutant.name for mutant in mutants(choice, ["all"], 2, seed=1)]
    assert names == [mutant.name for mutant in mutants(choice, ["all"], 2, seed=1)]
    assert len({mutant.name for mutant in mutants(choice, ["all"], 9, seed=1)}) == 3
    assert {mutant.file for mutant in mutants(choice, ["all"], 9, seed=1)} == {FILE}


def test_tests_are_chosen_by_the_lines_they_run(choice: Choice) -> None:
    file, layer = Path("double.py"), Layer(("double.py",), ("tests/unit",))
    (running,) = choice.stages(file, Place(range(2, 3), True), layer)
    assert {*running} == {STRONG, WEAK}
    assert choice.stages(file, Place(range(3, 4), True), layer) == ()
    assert choice.stages(file, Place(range(1, 2), False), layer) == (("tests/unit/test_double.py",), ("tests/unit",))


def test_tests_of_the_file_come_first(project: Path) -> None:
    (project / "tests/unit/test_a.py").write_text(
        "from zenspark.double import double\ndef test_a(): double(2)\ndef test_b(): ...\n"
    )
    choice = Choice(project, coverage_of(project, ["tests/unit"]))
    choice.coverage.seconds.update({STRONG: 2.0, WEAK: 1.0, "tests/unit/test_a.py::test_a": 0.5})
    stages = choice.stages(Path("double.py"), Place(range(2, 3), True), Layer(("double.py",), ("tests/unit",)))
    assert stages == ((WEAK, STRONG), ("tests/unit/test_a.py::test_a",))


def test_tests_of_a_subject_of_the_file_are_tests_of_the_file(project: Path) -> None:
    (project / "tests/unit/test_double_text.py").write_text("def test_text(): ...\n")
    choice = Choice(project, coverage_of(project, ["tests/unit"]))
    stages = choice.stages(Path("double.py"), Place(range(1, 2), False), Layer(("double.py",), ("tests/unit",)))
    assert stages == (("tests/unit/test_double.py", "tests/unit/test_double_text.py"), ("tests/unit",))


def test_lines_run_before_any_test_are_tested_with_the_whole_layer(project: Path) -> None:
    (project / "tests/unit/test_double.py").write_text(
        "from zenspark.double import double\nFOUR = double(2)\ndef test_four(): assert FOUR == double(2)\n"
    )
    choice = Choice(project, coverage_of(project, ["tests/unit"]))
    stages = choice.stages(Path("double.py"), Place(range(2, 3), True), Layer(("double.py",), ("tests/unit",)))
    assert stages == (("tests/unit/test_double.py::test_four",), ("tests/unit/test_double.py",), ("tests/unit",))


def test_a_test_may_take_some_times_longer_than_without_a_mutation(choice: Choice) -> None:
    choice.coverage.seconds.update({STRONG: 2.0, WEAK: 1.0})
    assert choice.timeouts(((WEAK,), ("tests/unit",))) == (62, 64)


def test_survivors_are_listed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests/unit/test_double.py").write_text(WITHOUT_A_CHECK)
    assert main(["--count", "1", "--jobs", "1"], project) == 0
    assert f"1 of 1 mutants survived\n  {FILE}:2 " in (output := capsys.readouterr().out)
    assert "no test runs this line" not in output


def test_mutants_of_lines_that_no_test_runs_survive(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests/unit/test_double.py").write_text("def test_nothing(): ...\n")
    assert main(["--count", "3", "--jobs", "1"], project) == 0
    assert capsys.readouterr().out.count(" (no test runs this line)\n") == 3


def test_survivors_are_tried_with_the_whole_layer(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests/unit/test_double.py").write_text(WITHOUT_A_CHECK)
    (project / "tests/unit/test_text.py").write_text(
        f"from pathlib import Path\ndef test_text(): assert 'return value * 2' in Path({FILE!r}).read_text()\n"
    )
    assert main(["--count", "3", "--jobs", "1"], project) == 0
    assert "3 of 3 mutants survived\n" in capsys.readouterr().out
    assert main(["--count", "3", "--jobs", "1", "--whole-layer"], project) == 0
    assert "0 of 3 mutants survived\n" in (output := capsys.readouterr().out)
    assert output.count("killed by tests/unit/test_text.py::test_text\n") == 3
