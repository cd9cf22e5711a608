"""Places in texts, and texts that are too long."""

from __future__ import annotations

import pytest

from zenspark.config.document_limits import MAX_TEXT_CHARACTERS, DocumentError, check_length, error_at


@pytest.mark.parametrize(
    ("text", "position", "place"),
    [("", 0, (1, 1)), ("abc", 2, (1, 3)), ("a\nb", 2, (2, 1)), ("a\r\nb", 3, (2, 1)), ("a\r\rb", 3, (3, 1))],
)
def test_a_place_is_a_line_and_a_column(text: str, position: int, place: tuple[int, int]) -> None:
    error = error_at(text, position, "wrong")
    assert (error.line, error.column) == place
    assert str(error) == f"line {place[0]}, column {place[1]}: wrong"


def test_text_beyond_the_maximum_length_is_rejected() -> None:
    check_length(" " * MAX_TEXT_CHARACTERS)
    with pytest.raises(DocumentError, match="more than"):
        check_length(" " * (MAX_TEXT_CHARACTERS + 1))
