"""Names that are loaded when they are used."""

import pytest

from zenspark import sql
from zenspark.sql.engine import Engine


def test_public_name_is_exported_and_unknown_name_raises() -> None:
    assert sql.Engine is Engine
    with pytest.raises(AttributeError, match="has no attribute 'Motor'"):
        getattr(sql, "Motor")  # noqa: B009 - a name that type checkers refuse
