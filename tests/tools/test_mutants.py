import os
from pathlib import Path

import psutil
import pytest

from tests.tools.projects import FILE, SOURCE, STRONG, WEAK, small_project
from tests.wait import until
from tools.mutants import Copy, Effort, Mutant, Outcome, Record, Result, digest_of, judged, resumed, rewrite


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return small_project(tmp_path / "project")


def ended(process: int) -> bool:
    try:
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def mutant(new: str, *tests: str, name: str = "one") -> Mutant:
    return Mutant(name, FILE, lambda text: text.replace("value * 2", new), tuple((test,) for test in tests))


def test_mutant_is_killed_or_survives_and_is_reverted(project: Path, tmp_path: Path) -> None:
    copy = Copy(project, tmp_path / "copy")
    assert copy.run(mutant("value * 3", WEAK), 60) == Result(Outcome.SURVIVED)
    assert copy.run(mutant("value * 3", WEAK, STRONG), 60) == Result(Outcome.KILLED, STRONG)
    assert copy.run(mutant("value * 2", STRONG), 60) == Result(Outcome.SURVIVED)
    assert (tmp_path / "copy" / FILE).read_text() == (project / FILE).read_text() == SOURCE


def test_tests_run_in_the_order_of_their_names(project: Path, tmp_path: Path) -> None:
    (project / "tests/unit/test_double.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(3))\ndef test_double(n): assert n < 0\n"
        "def test_zero(): assert False\n"
    )
    copy = Copy(project, tmp_path / "copy")
    names = [f"{STRONG}[2]", WEAK, f"{STRONG}[0]"]
    for _ in names:
        assert copy.run(mutant("value * 3")._replace(stages=(tuple(names),)), 60) == Result(Outcome.KILLED, names[0])
        names.append(names.pop(0))
    assert copy.run(mutant("value * 3", STRONG), 60) == Result(Outcome.KILLED, f"{STRONG}[0]")


def test_mutant_without_an_existing_test_is_broken(project: Path, tmp_path: Path) -> None:
    missing = mutant("value * 3", f"{STRONG}[0]")
    assert Copy(project, tmp_path / "copy").run(missing, 60) == Result(Outcome.BROKEN)
    passed_over = missing._replace(stages=((f"{STRONG}[0]", WEAK),))
    assert Copy(project, tmp_path / "other").run(passed_over, 60) == Result(Outcome.SURVIVED)


def test_processes_started_by_tests_end_with_them(project: Path, tmp_path: Path) -> None:
    starting = "from subprocess import *; print(Popen(['sleep', '60'], stdout=DEVNULL, stderr=DEVNULL).pid)"
    _, output = Copy(project, tmp_path / "copy").python(["-c", starting], False, 60)
    until(lambda: ended(int(output)))


def test_tests_stay_in_the_session_of_the_tool_and_share_its_priority(project: Path, tmp_path: Path) -> None:
    _, output = Copy(project, tmp_path / "copy").python(["-c", "import os; print(os.getsid(0))"], False, 60)
    assert int(output) == os.getsid(0)


def test_installed_packages_are_not_copied(project: Path, tmp_path: Path) -> None:
    for file in (".venv/lib/a.py", "page/node_modules/b/c.js", "page/src/d.ts"):
        (project / file).parent.mkdir(parents=True)
        (project / file).touch()
    copied = {path.name for path in Copy(project, tmp_path / "copy").directory.rglob("*")}
    assert copied.isdisjoint({".venv", "node_modules"})
    assert "d.ts" in copied


def test_a_change_that_never_ends_is_ended(project: Path, tmp_path: Path) -> None:
    endless = mutant("next(i for i in iter(int, 1) if i)", STRONG)
    assert Copy(project, tmp_path / "copy").run(endless, 1) == Result(Outcome.HUNG)


def test_one_test_that_never_ends_is_ended(project: Path, tmp_path: Path) -> None:
    endless = mutant("next(i for i in iter(int, 1) if i)", STRONG)._replace(timeouts=(0.2,))
    assert Copy(project, tmp_path / "copy").run(endless, 60) == Result(Outcome.HUNG)


def test_a_change_that_makes_the_module_unreadable_tests_nothing(project: Path, tmp_path: Path) -> None:
    assert Copy(project, tmp_path / "copy").run(mutant("value *", STRONG), 60).outcome is Outcome.BROKEN


def test_all_tests_fail_if_one_of_them_cannot_be_collected(project: Path, tmp_path: Path) -> None:
    copy = Copy(project, tmp_path / "copy")
    assert copy.failing([STRONG, WEAK], False, 60) == []
    assert copy.failing([STRONG, "tests/unit/test_other.py::test_other"], False, 60) == [
        STRONG,
        "tests/unit/test_other.py::test_other",
    ]
    rewrite(tmp_path / "copy" / FILE, "def double(value):\n    return value * 3\n")
    assert copy.failing([STRONG, WEAK], False, 60) == [STRONG]


@pytest.mark.parametrize("status", [2, 3, 4, 5])
def test_an_end_of_pytest_without_a_verdict_is_broken(status: int) -> None:
    assert judged(status, "ERROR tests/a.py - SyntaxError") == Result(Outcome.BROKEN, "tests/a.py")


def test_a_crash_is_noticed() -> None:
    assert judged(-11, "") == Result(Outcome.KILLED)
    assert str(judged(1, "FAILED tests/a.py::test_a - assert")) == "killed by tests/a.py::test_a"


def test_results_are_kept_while_nothing_changes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = project / "build/results.json"
    killed, other = mutant("value * 3", STRONG), mutant("value * 3", WEAK, name="other")
    digest = digest_of(project)
    assert resumed(project, [killed, other], Record(file, digest), Effort(seconds=0, jobs=1)) == []
    assert capsys.readouterr().out == "2 mutants are left; the same command goes on with them\n"
    first = resumed(project, [killed], Record(file, digest), Effort(jobs=1))
    assert first == [(killed, Result(Outcome.KILLED, STRONG))]
    assert resumed(project, [killed, other], Record(file, digest), Effort(seconds=0)) == first
    (project / FILE).write_text("changed = True\n")
    assert digest_of(project) != digest
    assert Record(file, digest_of(project)).results == {}
