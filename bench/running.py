"""Command line and output shared by all benchmarks."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from bench.compare import Report, Result

OURS, THEIRS = "zenspark", "zenoh"
"""Packages: ours, and eclipse-zenoh's; `zenspark@SRC` is the zenspark in another directory."""

Line: TypeAlias = tuple[str, Callable[[], Iterator[Result]]]
"""A name to choose it by, and what measures it."""
Be: TypeAlias = Callable[[str, str, str, int, int], None]
"""Plays a role in a process of its own: its name, a package, a locator, a size, a count."""


def parser(about: str | None) -> argparse.ArgumentParser:
    """Make the parser of a benchmark, described by the first line of its docstring."""
    made = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    made.add_argument("--json", type=Path, help="write the results there, for bench/compare.py")
    return made


def report(bench: str, results: Iterable[Result], file: Path | None) -> None:
    """Prints results as they come, and keeps them if there is a file for them."""
    found = []
    for result in results:
        print(result, flush=True)
        found.append(result)
    if file is not None:
        Report(bench, found).write(file)


def run(
    bench: str,
    about: str | None,
    lines: Callable[[int], Iterable[Line]],
    turns: int,
    be: Be,
    lines_beside: Callable[[int, str], Iterable[Line]] | None = None,
) -> None:
    """Measure the selected lines in turns, or run the role that this process was started for.

    `lines_beside` makes the lines that compare with another build of zenspark, whose package it is given.
    """
    command = parser(about)
    command.add_argument("--only", default="", help="only the lines whose names contain one of these, by commas")
    command.add_argument("--turns", type=int, default=turns)
    if lines_beside is not None:
        command.add_argument("--beside", metavar="SRC", help="compare with the zenspark in the src directory of a tree")
    command.add_argument("--role", nargs=5, help=argparse.SUPPRESS)
    options = command.parse_args()
    if options.role:
        role, package, locator, size, count = options.role
        be(role, package, locator, int(size), int(count))
        return
    wanted = options.only.split(",")
    all_lines = lines(options.turns)
    if lines_beside is not None and options.beside:
        all_lines = lines_beside(options.turns, f"{OURS}@{options.beside}")
    chosen = (measure for name, measure in all_lines if any(word in name for word in wanted))
    report(bench, (result for measure in chosen for result in measure()), options.json)
