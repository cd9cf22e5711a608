"""The names of eclipse-zenoh's native module."""

import pytest

import zenspark
import zenspark.zenoh


def test_the_names_are_those_of_the_package() -> None:
    assert zenspark.zenoh.KeyExpr is zenspark.KeyExpr
    assert zenspark.zenoh.handlers is zenspark.handlers
    assert {"Session", "open", "handlers", "shm"} <= set(zenspark.zenoh.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = zenspark.zenoh.nonsense
