import os
from pathlib import Path

import pytest

from bench import beside
from bench.compare import Result

SCRIPT = """
import json, os, sys
from pathlib import Path
value, file = float(Path("speed").read_text()), Path(sys.argv[sys.argv.index("--json") + 1])
core = min(os.sched_getaffinity(0))
with Path("cores").open("a") as cores:
    cores.write(f"{len(os.sched_getaffinity(0))} {core} {' '.join(sys.argv[1:-2])}\\n")
rate = value * (2 if core == min(map(int, os.environ["CORES"].split(","))) else 1)
names = {"/s": rate, "us": 1e6 / rate, "x": 1.0}
results = [{"name": unit, "value": of, "unit": unit, "spread": [of, of]} for unit, of in names.items()]
file.write_text(json.dumps({"bench": "fake", "results": results}))
"""

needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="measures on two cores at once")


def make_tree(path: Path, speed: float, script: str = SCRIPT) -> Path:
    """Make a tree with a benchmark of the given speed, which is twice as fast on the first core."""
    (path / "bench").mkdir(parents=True)
    (path / "bench" / "bench_fake.py").write_text(script)
    (path / "speed").write_text(str(speed))
    return path


@needs_two_cores
def test_ratio_of_a_pair_does_not_depend_on_the_speed_of_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    monkeypatch.setenv("CORES", ",".join(map(str, cores)))
    trees = [make_tree(tmp_path / "this", 30.0), make_tree(tmp_path / "other", 20.0)]
    assert [line.split() for line in beside.measure(trees, "fake --only 'a b'", 1)] == [
        ["fake:", unit, "1.500x", "(1.500", "to", "1.500)"] for unit in ("/s", "us")
    ]
    used = [(tree / "cores").read_text().splitlines() for tree in trees]
    assert used[0] == [f"1 {core} --only a b" for core in cores]
    assert used[1] == used[0][::-1]


@needs_two_cores
def test_benchmark_that_fails_is_reported_with_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_tree(tmp_path / "other", 1.0, "import sys; sys.exit('no such build')")
    monkeypatch.setattr(beside, "__file__", str(make_tree(tmp_path / "this", 1.0, "pass") / "bench" / "beside.py"))
    assert beside.main([str(other), "fake", "--pairs", "1"]) == 1
    assert capsys.readouterr().err == f"beside: fake of {other} failed:\nno such build\n\n"


def test_one_core_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert beside.main(["other", "fake"]) == 1
    assert capsys.readouterr().err == "beside: two cores are needed, and this process may use one\n"


@pytest.mark.parametrize(
    ("this", "other", "expected"),
    [
        ((20.0, "/s"), (10.0, "/s"), 2.0),
        ((20.0, "us"), (10.0, "us"), 0.5),
        ((20.0, "B"), (10.0, "B"), 0.5),
        ((20.0, "x"), (10.0, "x"), None),
        ((20.0, "/s"), (10.0, "us"), None),
        ((0.0, "/s"), (10.0, "/s"), None),
        ((20.0, "/s"), (0.0, "/s"), None),
    ],
)
def test_ratio_above_one_means_better(
    this: tuple[float, str], other: tuple[float, str], expected: float | None
) -> None:
    results = [Result("a", value, unit, (value, value)) for value, unit in (this, other)]
    assert beside.ratio(results[0], results[1]) == expected
