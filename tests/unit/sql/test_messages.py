"""Errors of the engine in one line."""

import pytest

from zenspark.sql.dialect import translate
from zenspark.sql.messages import BYTES_HINT, MAX_MESSAGE_CHARACTERS, describe_error


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "Catalog Error: Table with name lates does not exist!\nDid you mean",
            "there is no table lates: did you mean latest?",
        ),
        ("Catalog Error: Table with name zzz does not exist!", "there is no table zzz; there are samples, latest"),
        (
            'Binder Error: Referenced column "kee" not found in FROM clause!',
            "there is no column kee: did you mean key?",
        ),
        ('Binder Error: Table "s" does not have a column named "kee"', "there is no column kee: did you mean key?"),
        ("Catalog Error: Scalar Function with name zen does not exist!", "there is no function zen"),
        ("Parser Error: syntax error at end of input", "syntax error at end of input"),
        ("Out of Memory Error: no\n\nmore", "the query failed: no more"),
        (
            "Binder Error: No function matches the given name and argument types 'avg(BLOB)'. You might need to add "
            "explicit type casts.\n\tCandidate functions:\n\tavg(DECIMAL) -> DECIMAL",
            "the query failed: No function matches the given name and argument types 'avg(BLOB)'." + BYTES_HINT,
        ),
        (
            "Conversion Error: Unimplemented type for cast (BLOB -> DOUBLE)",
            f"the query failed: Unimplemented type for cast (BLOB -> DOUBLE){BYTES_HINT}",
        ),
        ("strange", "the query failed: strange"),
    ],
)
def test_known_engine_errors_are_explained(message: str, expected: str) -> None:
    tables, columns, functions = ["samples", "latest"], ["key", "kind"], ["zenoh_key_match"]
    assert describe_error(Exception(message), tables=tables, columns=columns, functions=functions) == expected


def test_an_unknown_column_of_a_query_has_the_candidates_of_the_engine() -> None:
    message = 'Binder Error: Referenced column "b" not found in FROM clause!\nCandidate bindings: "total", "a"'
    assert describe_error(Exception(message)) == "there is no column b; there are total, a"


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ('select 1 from samples where key = "lab/oven"', "lab/oven", "; text is in single quotes: 'lab/oven'"),
        ('select 1 from samples where key = "it\'s"', "it's", "; text is in single quotes: 'it''s'"),
        ('select "kee" from samples', "kee", ": did you mean key?"),
        ("select offset from latest", "offset", "; there are key, kind"),
        ("select other from latest", "other", "; there are key, kind"),
    ],
)
def test_a_text_in_double_quotes_is_taken_for_a_column(text: str, name: str, expected: str) -> None:
    error = Exception(f'Binder Error: Referenced column "{name}" not found in FROM clause!')
    assert describe_error(error, translate(text), columns=["key", "kind"]) == f"there is no column {name}{expected}"


def test_position_in_a_shortened_line_is_that_of_the_query() -> None:
    text = f"select {'1, ' * 50} x y z"
    place = text.index("z")
    shown = f"...{text[place - 20 :]}"
    caret = " " * (len("LINE 1: ") + shown.index("z")) + "^"
    message = f'Parser Error: syntax error at or near "z"\n\nLINE 1: {shown}\n{caret}'
    assert describe_error(Exception(message), translate(text)).endswith(f"(line 1, position {place + 1})")


def test_a_long_message_is_shortened() -> None:
    assert len(describe_error(Exception("Parser Error: " + "x" * 1000))) == MAX_MESSAGE_CHARACTERS
