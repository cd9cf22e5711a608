"""Small differences of dialect: column names of a lake that the engine reserves, and identifiers in backticks.

`offset` is a column of `samples`, and a keyword of the engine. It is the keyword only before a number (`limit 10 offset
20`); elsewhere it is quoted. Identifiers in backticks, as in Spark, are written in double quotes.
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
    """Split a text after its first statement, at a semicolon not in a text or a comment; None if there is none.

    Returns the statement, empty if it has no words, and the rest.
    """
    for token in TOKEN.finditer(text):
        if token[0] == ";":
            statement = text[: token.start()].strip()
            return (statement if has_words(statement) else ""), text[token.end() :]
    return None


def has_words(text: str) -> bool:
    """Return whether a text has more than blanks and comments."""
    return find_words(text) is not None


def find_words(text: str) -> int | None:
    """Return the position of the first token that is neither a blank nor a comment; None if there is none."""
    for token in TOKEN.finditer(text):
        if not (token[0].isspace() or token[0].startswith(("--", "/*"))):
            return token.start()
    return None


class Translation(NamedTuple):
    """A query in the dialect of the engine."""

    text: str
    added: tuple[int, ...]
    """Positions in `text` of characters that the query does not have."""

    def original_index(self, index: int) -> int:
        """Return the position in the query of a position in `text`."""
        return index - sum(position < index for position in self.added)


def translate(text: str) -> Translation:
    """Translate a query; texts, comments and quoted names stay as they are."""
    parts: list[str] = []
    added: list[int] = []
    length = 0
    for token in TOKEN.finditer(text):
        part = token[0]
        if token["quoted"]:
            part = f'"{part[1:-1]}"'
        elif token["word"] and part.lower() in RESERVED_COLUMNS and not BEFORE_NUMBER.match(text, token.end()):
            part = f'"{part}"'
            added += [length, length + len(part) - 1]
        parts.append(part)
        length += len(part)
    return Translation("".join(parts), tuple(added))
