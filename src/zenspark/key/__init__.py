"""Key expressions: what a valid one looks like, its canonical form, and how one is made from another.

The grammar is section 12.1 of the protocol. A key expression is chunks between slashes. `*` stands for one chunk, `**` for
any number of them, `$*` for any characters inside one chunk; a chunk that starts with `@` is verbatim and stands for itself
only, whatever it contains. Every set of keys has one spelling, the canonical one, and no other is valid.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NoReturn, Self

from zenspark.errors import UsageError
from zenspark.key.match import includes, intersects

__all__ = ["KeyExpr", "SetIntersectionLevel", "canonise"]

# What may stand in a chunk as itself. A lone surrogate has no UTF-8 form, so it could never be sent.
_LITERAL = r"[^/*$?#\ud800-\udfff]"
_WORDS = re.compile(rf"(?:{_LITERAL}++|\$\*)*")
_CHUNK = rf"(?:\*\*(?!/\*)|\*|(?:\$\*)?{_LITERAL}++(?:\$\*{_LITERAL}++)*(?:\$\*)?)"
_CANONICAL = re.compile(rf"{_CHUNK}(?:/{_CHUNK})*")
_WILD_CHUNK = re.compile(r"(?:^|/)(?!@)[^/*]*\*")

_EXPECTED = {
    "*": "`*` or `**` as a whole chunk, or `$*` inside one",
    "$": "`*` after `$`",
    "#": "no `#`",
    "?": "no `?`",
}


class SetIntersectionLevel(IntEnum):
    """How two sets of keys relate; each level implies those below it."""

    DISJOINT = 0
    INTERSECTS = 1
    INCLUDES = 2
    EQUALS = 3


class KeyExpr:
    """A valid key expression: the set of keys it matches.

    It equals, and hashes like, its own text, so that both find each other in a dictionary.
    """

    __slots__ = ("_text",)
    _text: str

    def __init__(self, text: str) -> None:
        """Takes canonical text only; see `autocanonize` for the rest."""
        if _CANONICAL.fullmatch(text) is None:
            _refuse(text)
        object.__setattr__(self, "_text", str.__str__(text))

    @classmethod
    def autocanonize(cls, text: str) -> Self:
        """Makes the key expression of a text that may be spelt in another than the canonical way."""
        return cls(canonise(text))

    @classmethod
    def of(cls, key: KeyExpr | str) -> KeyExpr:
        """The key expression itself, or the one of this text: for whoever accepts both."""
        return key if isinstance(key, KeyExpr) else cls(key)

    # --- as a set of keys ---

    def intersects(self, other: KeyExpr | str) -> bool:
        """Whether some key matches both."""
        return intersects(self._text, KeyExpr.of(other)._text)

    def includes(self, other: KeyExpr | str) -> bool:
        """Whether every key that matches the other also matches this one."""
        return includes(self._text, KeyExpr.of(other)._text)

    def relation_to(self, other: KeyExpr | str) -> SetIntersectionLevel:
        """The highest level that holds, seen from here: INCLUDES means that this one includes the other."""
        text = KeyExpr.of(other)._text
        if self._text == text:
            return SetIntersectionLevel.EQUALS
        if includes(self._text, text):
            return SetIntersectionLevel.INCLUDES
        if intersects(self._text, text):
            return SetIntersectionLevel.INTERSECTS
        return SetIntersectionLevel.DISJOINT

    @property
    def is_wild(self) -> bool:
        """Whether it can match more than one key; wildcards inside a verbatim chunk do not count."""
        return _WILD_CHUNK.search(self._text) is not None

    @property
    def prefix(self) -> KeyExpr | None:
        """The chunks before the first wildcard, which is what a declaration maps to a number."""
        wild = _WILD_CHUNK.search(self._text)
        if wild is None:
            return self
        return KeyExpr(self._text[: wild.start()]) if wild.start() else None

    # --- as text ---

    def join(self, other: KeyExpr | str) -> KeyExpr:
        """This one, a slash and the other, in canonical form."""
        return KeyExpr.autocanonize(f"{self}/{other}")

    __truediv__ = join

    def concat(self, text: str) -> KeyExpr:
        """This one with the text right behind it, which must give a key expression as it stands."""
        if self._text.endswith("*") and text.startswith("*"):
            # `a/*` and `*` would give the valid `a/**`, which nobody means.
            _fail(self._text + text, len(self._text), "no `*` right behind a `*`")
        return KeyExpr(self._text + text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"KeyExpr({self._text!r})"

    # --- as a value ---

    def __eq__(self, other: object) -> bool:
        if isinstance(other, KeyExpr):
            return self._text == other._text
        return self._text == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a KeyExpr never changes: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a KeyExpr never changes: {name} cannot be deleted")

    def __reduce__(self) -> tuple[type[KeyExpr], tuple[str]]:
        return type(self), (self._text,)


def canonise(text: str) -> str:
    """Spells the same set of keys in canonical form, or raises if the text is no key expression at all."""
    if _CANONICAL.fullmatch(text) is not None:
        return text
    chunks: list[str] = []
    stars = 0  # how many `*` stood in the present run of `*` and `**`, the last of which is a `**`
    ...
