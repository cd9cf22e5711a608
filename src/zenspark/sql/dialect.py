"""Small differences of dialect: column names of a lake that the engine reserves, and identifiers in backticks.

`offset` is a column of `samples`, and a word of the engine's grammar. It is the word only before a number (`limit 10
offset 20`); elsewhere it is quoted. Identifiers in backticks, as in Spark, are written in double quotes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

TOKEN = re.compile(
    r"""(?P<skipped>--[^\n]*|/\*.*?(?:\*/|\Z)|[eE]'(?:\\.|''|[^'\\])*'?|'(?:''|[^'])*'?|"(?:""|[^"])*"?|\$\$.*?(?:\$\$|\Z))
      |(?P<quoted>`[^`"]*`)|(?P<word>\w+)|.""",
    re.DOTALL | re.VERBOSE,
)
RESERVED_COLUMNS = frozenset({"offset"})
BEFORE_NUMBER = re.compile(r"\s+[\d(]")


def split_first(text: str) -> tuple[str, str] | None:
    """Split a text behind its first statement, at a semicolon not in a text or a comment; None if there is none.

    Returns the statement, empty if it has no words, and the rest.
    """
    for found in TOKEN.finditer(text):
        if found[0] == ";":
            statement = text[: found.start()].strip()
            return (statement if has_words(statement) else ""), text[found.end() :]
    return None


def has_words(text: str) -> bool:
    """Whether a text has anything but blanks and comments."""
    return find_words(text) is not None


def find_words(text: str) -> int | None:
    """Position of the first that is neither a blank nor a comment."""
    for found in TOKEN.finditer(text):
        if not (found[0].isspace() or found[0].startswith(("--", "/*"))):
            return found.start()
    return None


class Translation(NamedTuple):
    """A query in the words of the engine."""

    text: str
    added: tuple[int, ...]
    """Positions in `text` of characters that the query does not have."""

    def original_index(self, index: int) -> int:
        """Position in the query of a position in `text`."""
        return index - sum(position < index for position in self.added)


def translate(text: str) -> Translation:
    """Translate a query; texts, comments and quoted names stay as they are."""
    parts: list[str] = []
    added: list[int] = []
    length = 0
    for found in TOKEN.finditer(text):
        part = found[0]
        if found["quoted"]:
            part = f'"{part[1:-1]}"'
        elif found["word"] and part.lower() in RESERVED_COLUMNS and not BEFORE_NUMBER.match(text, found.end()):
            part = f'"{part}"'
            added += [length, length + len(part) - 1]
        parts.append(part)
        length += len(part)
    return Translation("".join(parts), tuple(added))
