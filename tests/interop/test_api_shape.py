"""Every name, method and parameter in the stubs of eclipse-zenoh is there, and can be called the same way."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from inspect import Parameter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import zenoh

STUBS = Path(zenoh.__file__).parent
MODULES = ("__init__", "ext", "handlers")  # shared memory is not offered: zenspark.shm says so
ZENSPARK_PARAMETERS = {
    "timeout": ("recv",),
    "budget": ("get", "declare_querier"),
    "consolidation": ("reply", "reply_del"),
    "timestamp": ("get", "reply_err"),
    "timestamping": ("declare_publisher",),
    "source_info": ("reply", "reply_del", "reply_err"),
}
"""Parameters that only ours have, and where."""
NOT_PUBLIC = {"_unstable"}
WITHOUT_SIGNATURE = {"ZBytes.__new__", "Selector.__new__", "WhatAmI.__new__", "NTP64.__new__"}
"""An enumeration, or with other names when it runs than in the stubs: test_api_values calls them."""

Signature = list[tuple[str, Any]]


def stub(module: str) -> ast.Module:
    return ast.parse((STUBS / f"{module}.pyi").read_text())


def ours(module: str) -> ModuleType:
    return importlib.import_module("zenspark" if module == "__init__" else f"zenspark.{module}")


def functions() -> Iterator[tuple[str, str, ast.FunctionDef]]:
    """Every function and public method: its module, its dotted name, and the stub of each overload."""
    for module in MODULES:
        for node in stub(module).body:
            if isinstance(node, ast.FunctionDef) and node.name not in NOT_PUBLIC:
                yield module, node.name, node
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and (not inner.name.startswith("_") or is_maker(inner)):
                        yield module, f"{node.name}.{inner.name}", inner


def is_maker(node: ast.FunctionDef) -> bool:
    return node.name == "__new__"


def is_property(node: ast.FunctionDef) -> bool:
    names = [getattr(one, "id", getattr(one, "attr", "")) for one in node.decorator_list]
    return "property" in names or "setter" in names


def expected(node: ast.FunctionDef) -> Signature:
    """The parameters in a stub: their names and kinds."""
    arguments = node.args
    found: Signature = [(one.arg, Parameter.POSITIONAL_ONLY) for one in arguments.posonlyargs]
    found += [(one.arg, Parameter.POSITIONAL_OR_KEYWORD) for one in arguments.args]
    found += [(one.arg, Parameter.KEYWORD_ONLY) for one in arguments.kwonlyargs]
    return [(name, kind) for name, kind in found if name not in ("self", "cls")]


def optional(node: ast.FunctionDef) -> set[str]:
    """The parameters of a stub that have a default."""
    arguments = node.args
    places = [*arguments.posonlyargs, *arguments.args]
    found = {one.arg for one in places[len(places) - len(arguments.defaults) :]}
    return found | {
        one.arg for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default
    }


def found_in(module: str, name: str) -> Any:  # noqa: ANN401 - anything with a name
    found: Any = ours(module)
    for part in name.split("."):
        found = found if part == "__new__" else getattr(found, part)
    return found


CALLABLE = [(module, name, node) for module, name, node in functions() if not is_property(node)]
PROPERTIES = [(module, name) for module, name, node in functions() if is_property(node)]


@pytest.mark.parametrize(("module", "name", "node"), CALLABLE, ids=[f"{one[0]}.{one[1]}" for one in CALLABLE])
def test_callable_has_the_signature_of_eclipse_zenoh(module: str, name: str, node: ast.FunctionDef) -> None:
    called = found_in(module, name)
    if name in WITHOUT_SIGNATURE:
        return
    parameters = [one for one in inspect.signature(called).parameters.values() if one.name not in ("self", "cls")]
    kept = [one for one in parameters if name.rpartition(".")[2] not in ZENSPARK_PARAMETERS.get(one.name, ())]
    positional_only = {parameter for parameter, kind in expected(node) if kind is Parameter.POSITIONAL_ONLY}
    assert [(one.name, one.kind) for one in kept if one.name not in positional_only] == [
        (parameter, kind) for parameter, kind in expected(node) if parameter not in positional_only
    ]
    assert optional(node) <= {one.name for one in parameters if one.default is not Parameter.empty}


@pytest.mark.parametrize(("module", "name"), PROPERTIES)
def test_properties_are_properties(module: str, name: str) -> None:
    described = found_in(module, name)
    if name == "QueryConsolidation.mode":
        return  # a property in the stubs and a method when it runs: ours is both
    assert inspect.isdatadescriptor(described)


def classes() -> Iterator[tuple[str, str]]:
    for module in MODULES:
        for node in stub(module).body:
            if isinstance(node, ast.ClassDef):
                yield module, node.name


PROTOCOLS: tuple[str, ...] = (
    "__enter__",
    "__exit__",
    "__iter__",
    "__next__",
    "__bytes__",
    "__len__",
    "__contains__",
    "__getitem__",
)
PROTOCOLS += ("__class_getitem__", "__or__", "__truediv__", "__rtruediv__", "__int__", "__bool__")


@pytest.mark.parametrize(("module", "name"), list(classes()))
def test_class_supports_the_protocols_of_eclipse_zenoh(module: str, name: str) -> None:
    theirs = getattr(importlib.import_module("zenoh" if module == "__init__" else f"zenoh.{module}"), name)
    cls = found_in(module, name)
    if issubclass(cls, int | float):
        return
    for method in PROTOCOLS:
        if method in vars(theirs):
            assert hasattr(cls, method), method
    if vars(theirs).get("__hash__") is not None:
        assert cls.__hash__ is not None
    assert ("__lt__" in vars(theirs) and _is_ordered(theirs)) <= hasattr(cls, "__lt__")


def _is_ordered(cls: type) -> bool:
    """Whether their class has an order; most have the methods and no order."""
    return cls.__name__ in ("NTP64", "Timestamp", "TimestampId")
