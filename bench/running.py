"""The command line of benchmarks that measure line by line, each line in turns, between processes of their own."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from bench.compare import Report, Result

Line: TypeAlias = tuple[str, Callable[[], Iterator[Result]]]
"""A name to choose it by, and what measures it."""
Be: TypeAlias = Callable[[str, str, str, int, int], None]
"""Plays a role in a process of its own: its name, a package, a locator, a size, a count."""


def run(bench: str, about: str, lines: Callable[[int], Iterable[Line]], turns: int, be: Be) -> None:
    """Measures the lines that were asked for, or plays the role that this process was started for."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the results there, for bench/compare.py")
    parser.add_argument("--only", default="", help="only the lines whose names contain one of these, by commas")
    parser.add_argument("--turns", type=int, default=turns)
    parser.add_argument("--role", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        role, package, locator, size, count = options.role
        be(role, package, locator, int(size), int(count))
        return
    found = []
    for name, measure in lines(options.turns):
        if any(word in name for word in options.only.split(",")):
            for result in measure():
                print(result, flush=True)
                found.append(result)
    if options.json:
        Report(bench, found).write(options.json)
