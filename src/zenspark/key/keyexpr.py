"""Key expressions: validation, canonical form, and construction from others.

The grammar is that of protocol section 12.1. A key expression consists of chunks separated by slashes. `*` matches one
chunk, `**` any number of them, `$*` any characters inside one chunk; a chunk that starts with `@` is verbatim and
matches only itself. Every set of keys has one canonical form, and no other is valid.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NoReturn, Self

from zenspark.errors import UsageError
from zenspark.key.match import includes, intersects
from zenspark.member_docstrings import DocumentedEnumType

__all__ = ["KeyExpr", "SetIntersectionLevel", "canonicalize"]

# Literal characters of a chunk. A lone surrogate has no UTF-8 form, so it could never be sent.
_LITERAL = r"[^/*$?#\ud800-\udfff]"
_CHUNK = rf"(?:\*\*(?!/\*)|\*|(?:\$\*)?{_LITERAL}++(?:\$\*{_LITERAL}++)*(?:\$\*)?)"
_CANONICAL = re.compile(rf"{_CHUNK}(?:/{_CHUNK})*")
_VALID_PREFIX = re.compile(rf"(?:{_LITERAL}++|\$\*)+")
_REPEATED_STAR = re.compile(r"(?:\$\*)+")
_WILD_CHUNK = re.compile(r"(?:^|/)(?!@)[^/*]*\*")

_EXPECTED_INSTEAD_OF = {
    "": "a chunk that is not empty",
    "*": "`*` or `**` as a whole chunk, or `$*` inside one",
    "$": "`*` behind `$`",
    "#": "no `#` (the wildcard for any chunks is `**`, not MQTT's `#`)",
    "?": "no `?` (parameters belong to a selector, not to a key)",
}


class SetIntersectionLevel(IntEnum, metaclass=DocumentedEnumType):
    """Relation of two sets of keys; each level implies those below it.

    Example:
        >>> zenspark.KeyExpr("demo/**").relation_to("demo/a") >= zenspark.SetIntersectionLevel.INTERSECTS
        True
    """

    DISJOINT = 0
    """No key is in both sets, as of `demo/a` and `demo/b`."""
    INTERSECTS = 1
    """At least one key is in both sets, as of `demo/*` and `*/a`."""
    INCLUDES = 2
    """Every key of the second set is in the first, as of `demo/**` and `demo/*`."""
    EQUALS = 3
    """The sets have the same keys."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__


class KeyExpr:
    """A valid key expression: the set of keys it matches.

    It equals its own text and hashes like it, so a dictionary keyed by one is found by the other.

    Args:
        key_expr: Text in canonical form; `autocanonize` takes any form.

    Raises:
        UsageError: It is not valid, or not in canonical form.
        TypeError: It is no string.

    Example:
        >>> zenspark.KeyExpr("demo/**").intersects("demo/a/b")
        True
    """

    __slots__ = ("_text",)
    _text: str

    def __init__(self, key_expr: str) -> None:
        """Validate a text in canonical form."""
        try:
            found = _CANONICAL.fullmatch(key_expr)
        except TypeError:
            _reject_type(key_expr)
        if found is None:
            _reject_noncanonical(key_expr)
        object.__setattr__(self, "_text", str.__str__(key_expr))

    @classmethod
    def autocanonize(cls, key_expr: str) -> Self:
        """Parse a text that may not be in canonical form.

        Args:
            key_expr: The text.

        Returns:
            The key expression in canonical form.

        Raises:
            UsageError: It is not valid in any form.
            TypeError: It is no string.

        Example:
            >>> zenspark.KeyExpr.autocanonize("demo/**/*")
            KeyExpr('demo/*/**')
        """
        return cls(canonicalize(key_expr))

    @classmethod
    def of(cls, key: KeyExpr | str) -> KeyExpr:
        """Return a key expression as it is, and validate a text.

        Args:
            key: A key expression, or its text.

        Returns:
            The same key expression, or a new one for a text.

        Raises:
            UsageError: The text is not valid.
            TypeError: It is neither.

        Example:
            >>> zenspark.KeyExpr.of("demo/a")
            KeyExpr('demo/a')
        """
        return key if isinstance(key, KeyExpr) else cls(key)

    # --- as a set of keys ---

    def intersects(self, other: KeyExpr | str) -> bool:
        """Test whether two key expressions have a key in common.

        Args:
            other: A key expression, or its text.

        Returns:
            True if some key matches both.

        Raises:
            UsageError: The text is not valid.
            TypeError: It is neither.

        Example:
            >>> zenspark.KeyExpr("demo/*").intersects("*/a")
            True
        """
        return intersects(self._text, self.of(other)._text)

    def includes(self, other: KeyExpr | str) -> bool:
        """Test whether this key expression includes another.

        Args:
            other: A key expression, or its text.

        Returns:
            True if every key that matches the other also matches this one.

        Raises:
            UsageError: The text is not valid.
            TypeError: It is neither.

        Example:
            >>> zenspark.KeyExpr("demo/**").includes("demo/*")
            True
        """
        return includes(self._text, self.of(other)._text)

    def relation_to(self, other: KeyExpr | str) -> SetIntersectionLevel:
        """Compare this key expression with another, as sets of keys.

        Args:
            other: A key expression, or its text.

        Returns:
            The highest level that holds; INCLUDES means that this one includes the other.

        Raises:
            UsageError: The text is not valid.
            TypeError: It is neither.

        Example:
            >>> zenspark.KeyExpr("demo/**").relation_to("demo/a")
            SetIntersectionLevel.INCLUDES
        """
        text = self.of(other)._text
        if self._text == text:
            return SetIntersectionLevel.EQUALS
        if includes(self._text, text):
            return SetIntersectionLevel.INCLUDES
        if intersects(self._text, text):
            return SetIntersectionLevel.INTERSECTS
        return SetIntersectionLevel.DISJOINT

    @property
    def is_wild(self) -> bool:
        """Whether the expression can match more than one key; wildcards inside a verbatim chunk match nothing."""
        return _WILD_CHUNK.search(self._text) is not None

    @property
    def prefix(self) -> Self | None:
        """The chunks before the first wildcard: the part a declaration maps to an id."""
        wild = _WILD_CHUNK.search(self._text)
        if wild is None:
            return self
        return type(self)(self._text[: wild.start()]) if wild.start() else None

    # --- as a text ---

    def join(self, other: KeyExpr | str) -> Self:
        """Append a slash and another key expression; the result is canonicalized.

        Args:
            other: A key expression, or its text.

        Returns:
            The key expression of both.

        Raises:
            UsageError: The result is not valid.
            TypeError: It is neither.

        Example:
            >>> zenspark.KeyExpr("demo").join("a")
            KeyExpr('demo/a')
        """
        text = other._text if isinstance(other, KeyExpr) else other
        try:
            joined = self._text + "/" + text
        except TypeError:
            _reject_type(other)
        return self.autocanonize(joined)

    def __truediv__(self, other: KeyExpr | str) -> Self:
        return self.join(other)

    def __rtruediv__(self, other: object) -> Self:
        return self.autocanonize(other).join(self) if isinstance(other, str) else NotImplemented

    def concat(self, other: str) -> Self:
        """Append a text without a slash.

        Args:
            other: The text.

        Returns:
            The key expression of both.

        Raises:
            UsageError: The result is not valid, or not in canonical form.
            TypeError: It is no string.

        Example:
            >>> zenspark.KeyExpr("demo/a").concat("-b/*")
            KeyExpr('demo/a-b/*')
        """
        try:
            whole = self._text + other
        except TypeError:
            _reject_type(other, "the end of a key expression (str)")
        if self._text.endswith("*") and other.startswith("*"):
            # `a/*` and `*` make the valid `a/**`, which is hardly ever intended; eclipse-zenoh rejects it as well.
            _fail(whole, len(self._text), "no `*` right behind a `*`")
        return type(self)(whole)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._text!r})"

    # --- as a value ---

    def __eq__(self, other: object) -> bool:
        if isinstance(other, KeyExpr):
            return self._text == other._text
        return self._text == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a key expression never changes: cannot set {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a key expression never changes: cannot delete {name}")

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self._text,)


def canonicalize(text: str) -> str:
    """Return the canonical form of a text; raises UsageError if it is no key expression in any form."""
    try:
        if _CANONICAL.fullmatch(text) is not None:
            return text
    except TypeError:
        _reject_type(text)
    chunks: list[str] = []
    start = 0
    for raw in text.split("/"):
        chunk = _canonicalize_chunk(text, start, raw)
        start += len(raw) + 1
        if not chunks or chunks[-1] != "**" or chunk not in ("*", "**"):
            chunks.append(chunk)
        elif chunk == "*":
            chunks.insert(-1, chunk)
    return "/".join(chunks)


def _canonicalize_chunk(text: str, start: int, chunk: str) -> str:
    if chunk in ("*", "**"):
        return chunk
    valid = _VALID_PREFIX.match(chunk)
    end = valid.end() if valid else 0
    if end == 0 or end < len(chunk):
        _fail(text, start + end, _expected_instead_of(text, start + end, chunk[end : end + 1]))
    chunk = _REPEATED_STAR.sub("$*", chunk)
    return "*" if chunk == "$*" else chunk


def _expected_instead_of(text: str, position: int, character: str) -> str:
    expected = _EXPECTED_INSTEAD_OF.get(character, "text that UTF-8 can encode")
    if not character and position == 0 and text.strip("/"):
        return f"{expected} (keys do not begin with /: did you mean {text.strip('/')!r}?)"
    return expected


def _reject_type(value: object, expected: str = "a key expression (KeyExpr or str)") -> NoReturn:
    """Raise the error for an argument that is no text."""
    raise TypeError(f"expected {expected}, found {type(value).__name__!r}") from None


def _reject_noncanonical(text: str) -> NoReturn:
    """Raise the error for a text that is not canonical."""
    canonical = canonicalize(text)
    differences = (at for at, (given, expected) in enumerate(zip(text, canonical, strict=False)) if given != expected)
    _fail(text, next(differences, len(canonical)), f"the canonical form {canonical!r}")


def _fail(text: str, position: int, expected: str) -> NoReturn:
    raise UsageError(f"key expression {text!r}, position {position}: expected {expected}")
