"""Is this tree faster or slower than another? Runs benchmarks of both at the same moment, one core each.

    python bench/beside.py OTHER columns route                      OTHER: a tree that is compiled in place
    python bench/beside.py OTHER "journal --only read" --pairs 5    with arguments of the benchmark

A shared machine can change its speed by half within minutes: two runs, one after the other, differ by more than most
changes do. Here both trees run at once, each with the code of its own `bench/`, and each change of the machine's speed
meets both. In the second run of a pair they exchange the cores, and the ratio of a pair is the geometric mean of both
runs, so a slower core disturbs neither.

Prints this tree / OTHER for each result that both have, the median of all pairs, and the least and the greatest. Above
1 this tree is better: for times and sizes the ratio is inverted. Results that are ratios already are left out.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.compare import Result, load

PAIRS = 3
COSTS = {"us", "ms", "s", "s/M", "B"}
"""Units of which less is better."""
RATIO = "x"


def start(tree: Path, core: int, benchmark: str, file: Path) -> subprocess.Popen[str]:
    """Start a benchmark of a tree on one core; it writes its results to the file."""
    name, *arguments = shlex.split(benchmark)
    script = tree / "bench" / f"bench_{name}.py"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)])}
    return subprocess.Popen(
        ["taskset", "--cpu-list", str(core), sys.executable, str(script), *arguments, "--json", str(file)],
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_once(trees: list[Path], cores: list[int], benchmark: str) -> list[dict[str, Result]]:
    """Run a benchmark of both trees at once. Returns the results of each."""
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory, f"{number}.json") for number in range(len(trees))]
        runs = [start(tree, core, benchmark, file) for tree, core, file in zip(trees, cores, files, strict=True)]
        try:
            for tree, run in zip(trees, runs, strict=True):
                output, _ = run.communicate()
                if run.returncode:
                    raise RuntimeError(f"{benchmark} of {tree} failed:\n{output}")
        finally:
            for run in runs:
                run.kill()
                run.wait()
        return [load(file) for file in files]


def ratio(this: Result, other: Result) -> float | None:
    """Return how many times as good a result is, or None where that cannot be said."""
    if this.unit != other.unit or this.unit == RATIO or this.value <= 0 or other.value <= 0:
        return None
    return other.value / this.value if this.unit in COSTS else this.value / other.value


def ratios_of_run(results: list[dict[str, Result]]) -> dict[str, float]:
    this, other = results
    found = {name: ratio(this[name], other[name]) for name in this if name in other}
    return {name: value for name, value in found.items() if value is not None}


def measure_pair(trees: list[Path], benchmark: str) -> dict[str, float]:
    """Run a benchmark twice, with exchanged cores. Returns the mean ratio of each result."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    there, back = (ratios_of_run(run_once(trees, order, benchmark)) for order in (cores, cores[::-1]))
    return {name: math.sqrt(there[name] * back[name]) for name in there if name in back}


def measure(trees: list[Path], benchmark: str, pairs: int) -> Iterator[str]:
    """Yield a line for each result: median of all pairs, least and greatest."""
    measured = [measure_pair(trees, benchmark) for _ in range(pairs)]
    for name in measured[0]:
        values = [pair[name] for pair in measured if name in pair]
        yield f"{name:<58} {statistics.median(values):6.3f}x  ({min(values):.3f} to {max(values):.3f})"


def main(arguments: list[str]) -> int:
    command = argparse.ArgumentParser(description="compare the speed of this tree with another one")
    command.add_argument("other", type=Path, help="the root of a tree that is compiled in place")
    command.add_argument("benchmarks", nargs="+", help="names of benchmarks, each with its arguments")
    command.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of runs, {PAIRS} by default")
    options = command.parse_args(arguments)
    if len(os.sched_getaffinity(0)) < 2:
        print("beside: two cores are needed, and this process may use one", file=sys.stderr)
        return 1
    trees = [Path(__file__).resolve().parent.parent, options.other.resolve()]
    try:
        for benchmark in options.benchmarks:
            for line in measure(trees, benchmark, options.pairs):
                print(line, flush=True)
    except RuntimeError as error:
        print(f"beside: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
