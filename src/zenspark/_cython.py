"""Cython's names with types: what type checkers see of `import cython` in modules of which users hold instances.

Cython ships no types for its decorators, and a type checker takes a class behind an untyped decorator for unknown.
Modules import this in place of `cython` when `TYPE_CHECKING`; nothing imports it at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

compiled: bool
"""Whether the module runs compiled."""


def cclass(cls: type[T]) -> type[T]:
    """Make a class an extension type."""
    return cls


def final(cls: type[T]) -> type[T]:
    """Forbid subclasses of an extension type."""
    return cls


def no_gc(cls: type[T]) -> type[T]:
    """Leave the garbage collector out for an extension type."""
    return cls


def auto_pickle(enabled: bool) -> Callable[[type[T]], type[T]]:
    """Let Cython write the pickle methods of an extension type, or not."""
    return lambda cls: cls


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any other name of Cython
    raise AttributeError(name)
