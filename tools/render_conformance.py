"""Write the rows into docs/conformance.md; with `--check`, only check that it is fresh."""

import sys
from collections import Counter
from pathlib import Path

from tools.conformance import DIFFERS, ROOT, STATUSES, Page, Row, read_pages
from tools.generated_parts import replace_part, write_or_check

TARGET = Path("docs/conformance.md")
BEGIN, END = "<!-- rows: written by tools/render_conformance.py -->\n", "<!-- end of rows -->\n"

TOTAL = "all"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Render a table in Markdown."""
    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)])


def line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def counts(rows: list[Row]) -> list[str]:
    """Count the rows of each status, all rows, and those with mutations."""
    by_status = Counter(row.status for row in rows)
    mutated = sum(bool(row.mutations) for row in rows)
    return [*(str(by_status[status]) for status in STATUSES), str(len(rows)), str(mutated)]


def count_table(pages: list[Page]) -> str:
    every = [row for page in pages for row in page.rows]
    lines = [*([page.title, *counts(page.rows)] for page in pages), [TOTAL, *counts(every)]]
    return table(["page", *STATUSES, "rows", "with a mutation"], lines)


def evidence(row: Row) -> str:
    """Join what 1.10.2 and zenspark do where they differ from the page, the tests, and the note."""
    parts = []
    if row.status == DIFFERS:
        parts = [f"{row.place}. 1.10.2: {row.eclipse}", f"zenspark: {row.zenspark}"]
    parts.append(", ".join(f"`{test}`" for test in row.tests))
    if row.note:
        parts.append(row.note)
    return "; ".join(parts)


def differences(pages: list[Page]) -> str:
    """Render every row that differs, with its reason."""
    lines = [
        [row.id, row.statement, row.eclipse, row.zenspark, row.reason]
        for page in pages
        for row in page.rows
        if row.status == DIFFERS
    ]
    return f"## Where zenspark differs\n\n{table(['id', 'the page', '1.10.2', 'zenspark', 'reason'], lines)}"


def page_text(page: Page) -> str:
    """Render one page, a table for each section."""
    parts = [f"## {page.title}", page.about]
    for section in page.sections:
        lines = [[row.id, row.statement, row.status, evidence(row)] for row in section.rows]
        parts += [f"### {section.title}", table(["id", "statement or field", "status", "evidence"], lines)]
    return "\n\n".join(parts)


def rendered(pages: list[Page]) -> str:
    """Render the counts, the list of differences, and the pages."""
    return "\n\n".join([count_table(pages), differences(pages), *map(page_text, pages)])


def renewed(text: str, pages: list[Page]) -> str:
    """Return the document with fresh rows."""
    return replace_part(text, BEGIN, END, f"\n{rendered(pages)}\n\n")


def main(arguments: list[str], root: Path = ROOT) -> int:
    pages = read_pages(root)
    return write_or_check(root / TARGET, lambda text: renewed(text, pages), arguments, "make conformance")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
