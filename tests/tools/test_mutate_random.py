import ast
from pathlib import Path

import pytest

from tests.tools.projects import FILE, small_project
from tools import mutate_random
from tools.mutate_random import Layer, changes, main, mutants

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


@pytest.mark.parametrize("source", CASES)
def test_what_is_changed(source: str) -> None:
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


def test_the_same_seed_makes_the_same_mutants(project: Path) -> None:
    names = [mutant.name for mutant in mutants(project, ["all"], 2, seed=1)]
    assert names == [mutant.name for mutant in mutants(project, ["all"], 2, seed=1)]
    assert len({mutant.name for mutant in mutants(project, ["all"], 9, seed=1)}) == 3
    assert {mutant.file for mutant in mutants(project, ["all"], 9, seed=1)} == {FILE}


def test_survivors_are_listed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests/unit/test_double.py").write_text("def test_nothing(): ...\n")
    assert main(["--count", "1", "--jobs", "1"], project) == 0
    assert f"1 of 1 mutants survived\n  {FILE}:2 " in capsys.readouterr().out
