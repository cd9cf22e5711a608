"""Compares two runs of the benchmarks: `python bench/compare.py old new`, each a result file or a directory.

Every benchmark writes one file of this shape; the value is the median, the spread the quartiles around it:

    {"bench": "codec",
     "results": [{"name": "decode push", "value": 1.2e6, "unit": "msg/s", "spread": [1.1e6, 1.3e6]}]}

Prints new / old for each result found on both sides. A `~` marks overlapping spreads: no difference.
"""

import argparse
import statistics
import sys
from pathlib import Path

import msgspec


class Result(msgspec.Struct, frozen=True):
    """One measured number."""

    name: str
    value: float
    unit: str
    spread: tuple[float, float]

    @classmethod
    def of(cls, name: str, turns: list[float], unit: str) -> "Result":
        """Return the median of the values of all turns, and the quartiles around it."""
        lower, median, upper = statistics.quantiles(turns, n=4) if len(turns) > 1 else turns * 3
        return cls(name, median, unit, (lower, upper))

    def __str__(self) -> str:
        return f"{self.name:<46} {self.value:10,.4g} {self.unit:<7} ({self.spread[0]:,.4g} to {self.spread[1]:,.4g})"

    def overlaps(self, other: "Result") -> bool:
        return self.spread[0] <= other.spread[1] and other.spread[0] <= self.spread[1]


class Report(msgspec.Struct, frozen=True):
    """The results of one benchmark in one run."""

    bench: str
    results: list[Result]

    def write(self, file: Path) -> None:
        """Write it to a file, for a later comparison."""
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def load(path: Path) -> dict[str, Result]:
    """Read a result file, or all files of a directory, into results by benchmark and name."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    reports = [msgspec.json.decode(file.read_bytes(), type=Report) for file in files]
    return {f"{report.bench}: {result.name}": result for report in reports for result in report.results}


def compare(old: dict[str, Result], new: dict[str, Result]) -> list[str]:
    """Make one line per result of either side, ratios first."""
    both = [name for name in old if name in new]
    width = max(map(len, old | new), default=0)
    lines = [line(name.ljust(width), old[name], new[name]) for name in both]
    lines += [f"{name.ljust(width)}  only in the old run" for name in old if name not in new]
    lines += [f"{name.ljust(width)}  only in the new run" for name in new if name not in old]
    return lines


def line(name: str, old: Result, new: Result) -> str:
    if old.unit != new.unit:
        return f"{name}  not comparable: {old.unit} and {new.unit}"
    ratio = f"{new.value / old.value:8.2f}x" if old.value else "        -"
    mark = "~" if old.overlaps(new) else " "
    return f"{name}  {ratio} {mark}  {old.value:12,.4g} -> {new.value:12,.4g} {new.unit}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="compare two runs of the benchmarks")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args(arguments)
    try:
        lines = compare(load(options.old), load(options.new))
    except (OSError, msgspec.DecodeError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines) or "nothing to compare")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
