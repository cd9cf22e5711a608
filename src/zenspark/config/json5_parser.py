"""JSON5 parser: takes time in proportion to the length of the text; errors have line and column.

Beyond the specification (spec.json5.org) these are errors: a duplicate name in an object, as in zenohd, half of a
surrogate pair, a number that no float can represent, and nesting beyond `MAX_NESTING_DEPTH`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from zenspark.config.document_limits import MAX_NESTING_DEPTH, check_length, error_at
from zenspark.config.schema import Json

MAX_NUMBER_CHARACTERS = 400
"""Maximum length of a number: Python takes quadratic time for long ones. The largest float has 309 digits."""

_LINE_ENDS = "\n\r\u2028\u2029"
_SPACE = re.compile(
    r"(?:[\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+"
    rf"|//[^{_LINE_ENDS}]*|/\*(?s:.*?)\*/)*+"
)
_NUMBER = re.compile(
    r"[+-]?(?:(?P<hex>0[xX][0-9a-fA-F]+)|(?P<special>Infinity|NaN)"
    r"|(?:(?:0|[1-9][0-9]*)(?P<point>\.[0-9]*)?|(?P<bare>\.[0-9]+))(?P<exponent>[eE][+-]?[0-9]+)?)"
    r"(?![\w$.])"
)
_NAME = re.compile(r"(?:[\w$\u200c\u200d\u0300-\u036f]|\\u[0-9a-fA-F]{4})+")
_PLAIN = {'"': re.compile(r'[^"\\\n\r]*+'), "'": re.compile(r"[^'\\\n\r]*+")}
_HEX = re.compile(r"[0-9a-fA-F]+")

_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}


T = TypeVar("T")


def parse(text: str) -> Json:
    """Parse a JSON5 text; DocumentError if it is not valid."""
    check_length(text)
    return _Parser(text).parse_document()


class _Parser:
    """A text, and the position up to which it was parsed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def parse_document(self) -> Json:
        value = self._value()
        if self._peek():
            self._fail("the end")
        return value

    def _peek(self) -> str:
        """Skip white space and comments, and return the next character without consuming it; empty at the end."""
        space = _SPACE.match(self._text, self._at)
        assert space is not None, "it also matches an empty text"
        self._at = space.end()
        return self._text[self._at : self._at + 1]

    def _fail(self, expected: str, at: int | None = None) -> NoReturn:
        place = self._at if at is None else at
        character = self._text[place : place + 1]
        raise error_at(self._text, place, f"expected {expected}, found {repr(character) if character else 'the end'}")

    def _value(self) -> Json:
        first = self._peek()
        if first == "{":
            return self._read_nested(self._object)
        if first == "[":
            return self._read_nested(self._list)
        if first in ('"', "'"):
            return self._string(first)
        if number := _NUMBER.match(self._text, self._at):
            return self._number(number)
        word = _NAME.match(self._text, self._at)
        if word is None or word[0] not in _WORDS:
            self._fail("a value")
        self._at = word.end()
        return _WORDS[word[0]]

    def _read_nested(self, read: Callable[[], T]) -> T:
        self._depth += 1
        if self._depth > MAX_NESTING_DEPTH:
            raise error_at(self._text, self._at, f"more than {MAX_NESTING_DEPTH} objects and lists inside each other")
        self._at += 1
        value = read()
        self._depth -= 1
        return value

    def _object(self) -> dict[str, Json]:
        members: dict[str, Json] = {}
        while (first := self._peek()) != "}":
            start = self._at
            name = self._string(first) if first in ('"', "'") else self._name()
            if name in members:
                raise error_at(self._text, start, f"the name {name!r} a second time")
            if self._peek() != ":":
                self._fail("a colon")
            self._at += 1
            members[name] = self._value()
            if not self._skip_comma("}"):
                break
        self._at += 1
        return members

    def _list(self) -> list[Json]:
        items: list[Json] = []
        while self._peek() != "]":
            items.append(self._value())
            if not self._skip_comma("]"):
                break
        self._at += 1
        return items

    def _skip_comma(self, end: str) -> bool:
        """Consume a comma, if one follows, and return whether it did: another item may come."""
        first = self._peek()
        if first == ",":
            self._at += 1
            return True
        if first != end:
            self._fail(f"a comma or {end}")
        return False

    def _name(self) -> str:
        """Parse a name without quotes."""
        match = _NAME.match(self._text, self._at)
        if match is None:
            self._fail("a name")
        name = re.sub(r"\\u(....)", lambda escape: chr(int(escape[1], 16)), match[0])
        if not re.sub("[$\u200c\u200d]", "_", name).isidentifier():
            self._fail("a name")
        self._at = match.end()
        return name

    def _number(self, match: re.Match[str]) -> int | float:
        text = match[0]
        if len(text) > MAX_NUMBER_CHARACTERS:
            raise error_at(self._text, self._at, f"a number of more than {MAX_NUMBER_CHARACTERS} characters")
        if match["hex"]:
            value: int | float = int(text, 16)
        elif match["special"] or match["point"] or match["bare"] or match["exponent"]:
            value = float(text)
            if math.isinf(value) and not match["special"]:
                raise error_at(self._text, self._at, "a number that is too large")
        else:
            value = int(text)
        self._at = match.end()
        return value

    # -- strings

    def _string(self, quote: str) -> str:
        self._at += 1
        plain, pieces = _PLAIN[quote], []
        while True:
            run = plain.match(self._text, self._at)
            assert run is not None, "it also matches an empty text"
            pieces.append(run[0])
            self._at = run.end()
            stop = self._text[self._at : self._at + 1]
            if stop == quote:
                self._at += 1
                return "".join(pieces)
            if stop != "\\":
                self._fail(f"the end of a string, {quote}")
            self._at += 1
            pieces.append(self._escape())

    def _escape(self) -> str:
        """Parse the escape sequence after a backslash."""
        letter = self._text[self._at : self._at + 1]
        following = self._text[self._at + 1 : self._at + 2]
        if not letter or letter in "123456789" or (letter == "0" and following.isdecimal()):
            self._fail("an escape sequence")
        self._at += 1
        if letter == "u":
            return self._unicode()
        if letter == "x":
            return chr(self._hexadecimal(2))
        if letter in _LINE_ENDS:
            self._at += letter == "\r" and following == "\n"
            return ""
        return _ESCAPES.get(letter, letter)

    def _unicode(self) -> str:
        start, first = self._at - 2, self._hexadecimal(4)
        if not 0xD800 <= first <= 0xDFFF:
            return chr(first)
        if first <= 0xDBFF and self._text.startswith("\\u", self._at):
            self._at += 2
            second = self._hexadecimal(4)
            if 0xDC00 <= second <= 0xDFFF:
                return chr(0x10000 + ((first - 0xD800) << 10) + second - 0xDC00)
        raise error_at(self._text, start, "half of a surrogate pair")

    def _hexadecimal(self, digits: int) -> int:
        match = _HEX.match(self._text, self._at, self._at + digits)
        if match is None or len(match[0]) < digits:
            self._fail(f"{digits} hexadecimal digits", self._at)
        self._at = match.end()
        return int(match[0], 16)
