from pathlib import Path

import pytest

from tests.tools.projects import FILE, STRONG, WEAK, small_project
from tools.covering_tests import LINES, Covering, Place, coverage_of, is_below, places

PLACES = """\
x = f(
    1,
)
class C:
    y = 1
def g(
    a=1,
):
    if (
        a
    ):
        return [
            a,
        ]
    match a:
        case 1 if (
            b
        ):
            pass
    try: h()
    except E:
        raise
"""


def test_places_are_statements_without_those_inside() -> None:
    found = places(PLACES)
    assert sorted({(place.lines.start, place.lines.stop - 1) for place in found.values()}) == [
        (1, 3), (4, 4), (5, 5), (6, 8), (9, 11), (12, 14), (15, 15), (16, 18), (19, 19), (20, 20), (21, 21), (22, 22)
    ]  # fmt: skip
    assert [line for line, place in found.items() if not place.in_function] == [*range(1, 9)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return small_project(tmp_path)


def test_tests_of_a_line_come_fastest_first(project: Path) -> None:
    coverage = coverage_of(project, ["tests/unit"])
    assert coverage.seconds.keys() == {STRONG, WEAK}
    for first, second in ((STRONG, WEAK), (WEAK, STRONG)):
        coverage.seconds.update({first: 1.0, second: 2.0})
        assert coverage.of(FILE, Place(range(2, 3), True), ["tests"]) == Covering((first, second), before=False)
    assert coverage.of(FILE, Place(range(2, 3), True), ["tests/property"]) == Covering((), before=False)
    assert coverage.of(FILE, Place(range(1, 2), False), ["tests"]) == Covering((), before=True)
    assert coverage.of("src/zenspark/other.py", Place(range(1, 2), False), ["tests"]) == Covering((), before=False)


def test_lines_run_by_other_threads_are_covered(project: Path) -> None:
    (project / "tests/unit/test_double.py").write_text(
        "import threading\n"
        "from zenspark.double import double\n"
        "def test_double():\n"
        "    thread = threading.Thread(target=double, args=(2,))\n"
        "    thread.start()\n"
        "    thread.join()\n"
    )
    coverage = coverage_of(project, ["tests/unit"])
    assert coverage.of(FILE, Place(range(2, 3), True), ["tests"]).tests == (STRONG,)


def test_the_slowest_of_tests_and_directories(project: Path) -> None:
    coverage = coverage_of(project, ["tests/unit"])
    coverage.seconds.update({STRONG: 1.0, WEAK: 2.0})
    assert [coverage.slowest(stage) for stage in ((), (STRONG,), (STRONG, WEAK), ("tests/unit",))] == [0, 1, 2, 2]


def test_coverage_is_measured_again_after_a_change(project: Path) -> None:
    coverage_of(project, ["tests/unit"])
    made = (project / LINES).stat().st_mtime_ns
    coverage_of(project, ["tests/unit"])
    assert (project / LINES).stat().st_mtime_ns == made
    (project / "tests/unit/test_double.py").write_text("def test_nothing(): ...\n")
    assert coverage_of(project, ["tests/unit"]).seconds.keys() == {"tests/unit/test_double.py::test_nothing"}
    assert (project / LINES).stat().st_mtime_ns != made


def test_tests_that_fail_anyway_are_left_out(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test = project / "tests/unit/test_double.py"
    test.write_text(test.read_text().replace("== 4", "== 5"))
    assert coverage_of(project, ["tests/unit"]).seconds.keys() == {WEAK}
    assert f"{STRONG} fails without any mutation" in capsys.readouterr().out


def test_tests_that_cannot_be_run_exit_with_their_path(project: Path) -> None:
    with pytest.raises(SystemExit, match="tests/other"):
        coverage_of(project, ["tests/other"])


@pytest.mark.parametrize(
    ("test", "below"), [("tests/a/b.py::c[d/e]", True), ("tests/a.py::c", True), ("tests/ab/c.py::d", False)]
)
def test_tests_are_below_files_and_directories(test: str, below: bool) -> None:
    assert is_below(test, ("tests/a", "tests/a.py")) is below
