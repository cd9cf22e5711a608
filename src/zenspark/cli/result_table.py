"""Results of queries as tables and cards that fit the width of a terminal.

A table has as many columns as fit. `key` and the value come first and are cut last; columns that do not fit are left
out and named below the table. Few rows that do not fit are shown as cards, one line for each column. Without a width,
in a pipe, everything is shown in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from rich.cells import cell_len, set_cell_size

from zenspark.cli.result_cells import format_columns, is_right_aligned
from zenspark.cli.screen import wrap_text

IMPORTANT_COLUMNS = ("key", "value", "payload")
"""Columns that are shown first and cut last."""
COLUMN_GAP = "  "
MAX_COLUMN_WIDTH = 32
"""Width from which a column may be cut to show another one; not for important ones."""
MIN_IMPORTANT_WIDTH = 24
"""Width of an important column that is kept for it."""
MAX_CARD_ROWS = 2
"""Rows up to which a result that does not fit is shown as cards."""
MAX_PRINTED_ROWS = 1000
"""Rows of a table that are shown; other formats show all."""

Style = Callable[[str, str], str]
"""Adds the escape codes of a style to a text."""


def no_style(text: str, style: str) -> str:
    """Leave a text as it is."""
    return text


@dataclass(frozen=True)
class Column:
    """A column of a table: its cells as texts, its natural width and its actual one."""

    name: str
    cells: Sequence[str]
    is_right: bool
    natural: int
    width: int

    @property
    def is_important(self) -> bool:
        return self.name in IMPORTANT_COLUMNS

    @property
    def min_width(self) -> int:
        """Minimum width of the column if it is shown."""
        return min(self.natural, MIN_IMPORTANT_WIDTH if self.is_important else MAX_COLUMN_WIDTH)


def render(
    rows: pa.Table, width: int | None = None, *, cards: bool | None = None, style: Style = no_style
) -> list[str]:
    """Render rows as lines of at most `width` columns; `cards` None chooses by what fits."""
    columns = _make_columns(rows, is_short=width is not None)
    shown = columns if width is None else choose_columns(columns, width)
    if cards or (cards is None and rows.num_rows in range(1, MAX_CARD_ROWS + 1) and _is_cut(columns, shown)):
        return list(_render_cards(_make_columns(rows, is_short=False), rows.num_rows, width, style))
    lines = list(_render_table(shown, rows.num_rows, style))
    lines.append(_count(rows.num_rows, "row"))
    if len(shown) < len(columns):
        lines += _name_left_out(columns, shown, width or 0)
    return lines


def _make_columns(rows: pa.Table, *, is_short: bool) -> list[Column]:
    columns = []
    for field, cells in zip(rows.schema, format_columns(rows, is_short=is_short), strict=True):
        natural = max([cell_len(field.name), *map(cell_len, cells)])
        columns.append(Column(field.name, cells, is_right_aligned(field.type), natural, natural))
    return columns


def choose_columns(columns: Sequence[Column], width: int) -> list[Column]:
    """Choose the columns that fit, in their order, and their widths."""
    ranked = sorted(range(len(columns)), key=lambda index: (_rank(columns[index]), index))
    chosen: list[int] = []
    left = width
    for index in ranked:
        needed = columns[index].min_width + (len(COLUMN_GAP) if chosen else 0)
        if needed > left and chosen:
            if _rank(columns[index]) == len(IMPORTANT_COLUMNS):
                break  # columns after it are not shown in its index: the first ones count most
            continue
        chosen.append(index)
        left -= needed
    return _widen([columns[index] for index in sorted(chosen)], width)


def _rank(column: Column) -> int:
    return IMPORTANT_COLUMNS.index(column.name) if column.is_important else len(IMPORTANT_COLUMNS)


def _widen(columns: Sequence[Column], width: int) -> list[Column]:
    """Give columns the width that is left, important ones first."""
    widths = [min(column.min_width, width) for column in columns]
    left = width - sum(widths) - len(COLUMN_GAP) * (len(columns) - 1)
    for index in sorted(range(len(columns)), key=lambda index: _rank(columns[index])):
        more = min(max(left, 0), columns[index].natural - widths[index])
        widths[index] += more
        left -= more
    return [
        Column(column.name, column.cells, column.is_right, column.natural, new_width)
        for column, new_width in zip(columns, widths, strict=True)
    ]


def _is_cut(columns: Sequence[Column], shown: Sequence[Column]) -> bool:
    return len(shown) < len(columns) or any(column.width < column.natural for column in shown)


def _render_table(columns: Sequence[Column], rows: int, style: Style) -> Iterator[str]:
    yield COLUMN_GAP.join(style(_fit(column.name, column), "bold") for column in columns).rstrip()
    yield style(COLUMN_GAP.join("─" * column.width for column in columns), "dim")
    for row in range(rows):
        yield COLUMN_GAP.join(_fit(column.cells[row], column) for column in columns).rstrip()


def _fit(text: str, column: Column) -> str:
    size = cell_len(text)
    if size > column.width:
        return set_cell_size(text, column.width - 1) + "…" if column.width > 1 else "…"
    blanks = " " * (column.width - size)
    return blanks + text if column.is_right else text + blanks


def _name_left_out(columns: Sequence[Column], shown: Sequence[Column], width: int) -> list[str]:
    shown_ids = {id(column.cells) for column in shown}
    names = ", ".join(column.name for column in columns if id(column.cells) not in shown_ids)
    text = f"{len(columns)} columns, {len(shown)} shown; left out: {names}"
    return wrap_text(text, max(width, 20))


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# --- cards ------------------------------------------------------------------------------------------------------------


def _render_cards(columns: Sequence[Column], rows: int, width: int | None, style: Style) -> Iterator[str]:
    names = max((cell_len(column.name) for column in columns), default=0)
    for row in range(rows):
        title = f"── row {row + 1} "
        yield style(title + "─" * max((width or 40) - len(title), 0), "dim")
        for column in columns:
            label = style(column.name + " " * (names - cell_len(column.name)), "bold")
            lines = _wrap(column.cells[row], None if width is None else max(width - names - len(COLUMN_GAP), 10))
            yield f"{label}{COLUMN_GAP}{lines[0]}".rstrip()
            yield from (f"{' ' * names}{COLUMN_GAP}{line}" for line in lines[1:])
    yield _count(rows, "row")


def _wrap(text: str, width: int | None) -> list[str]:
    return [text] if width is None else wrap_text(text, width) or [""]
