"""The names of eclipse-zenoh's native module."""

import ast
import inspect

import pytest

import zenspark
import zenspark.zenoh


def test_the_names_are_those_of_the_package() -> None:
    assert zenspark.zenoh.KeyExpr is zenspark.KeyExpr
    assert zenspark.zenoh.handlers is zenspark.handlers
    assert {"Session", "open", "handlers", "shm"} <= set(zenspark.zenoh.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = zenspark.zenoh.nonsense  # type: ignore[attr-defined]  # as a type checker reports, too


def test_type_checkers_see_the_names_of_the_package() -> None:
    (block,) = [node for node in ast.parse(inspect.getsource(zenspark.zenoh)).body if isinstance(node, ast.If)][:1]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert {node.module for node in imports} == {"zenspark"}
    seen = {alias.asname for node in imports for alias in node.names}
    assert seen == set(zenspark.zenoh.__all__) - {"zenoh"}
