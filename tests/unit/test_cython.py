"""Names of Cython, as type checkers see them."""

from __future__ import annotations

import pytest

from zenspark import _cython


def test_decorators_return_the_class_itself() -> None:
    class Plain:
        pass

    assert _cython.final(_cython.auto_pickle(False)(_cython.no_gc(_cython.cclass(Plain)))) is Plain


def test_other_names_exist_for_type_checkers_only() -> None:
    with pytest.raises(AttributeError, match="ulonglong"):
        _ = _cython.ulonglong
