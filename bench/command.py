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
"""A name that `--only` selects by, and the function that measures it."""
RunRole: TypeAlias = Callable[[str, str, str, int, int], None]
"""Runs a role in a process of its own: name of the role, package, locator, size, count."""


def parser(about: str | None) -> argparse.ArgumentParser:
    """Make the parser of a benchmark, described by the first line of its docstring."""
    command = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    command.add_argument("--json", type=Path, help="write the results there, for bench/compare.py")
    return command


def report(bench: str, results: Iterable[Result], file: Path | None) -> None:
    """Print results as they come, and write them to the file, if there is one."""
    printed = []
    for result in results:
        print(result, flush=True)
        printed.append(result)
    if file is not None:
        Report(bench, printed).write(file)


def run(
    bench: str,
    about: str | None,
    lines: Callable[[int], Iterable[Line]],
    turns: int,
    run_role: RunRole,
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
        run_role(role, package, locator, int(size), int(count))
        return
    selected_words = options.only.split(",")
    all_lines = lines(options.turns)
    if lines_beside is not None and options.beside:
        all_lines = lines_beside(options.turns, f"{OURS}@{options.beside}")
    selected = (measure for name, measure in all_lines if any(word in name for word in selected_words))
    report(bench, (result for measure in selected for result in measure()), options.json)
