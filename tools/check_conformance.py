"""Checks the conformance rows against the tests they name, and those tests against them.

Prints each problem and exits 1 if there is one. The rules:

- ids are unique and ascend, with one prefix on each page;
- every row names a test, and every test named exists;
- a row that differs has what 1.10.2 does, in bytes or with the words "no bytes", what zenspark does, and why;
- a row shown by more than the bytes of tests/conformance has a mutation;
- a mutation changes its file at one place, and the changed file is still Python;
- a test in tests/conformance begins its docstring with the ids of exactly those rows that name it.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tools.conformance import DIFFERS, DIRECTORY, ID, ROOT, STATUSES, Mutation, Page, Row, read_pages

ID_OR_RANGE = re.compile(r"\b([A-Z]{2})-(\d+)(?: to \1-(\d+))?")
HEX = re.compile(r"`(?:[0-9a-f]{2})+(?: (?:[0-9a-f]{2})+)*`")


def problems(root: Path) -> list[str]:
    """Return the problems, one line each."""
    pages = read_pages(root)
    rows = [row for page in pages for row in page.rows]
    return [
        *find_repeated_ids(rows),
        *(f"{page.file}: {problem}" for page in pages for problem in find_misplaced_ids(page)),
        *(
            f"{page.file}: {row.id} {problem}"
            for page in pages
            for row in page.rows
            for problem in find_status_problems(row)
        ),
        *(f"{page.file}: {problem}" for page in pages for problem in find_missing_tests(page, root)),
        *(f"{row.id} {problem}" for row in rows for problem in find_useless_mutations(row, root)),
        *find_one_sided_references(rows, root),
    ]


def find_repeated_ids(rows: list[Row]) -> Iterator[str]:
    """Name every id that several rows have."""
    for id_, count in Counter(row.id for row in rows).items():
        if count > 1:
            yield f"{id_} is there {count} times"


def find_misplaced_ids(page: Page) -> Iterator[str]:
    """Name every id out of order, or with the prefix of another page."""
    for before, row in pairwise(page.rows):
        if row.prefix != before.prefix:
            yield f"{row.id} stands among rows that begin with {before.prefix}"
        elif row.number < before.number:
            yield f"{row.id} comes after {before.id}"


def find_status_problems(row: Row) -> Iterator[str]:
    """Name the fields that a row lacks for its status, or has in spite of it."""
    differs = row.status == DIFFERS
    if row.status not in STATUSES:
        yield f"has the status {row.status!r} instead of {' or '.join(STATUSES)}"
    if not row.tests:
        yield "names no test"
    for name in ("place", "eclipse", "zenspark", "reason"):
        if bool(getattr(row, name)) is not differs:
            yield f"is {row.status!r} {'without' if differs else 'with'} {name!r}"
    if not row.mutations and not all(test.startswith(f"{DIRECTORY.as_posix()}/") for test in row.tests):
        yield "is about behaviour but has no mutation"
    if differs and not (HEX.search(row.eclipse) or "no bytes" in row.eclipse):
        yield "differs but has no captured bytes"


def find_missing_tests(page: Page, root: Path) -> Iterator[str]:
    """Name every test that a row names and that does not exist."""
    known: dict[str, set[str]] = {}
    for row in page.rows:
        for test in row.tests:
            file, _, name = test.partition("::")
            if file not in known:
                known[file] = set(tests_in(root / file))
            if "[" in name:
                yield f"{row.id} names one case, {test}; name the whole test"
            elif name not in known[file]:
                yield f"{row.id} names {test}, which does not exist"


def tests_in(file: Path) -> dict[str, str]:
    """Map the tests of a file, `Class::test` inside a class, to their docstrings."""
    if not file.exists():
        return {}
    found = {}
    for node in ast.parse(file.read_text()).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        before = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for function in inside:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test"):
                found[before + function.name] = ast.get_docstring(function) or ""
    return found


def find_useless_mutations(row: Row, root: Path) -> Iterator[str]:
    """Name every mutation that cannot be applied, or changes nothing that runs."""
    for mutation in row.mutations:
        if problem := find_defect(mutation, root):
            yield f"has a mutation that {problem}"


def find_defect(mutation: Mutation, root: Path) -> str | None:
    """Return what is wrong with a mutation, or None."""
    file = root / mutation.file
    if not file.exists():
        return f"changes {mutation.file}, which does not exist"
    text = file.read_text()
    try:
        changed = ast.parse(mutation.applied(text))
    except ValueError as error:
        return f"does not apply: {error}"
    except SyntaxError as error:
        return f"makes {mutation.file} unreadable: {error}"
    return "changes nothing" if ast.dump(changed) == ast.dump(ast.parse(text)) else None


def find_one_sided_references(rows: list[Row], root: Path) -> Iterator[str]:
    """Name every row that a conformance test names in its docstring and that does not name the test, or vice versa."""
    for file in sorted((root / DIRECTORY).glob("test_*.py")):
        for name, docstring in tests_in(file).items():
            test = f"{DIRECTORY.as_posix()}/{file.name}::{name}"
            named = set(ids_of(docstring, rows))
            naming = {row.id for row in rows if test in row.tests}
            if not ID.match(docstring):
                yield f"{test} does not begin its docstring with the id of a row"
            for id_ in sorted(named - {row.id for row in rows}):
                yield f"{test} names {id_}, which is no row"
            for row in rows:
                if row.id in naming - named:
                    yield f"{test} does not name {row.id}, which names it"
                elif row.id in named - naming:
                    yield f"{test} names {row.id}, which does not name it"


def ids_of(docstring: str, rows: list[Row]) -> Iterator[str]:
    """Yield the row ids in a docstring; `MR-3 to MR-6` stands for the rows between as well."""
    for prefix, first, last in ID_OR_RANGE.findall(docstring):
        yield f"{prefix}-{first}"
        if last:
            yield f"{prefix}-{last}"
            between = range(int(first), int(last))
            yield from (row.id for row in rows if row.prefix == prefix and row.number in between)


def main(root: Path = ROOT) -> int:
    found = problems(root)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
