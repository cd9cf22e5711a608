"""Finds the tests that run a line of the sources, and how long they take.

The tests run once, interpreted, with coverage.py (`tools/record_lines.py`); the result is kept in `build/mutations/`
until sources or tests change.
"""

import ast
import functools
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from coverage import CoverageData

from tools.mutants import OPTIONS, Copy, digest_of, failed

LINES = Path("build/mutations/lines.coverage")
SECONDS = Path("build/mutations/seconds.json")
RECORDER = Path(__file__).with_name("record_lines.py")
TIMEOUT_SECONDS = 3600.0


class Place(NamedTuple):
    """Lines of a statement without those of statements inside it."""

    lines: range
    in_function: bool
    """Whether it is in a function; else it runs when the module is imported."""


class Covering(NamedTuple):
    """Tests that run a place, and whether it also runs before any test, for instance in a fixture or at import."""

    tests: tuple[str, ...]
    before: bool


class Coverage:
    """The lines that each test has run."""

    def __init__(self, data: CoverageData, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self._tests_by_line = functools.cache(data.contexts_by_lineno)

    def of(self, file: str, place: Place, parts: Iterable[str]) -> Covering:
        """Return the tests below some files or directories that run a line of a place, the fastest first."""
        by_line = self._tests_by_line(file)
        contexts = {context for line in place.lines for context in by_line.get(line, ())}
        within = tuple(parts)
        tests = (test for test in contexts if test in self.seconds and is_below(test, within))
        return Covering(tuple(sorted(tests, key=self.order)), "" in contexts)

    def order(self, test: str) -> tuple[float, str]:
        return self.seconds[test], test

    def slowest(self, stage: Iterable[str]) -> float:
        """Return the seconds of the slowest of some tests, or of the tests in some files or directories."""
        named = set(stage)
        single = [self.seconds[test] for test in named & self.seconds.keys()]
        parts = tuple(named - self.seconds.keys())
        return max([*single, *(seconds for test, seconds in self.seconds.items() if is_below(test, parts))], default=0)


def is_below(test: str, parts: tuple[str, ...]) -> bool:
    """Whether a test is in one of some files or directories."""
    file = test.partition("::")[0]
    return any(file == part or file.startswith(f"{part}/") for part in parts)


def coverage_of(root: Path, tests: Iterable[str]) -> Coverage:
    """Return the lines that tests run, from the last recording if nothing has changed."""
    named = list(tests)
    key = hashlib.sha256("\n".join([digest_of(root), *named]).encode()).hexdigest()
    if not (root / SECONDS).exists() or json.loads((root / SECONDS).read_text())["key"] != key:
        record(root, named, key)
    data = CoverageData(str(root / LINES))
    data.read()
    return Coverage(data, json.loads((root / SECONDS).read_text())["seconds"])


def record(root: Path, tests: list[str], key: str) -> None:
    """Run the tests in a copy of the project, and keep the lines they ran and the seconds they took."""
    print("running all tests once, to record the lines they run", flush=True)
    (root / LINES).parent.mkdir(parents=True, exist_ok=True)
    (root / SECONDS).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        lines, seconds = Path(directory, "lines"), Path(directory, "seconds")
        options = ("-P", str(RECORDER), str(lines), str(seconds), *OPTIONS)
        status, output = Copy(root, Path(directory, "unchanged")).python([*options, *tests], True, TIMEOUT_SECONDS)
        if status not in (0, 1):
            raise SystemExit(f"the tests could not be run without any mutation\n{output}")
        for test in failed(output):
            print(f"{test} fails without any mutation, and is left out", flush=True)
        shutil.copyfile(lines, root / LINES)
        (root / SECONDS).write_text(json.dumps({"key": key, "seconds": json.loads(seconds.read_text())}, indent=1))


def places(source: str) -> dict[int, Place]:
    """Map each line to the innermost place at it."""
    return {line: place for place in places_in(ast.parse(source), False) for line in place.lines}


def places_in(tree: ast.AST, in_function: bool) -> Iterator[Place]:
    """Yield places from the outermost to the innermost; cases and exception handlers are places, too."""
    if isinstance(tree, ast.stmt | ast.excepthandler | ast.match_case):
        yield Place(range(first_line(tree), last_line(tree) + 1), in_function)
    inside = in_function or isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    for child in ast.iter_child_nodes(tree):
        yield from places_in(child, inside)


def first_line(tree: ast.stmt | ast.excepthandler | ast.match_case) -> int:
    return tree.pattern.lineno if isinstance(tree, ast.match_case) else tree.lineno


def last_line(tree: ast.stmt | ast.excepthandler | ast.match_case) -> int:
    """Return the last line before the first statement inside, or of the whole statement if there is none."""
    inner = [*getattr(tree, "body", ()), *getattr(tree, "cases", ())]
    last: int = first_line(inner[0]) - 1 if inner else getattr(tree, "end_lineno", 0)
    return max(first_line(tree), last)
