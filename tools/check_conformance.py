"""Checks docs/conformance.md against the tests it names, and those tests against it.

Prints each problem and exits 1 if there is one. A row is `| MR-12 | statement | status | evidence |` in the section of
its page; the sections follow an introduction with a table of counts. What must hold:

- ids are unique and ascend, with one prefix in each section;
- `shown` and `differs` name a test, and every test named exists;
- `differs` also says what 1.10.2 does, in bytes or with the words "no bytes", and what zenspark does;
- `open` says what it waits for, sessions or the router;
- the counts in the introduction are those of the rows;
- a test in tests/conformance begins its docstring with the ids of exactly those rows that name it.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = Path("docs/conformance.md")
TESTS = Path("tests/conformance")

STATUSES = ("shown", "differs", "open")
TOTAL = "all"
ID = re.compile(r"\b[A-Z]{2}-\d+")
ID_OR_RANGE = re.compile(r"\b([A-Z]{2})-(\d+)(?: to \1-(\d+))?")
TEST = re.compile(r"tests/[\w/]+\.py::\w+(?:::\w+)*(?:\[.*?\])?")
CELLS = re.compile(r"(?<!\\)\|")
HEX = re.compile(r"`(?:[0-9a-f]{2})+(?: (?:[0-9a-f]{2})+)*`")


class Row(NamedTuple):
    """One statement of a page."""

    id: str
    status: str
    evidence: str

    @property
    def prefix(self) -> str:
        return self.id.partition("-")[0]

    @property
    def number(self) -> int:
        return int(self.id.partition("-")[2])

    @property
    def tests(self) -> list[str]:
        return TEST.findall(self.evidence)


class Document(NamedTuple):
    """The page taken apart: rows by section, the counts the introduction claims, and lines that make no sense."""

    sections: dict[str, list[Row]]
    claims: dict[str, list[str]]
    garbled: list[str]

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.sections.values() for row in rows]


def parse(text: str) -> Document:
    """Takes the page apart; lines outside tables are for people."""
    document = Document({}, {}, [])
    section = ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:].strip()
            document.sections[section] = []
        cells = [cell.strip() for cell in CELLS.split(line)[1:-1]]
        if section and len(cells) == 4 and ID.fullmatch(cells[0]):
            document.sections[section].append(Row(cells[0], cells[2], cells[3]))
        elif not section and len(cells) == 5 and cells[1].isdigit():
            document.claims[cells[0]] = cells[1:]
        elif section and cells and cells[0] != "id" and not set(line) <= set("|-: "):
            document.garbled.append(line)
    return document


def problems(root: Path) -> list[str]:
    """Says what is wrong, one line each."""
    document = parse((root / PAGE).read_text())
    return [
        *(f"{PAGE}: this is no row: {line}" for line in document.garbled),
        *misplaced(document),
        *miscounted(document),
        *(f"{PAGE}: {row.id} {problem}" for row in document.rows for problem in unfounded(row)),
        *missing_tests(document, root),
        *one_sided(document, root),
    ]


def misplaced(document: Document) -> Iterator[str]:
    """Ids that are there twice, out of order, or in the section of another page."""
    for id_, count in Counter(row.id for row in document.rows).items():
        if count > 1:
            yield f"{PAGE}: {id_} is there {count} times"
    for section, rows in document.sections.items():
        for before, row in pairwise(rows):
            if row.prefix != before.prefix:
                yield f"{PAGE}: {row.id} stands among the rows of {section!r}, which begin with {before.prefix}"
            elif row.number < before.number:
                yield f"{PAGE}: {row.id} comes after {before.id}"


def miscounted(document: Document) -> Iterator[str]:
    """Counts of the introduction that are not those of the rows."""
    actual = {title: counts(rows) for title, rows in document.sections.items() if rows} | {TOTAL: counts(document.rows)}
    for title, found in actual.items():
        claimed = document.claims.get(title)
        if claimed != found:
            yield f"{PAGE}: the introduction needs the line | {' | '.join([title, *found])} |"
    for title in document.claims.keys() - actual.keys():
        yield f"{PAGE}: the introduction counts {title!r}, which has no rows"


def counts(rows: list[Row]) -> list[str]:
    by_status = Counter(row.status for row in rows)
    return [str(by_status[status]) for status in STATUSES] + [str(len(rows))]


def unfounded(row: Row) -> Iterator[str]:
    """What the evidence of a row lacks for its status."""
    if row.status not in STATUSES:
        yield f"has the status {row.status!r} instead of {', '.join(STATUSES)}"
    if row.status in ("shown", "differs") and not row.tests:
        yield f"is {row.status!r} but names no test"
    if row.status == "differs" and not (HEX.search(row.evidence) or "no bytes" in row.evidence):
        yield "differs but has no captured bytes"
    if row.status == "differs" and not ("1.10.2" in row.evidence and "zenspark" in row.evidence):
        yield "differs but does not say what 1.10.2 does and what zenspark does"
    if row.status == "open" and not re.search(r"\b(sessions|router)\b", row.evidence):
        yield "is open but does not say whether for sessions or for the router"


def missing_tests(document: Document, root: Path) -> Iterator[str]:
    """Tests that are named and do not exist."""
    known: dict[str, set[str]] = {}
    for row in document.rows:
        for test in row.tests:
            file, _, name = test.partition("::")
            if file not in known:
                known[file] = set(tests_in(root / file))
            if "[" in name:
                yield f"{PAGE}: {row.id} names one case, {test}; name the whole test"
            elif name not in known[file]:
                yield f"{PAGE}: {row.id} names {test}, which does not exist"


def tests_in(file: Path) -> dict[str, str]:
    """The tests of a file by name, `Class::test` inside a class, and their docstrings."""
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


def one_sided(document: Document, root: Path) -> Iterator[str]:
    """Conformance tests whose docstrings and the page do not tell the same story."""
    for file in sorted((root / TESTS).glob("test_*.py")):
        for name, docstring in tests_in(file).items():
            test = f"{TESTS.as_posix()}/{file.name}::{name}"
            told = set(ids_of(docstring, document))
            naming = {row.id for row in document.rows if test in row.tests}
            if not ID.match(docstring):
                yield f"{test} does not begin its docstring with the id of a row"
            for id_ in sorted(told - {row.id for row in document.rows}):
                yield f"{test} names {id_}, which is no row"
            for row in document.rows:
                if row.id in naming - told:
                    yield f"{test} does not name {row.id}, which names it"
                elif row.id in told - naming:
                    yield f"{test} names {row.id}, which does not name it"


def ids_of(docstring: str, document: Document) -> Iterator[str]:
    """The row ids in a docstring; `MR-3 to MR-6` stands for the rows between as well."""
    for prefix, first, last in ID_OR_RANGE.findall(docstring):
        yield f"{prefix}-{first}"
        if last:
            yield f"{prefix}-{last}"
            between = range(int(first), int(last))
            yield from (row.id for row in document.rows if row.prefix == prefix and row.number in between)


def main() -> int:
    found = problems(ROOT)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
