"""Tables and cards that fit their width."""

from __future__ import annotations

import pyarrow as pa
import pytest
from rich.cells import cell_len

from zenspark.cli.result_table import render
from zenspark.lake.specs import JOURNAL_SCHEMA


def wide(rows: int) -> pa.Table:
    """Rows of `latest` with a long key and a long payload."""
    made = {
        field.name: pa.array([None] * rows, field.type)
        for field in JOURNAL_SCHEMA
        if field.name not in ("key", "payload")
    }
    made["encoding"] = pa.array(["application/json"] * rows)
    keys, payloads = ["fleet/north/robot-17/pose"] * rows, [b'{"x": 1.25, "y": 2.5}'] * rows
    return pa.table({"key": keys, "payload": payloads} | made).select(JOURNAL_SCHEMA.names)


def test_numbers_to_the_right_and_the_number_of_rows_below() -> None:
    rows = pa.table({"name": ["a", "ü漢"], "n": [1, 200]})
    assert render(rows, 80) == ["name    n", "────  ───", "a       1", "ü漢   200", "2 rows"]


@pytest.mark.parametrize("width", [120, 80, 60, 40, 28])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for count in (1, 2, 5):
        lines = render(wide(count), width)
        assert max(map(cell_len, lines)) <= width


def test_columns_that_do_not_fit_are_named() -> None:
    lines = render(wide(5), 80)
    assert lines[0].split() == ["key", "kind", "payload", "encoding"]
    assert "fleet/north/robot-17/pose" in lines[2]
    assert '{"x": 1.25, "y": 2.5}' in lines[2]
    text = " ".join(lines[lines.index("5 rows") + 1 :])
    assert text.startswith("19 columns, 4 shown; left out: timestamp, ")
    assert text.endswith("recorder, offset")


def test_key_and_value_are_not_cut_before_others() -> None:
    rows = pa.table({"a": ["x" * 30] * 3, "b": ["y" * 30] * 3, "value": ["v" * 20] * 3, "key": ["k" * 30] * 3})
    lines = render(rows, 60)
    assert lines[0].split() == ["value", "key"]
    assert lines[2] == f"{'v' * 20}  {'k' * 30}"
    assert lines[-1] == "4 columns, 2 shown; left out: a, b"


def test_a_long_value_is_cut_with_a_mark() -> None:
    rows = pa.table({"key": ["k"] * 3, "value": ["v" * 200] * 3})
    assert render(rows, 40)[2] == f"k    {'v' * 34}…"


def test_few_wide_rows_are_cards() -> None:
    lines = render(wide(2), 80)
    assert lines[0].startswith("── row 1 ─")
    assert "key              fleet/north/robot-17/pose" in lines
    assert lines[-1] == "2 rows"
    assert not render(wide(2), 80, cards=False)[0].startswith("──")
    assert render(pa.table({"n": [1]}), 80, cards=True)[1] == "n  1"
    assert not render(pa.table({"n": [1]}), 80)[0].startswith("──")


def test_a_long_value_of_a_card_is_wrapped() -> None:
    rows = pa.table({"key": ["a"], "value": ["word " * 30]})
    lines = render(rows, 40, cards=True)
    assert all(cell_len(line) <= 40 for line in lines)
    assert lines[3].startswith("       word")


def test_without_a_width_everything_is_shown() -> None:
    lines = render(wide(2))
    assert len(lines[0].split()) == 19
    assert lines[-1] == "2 rows"


def test_empty_table_and_equal_column_names_are_rendered() -> None:
    assert render(pa.table({"n": pa.array([], pa.int64())}), 80) == ["n", "─", "0 rows"]
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"])
    assert render(twice, 80)[2] == "1  2"


def test_header_and_rule_of_a_table_are_styled() -> None:
    lines = render(pa.table({"n": [1]}), 80, style=lambda text, style: f"<{style}>{text}")
    assert lines[:2] == ["<bold>n", "<dim>─"]
