"""Limits on configuration texts, and the error type of the JSON5 and YAML parsers.

A text may come from an untrusted source, so its cost is bounded: parsing takes time in proportion to its length, and
nothing in it expands beyond its length.
"""

from __future__ import annotations

MAX_TEXT_CHARACTERS = 4 * 1024 * 1024
"""A longer text is rejected before it is parsed: that would take seconds. Thousands of rules fit."""
MAX_NESTING_DEPTH = 64
"""Nesting depth of objects and lists: deeper ones would exhaust Python's stack."""


class DocumentError(ValueError):
    """A syntax error in a configuration text: line and column, counted from 1, and the problem there."""

    def __init__(self, line: int, column: int, problem: str) -> None:
        super().__init__(line, column, problem)
        self.line = line
        self.column = column
        self.problem = problem

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.problem}"


def error_at(text: str, position: int, problem: str) -> DocumentError:
    """Make the error for a position in a text."""
    before = text[:position]
    line_start = max(before.rfind("\n"), before.rfind("\r")) + 1
    lines = before.count("\n") + before.count("\r") - before.count("\r\n")
    return DocumentError(lines + 1, position - line_start + 1, problem)


def check_length(text: str) -> None:
    """Raise DocumentError if a text is too long."""
    if len(text) > MAX_TEXT_CHARACTERS:
        raise DocumentError(1, 1, f"{len(text)} characters are more than the {MAX_TEXT_CHARACTERS} allowed")
