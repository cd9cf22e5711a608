"""What the readers of JSON5 and YAML share: the limits on a configuration text, and how they say what is wrong.

A text may come from a program that got it from elsewhere, so its cost is bounded: reading takes time in proportion to
its length, and nothing in it makes it larger than it is.
"""

from __future__ import annotations

MAX_TEXT_CHARACTERS = 4 * 1024 * 1024
"""A longer text is refused before it is read: it would hold the program for seconds. Thousands of rules fit."""
MAX_DEPTH = 64
"""How many objects and lists may be inside each other: deeper ones would exhaust Python's stack."""


class DocumentError(ValueError):
    """A text that cannot be read: at which line and column, counted from 1, and what is wrong there."""

    def __init__(self, line: int, column: int, problem: str) -> None:
        super().__init__(line, column, problem)
        self.line = line
        self.column = column
        self.problem = problem

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.problem}"


def error_at(text: str, position: int, problem: str) -> DocumentError:
    """The error of a place in a text."""
    before = text[:position]
    line_start = max(before.rfind("\n"), before.rfind("\r")) + 1
    lines = before.count("\n") + before.count("\r") - before.count("\r\n")
    return DocumentError(lines + 1, position - line_start + 1, problem)


def check_length(text: str) -> None:
    """Refuse a text that is too long."""
    if len(text) > MAX_TEXT_CHARACTERS:
        raise DocumentError(1, 1, f"{len(text)} characters are more than the {MAX_TEXT_CHARACTERS} allowed")
