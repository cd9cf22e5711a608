"""Docstrings of the members of enumerations."""

from __future__ import annotations

import inspect
import pickle
import pydoc
from enum import Enum, nonmember

import pytest

from zenspark.member_docstrings import DocumentedEnumType, from_source


class Size(Enum, metaclass=DocumentedEnumType):
    """How large it is.

    Example:
        >>> Size.SMALL
    """

    SMALL = 1
    """Less than a byte."""
    LARGE = 2
    """More than a byte; as large as the words that describe it, which therefore need not one but two lines of
    text."""
    DEFAULT = SMALL
    COUNT = nonmember(2)
    """Number of sizes."""

    @property
    def text(self) -> str:
        """The size in words."""
        return self.name.lower()


SHOWN = """How large it is.

Attributes:
    SMALL: Less than a byte.
    LARGE: More than a byte; as large as the words that describe it, which therefore need not one but two lines of text.
    COUNT: Number of sizes.

Example:
    >>> Size.SMALL"""


def test_docstring_has_a_section_of_the_members() -> None:
    assert inspect.getdoc(Size) == SHOWN
    assert "SMALL: Less than a byte." in pydoc.plain(pydoc.render_doc(Size))


def test_enumeration_is_otherwise_the_same() -> None:
    assert [member.name for member in Size] == ["SMALL", "LARGE"]
    assert pickle.loads(pickle.dumps(Size.LARGE)) is Size.LARGE
    assert Size.LARGE.text == "large"


def test_docstring_of_the_enumeration_is_left_without_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind: type) -> str:
        raise OSError("source code not available")

    monkeypatch.setattr("inspect.getsource", refuse)
    assert from_source(Size) == {}
    assert inspect.getdoc(Size) == "How large it is.\n\nExample:\n    >>> Size.SMALL"


def test_section_is_last_without_an_example() -> None:
    class Shape(Enum, metaclass=DocumentedEnumType):
        """Which form it has."""

        ROUND = 1
        """No corners."""

    assert inspect.getdoc(Shape) == "Which form it has.\n\nAttributes:\n    ROUND: No corners."


def test_enumeration_without_docstring_has_none() -> None:
    """As with `python -OO`."""

    class Bare(Enum, metaclass=DocumentedEnumType):
        ONE = 1
        """A member."""

    assert Bare.__doc__ is None
