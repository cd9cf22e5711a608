"""Words of a query in the dialect of the engine."""

import pytest

from zenspark.sql.dialect import has_words, split_first, translate


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("select offset from samples", 'select "offset" from samples'),
        ("select s.OFFSET+1, offset from samples s", 'select s."OFFSET"+1, "offset" from samples s'),
        ("select 1 limit 2 offset 3", "select 1 limit 2 offset 3"),
        ("select 1 limit 2 offset (1 + 1)", "select 1 limit 2 offset (1 + 1)"),
        (
            "select 'offset `a`', \"offset\" -- offset `\n, offset",
            'select \'offset `a`\', "offset" -- offset `\n, "offset"',
        ),
        ("select /* offset */ `order` from samples", 'select /* offset */ "order" from samples'),
        ("select $$offset$$, e'it\\'s offset'", "select $$offset$$, e'it\\'s offset'"),
        ("select my_offset, 'open offset", "select my_offset, 'open offset"),
        ("", ""),
    ],
)
def test_only_names_are_quoted(given: str, wanted: str) -> None:
    assert translate(given).text == wanted


def test_positions_are_those_of_the_query() -> None:
    text = "select offset, offset, x"
    translation = translate(text)
    assert translation.original_index(translation.text.index("x")) == text.index("x")
    assert translation.original_index(0) == 0


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("select 1; select 2;", ("select 1", " select 2;")),
        ("select ';' -- ;\n; x", ("select ';' -- ;", " x")),
        (" /* ; */ ; x", ("", " x")),
        ("select 1", None),
        ("select 'open;", None),
        ("", None),
    ],
)
def test_statements_end_with_a_semicolon(text: str, split: tuple[str, str] | None) -> None:
    assert split_first(text) == split


def test_comments_and_blanks_are_an_empty_statement() -> None:
    assert not has_words(" \n-- select\n/* 1 */")
    assert has_words("-- a\n'x'")
