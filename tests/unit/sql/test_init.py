"""Names that are loaded when they are used."""

import pytest

from zenspark import sql
from zenspark.sql.engine import Engine


def test_names_are_found_and_others_are_not() -> None:
    assert sql.Engine is Engine
    with pytest.raises(AttributeError, match="has no attribute 'Motor'"):
        getattr(sql, "Motor")  # noqa: B009 - a name that type checkers refuse
