"""Reads the conformance rows: every statement of the specification pages, with the tests that show it.

There is one file per page, `tests/conformance/push.toml` beside `test_push.py`. TOML, because people edit these files
more often than programs read them: no quoting of code in mutations, comments are allowed, and one row changes in one
place of a diff. A file looks like this:

    title = "Push"
    about = "PUSH, PUT and DEL."

    [[section]]
    title = "Publications"

    [[section.row]]
    id = "PU-1"
    statement = "A PUSH goes to all subscribers whose key expression intersects its own"
    status = "shown"                   # or "differs"
    tests = ["tests/unit/router/test_router.py::test_a_publication_reaches_a_subscriber_through_a_router_once"]
    note = "only what is in neither the statement nor the tests"

    [[section.row.mutation]]           # a violation of the statement, which at least one of the tests must detect
    file = "src/zenspark/router/routing/tables.py"
    find = '''exactly once in that file'''
    replace = '''what violates the statement'''

A row that `differs` has four more fields: `place`, a section or row of docs/protocol.md; `eclipse`, what 1.10.2 does,
with captured bytes; `zenspark`, what zenspark does; `reason`, why it stays so.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
DIRECTORY = Path("tests/conformance")
PAGES = ("message_reference", "push", "query", "reply", "routing")

ID = re.compile(r"\b[A-Z]{2}-\d+")

SHOWN, DIFFERS = "shown", "differs"
STATUSES = (SHOWN, DIFFERS)


class Mutation(NamedTuple):
    """A change of one source file that violates a statement."""

    file: str
    find: str
    replace: str

    def applied(self, text: str) -> str:
        """Return the text of the file with the change; `find` must be in it exactly once."""
        if text.count(self.find) != 1:
            raise ValueError(f"{self.file} has {text.count(self.find)} times {self.find!r}")
        return text.replace(self.find, self.replace)


class Row(NamedTuple):
    """One statement of a page."""

    id: str
    statement: str
    status: str
    tests: tuple[str, ...]
    note: str = ""
    place: str = ""
    eclipse: str = ""
    zenspark: str = ""
    reason: str = ""
    mutations: tuple[Mutation, ...] = ()

    @property
    def prefix(self) -> str:
        return self.id.partition("-")[0]

    @property
    def number(self) -> int:
        return int(self.id.partition("-")[2])


class Section(NamedTuple):
    """Rows under one heading."""

    title: str
    rows: tuple[Row, ...]


class Page(NamedTuple):
    """One page of the specification."""

    file: Path
    title: str
    about: str
    sections: tuple[Section, ...]

    @property
    def rows(self) -> list[Row]:
        return [row for section in self.sections for row in section.rows]


def read_pages(root: Path) -> list[Page]:
    """Read every page, in the order of the specification."""
    return [
        read_page(root, DIRECTORY / f"{page}.toml") for page in PAGES if (root / DIRECTORY / f"{page}.toml").exists()
    ]


def read_page(root: Path, file: Path) -> Page:
    """Read one page; an unknown field raises `TypeError`, an id of another form `ValueError`."""
    document = tomllib.loads((root / file).read_text())
    sections = tuple(read_section(**section) for section in document.pop("section"))
    return Page(file, sections=sections, **document)


def read_section(title: str, row: list[dict[str, Any]]) -> Section:
    return Section(title, tuple(read_row(**fields) for fields in row))


def read_row(id: str, tests: list[str], mutation: list[dict[str, str]] | None = None, **fields: str) -> Row:
    if not ID.fullmatch(id):
        raise ValueError(f"{id!r} is not the id of a row")
    return Row(id, tests=tuple(tests), mutations=tuple(Mutation(**fields) for fields in mutation or ()), **fields)
