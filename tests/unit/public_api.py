"""The public names of zenspark, with their methods, parameters and docstrings, for tests of what users see of them."""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import zenspark

MODULES = ("zenspark", "zenspark.errors", "zenspark.ext", "zenspark.handlers", "zenspark.aio")
INTERNAL = frozenset({"from_wire", "to_wire"})
"""Methods between the values of users and those of messages: public for the other layers only."""
CONSTRUCTORS = ("__new__", "__init__", "__post_init__")
ATTRIBUTES = {
    "_runtime": ("zenspark.engine.runtime", "SessionRuntime"),
    "_publisher": ("zenspark.api.publisher", "Publisher"),
}
"""Attributes of public objects whose methods raise for them, with their classes."""
MAX_CALL_DEPTH = 4
"""Calls that are followed to a `raise`: from `KeyExpr.intersects` by `of`, `__init__` and `_refuse` to `_fail`."""
WRAPPED = ("session", "entities", "publisher", "liveliness", "info", "scouting")
"""Modules of `zenspark.api` with the classes that those of `zenspark.aio` wrap, by the same names."""


def public_objects() -> Iterator[tuple[str, Any]]:
    """Yield every public class and function, by its full name."""
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found) or inspect.isroutine(found):
                yield f"{module.__name__}.{name}", found


def public_members(owner: type) -> Iterator[tuple[str, Any]]:
    """Yield the methods and properties of a class that users call, as far as they are ours."""
    for name in dir(owner):
        member = inspect.getattr_static(owner, name)
        if name.startswith("_") or name in INTERNAL or isinstance(member, Enum):
            continue
        home = next(base for base in owner.__mro__ if name in vars(base))
        is_ours = home.__module__.startswith("zenspark")
        if is_ours and (callable(getattr(owner, name)) or inspect.isdatadescriptor(member)):
            yield name, member


def public_functions() -> Iterator[tuple[str, Any]]:
    """Yield every public function, and every method that is not a property, by its full name."""
    for name, found in public_objects():
        if not inspect.isclass(found):
            yield name, found
            continue
        for member_name, member in public_members(found):
            if not inspect.isdatadescriptor(member):
                yield f"{name}.{member_name}", getattr(found, member_name)


def parameters(function: Any) -> list[str]:  # noqa: ANN401 - any callable
    """Return the names of the parameters that a caller gives, without `*args` and `**options`.

    An exception without a constructor of its own takes any arguments, which have no names.
    """
    if takes_any_arguments(function):
        return []
    found = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [each.name for each in found if each.kind not in kinds and each.name not in ("self", "cls")]


def takes_any_arguments(function: Any) -> bool:  # noqa: ANN401 - any callable
    """Return whether it is an exception without a constructor of its own, for which Python has no signature."""
    return inspect.isclass(function) and issubclass(function, Exception) and not constructors(function)


# --- the source, which also compiled functions have ------------------------------------------------

Definition = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _tree(module: str) -> ast.Module:
    path = Path(zenspark.__file__).parents[1].joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(source.read_text(encoding="utf-8"))


@cache
def definitions(module: str) -> dict[str, Definition]:
    """Return the functions and methods in the source of a module, by qualified name; of overloads the last."""
    found: dict[str, Definition] = {}
    for node in _tree(module).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        found |= {f"{owner}{each.name}": each for each in members if isinstance(each, Definition)}
    return found


def home_of(function: Any) -> tuple[str, str]:  # noqa: ANN401 - any callable
    """Return module and qualified name of a function: that which a wrapper wraps, and in the class that defines it."""
    function = inspect.unwrap(getattr(function, "__func__", function))
    return getattr(function, "__objclass__", function).__module__ or "builtins", function.__qualname__


def definition(function: Any) -> Definition:  # noqa: ANN401 - any callable
    """Return the source of a function or method."""
    module, name = home_of(function)
    return definitions(module)[name]


def constructors(owner: type) -> list[tuple[str, Definition]]:
    """Return module and source of `__new__`, `__init__` and `__post_init__` of a class, as far as they are ours."""
    places = [(base.__module__, f"{base.__name__}.{name}") for base in owner.__mro__ for name in CONSTRUCTORS]
    return [
        (module, definitions(module)[name])
        for module, name in places
        if module.startswith("zenspark.") and name in definitions(module)
    ]


def returns(function: Any) -> bool:  # noqa: ANN401 - any callable
    """Return whether a function is annotated to return a value."""
    annotation = definition(function).returns
    return annotation is not None and ast.unparse(annotation) != "None"


def raises(function: Any) -> bool:  # noqa: ANN401 - any callable
    """Return whether a function, a method or the constructor of a class raises, or a function of ours that it calls."""
    if inspect.isclass(function):
        return any(_raises(body, module, function) for module, body in constructors(function))
    module, name = home_of(function)
    return _raises(definition(function), module, _class_of(module, name))


def _raises(body: Definition, module: str, owner: type | None, depth: int = MAX_CALL_DEPTH) -> bool:
    nodes = list(_nodes(body))
    if any(isinstance(node, ast.Raise) and node.exc is not None for node in nodes):
        return True
    calls = [node for node in nodes if isinstance(node, ast.Call)] if depth else []
    return any(_raises(*callee, depth - 1) for call in calls for callee in _callees(call, module, owner))


def _nodes(body: Definition) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of the functions in it."""
    waiting: list[ast.AST] = list(body.body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            waiting += ast.iter_child_nodes(node)


def _callees(call: ast.Call, module: str, owner: type | None) -> list[tuple[Definition, str, type | None]]:
    """Return source, module and class of the function of ours that is called; nothing if the name does not tell."""
    called = _resolve(call.func, module, owner)
    if inspect.isclass(called):
        return [(body, home, called) for home, body in constructors(called) if call.args or call.keywords]
    if not inspect.isroutine(called):
        return []
    home, name = home_of(called)
    if not home.startswith("zenspark.") or name not in definitions(home):
        return []
    return [(definitions(home)[name], home, _class_of(home, name))]


def _class_of(module: str, name: str) -> type | None:
    """Return the class of a method, by its qualified name; None for a function."""
    return getattr(importlib.import_module(module), name.split(".")[0]) if "." in name else None


def _resolve(node: ast.expr, module: str, owner: type | None) -> Any:  # noqa: ANN401 - any object
    """Return the class or function that an expression in a method of `owner` stands for; None if it is another."""
    match node:
        case ast.Name(id="self" | "cls"):
            return owner
        case ast.Name(id=name):
            return getattr(importlib.import_module(module), name, None)
        case ast.Attribute(value=ast.Name(id="self"), attr="_sync") if owner is not None:
            modules = [importlib.import_module(f"zenspark.api.{each}") for each in WRAPPED]
            return next((vars(each)[owner.__name__] for each in modules if owner.__name__ in vars(each)), None)
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if name in ATTRIBUTES:
            home, kind = ATTRIBUTES[name]
            return getattr(importlib.import_module(home), kind)
        case ast.Attribute(value=value, attr=name):
            return getattr(_resolve(value, module, owner), name, None)
    return None


# --- classes that signatures name ------------------------------------------------------------------


def signature_classes(function: Any) -> set[type]:  # noqa: ANN401 - a function, method or property
    """Return the classes of ours in the annotations of a function and its overloads; of `self` not."""
    module, name = home_of(function.fget if isinstance(function, property) else function)
    return {kind for node in _annotations(module, name) for kind in _classes_in(_evaluate(node, module))}


def signature_aliases(function: Any) -> set[str]:  # noqa: ANN401 - a function or method
    """Return the names in the annotations of a function and its overloads that stand for several types, or a function.

    These are names of our own: those of `typing` stand for themselves.
    """
    module, name = home_of(function)
    names = {node.id for each in _annotations(module, name) for node in ast.walk(each) if isinstance(node, ast.Name)}
    values = {each: _names_for_type_checkers(module)[each] for each in names - set(dir(builtins))}
    return {name for name, value in values.items() if get_origin(value) is not None}


def _annotations(module: str, name: str) -> Iterator[ast.expr]:
    owner, _, function = name.rpartition(".")
    for body in _overloads(module, owner, function):
        arguments = body.args
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        yield from (each.annotation for each in given if each and each.annotation and each.arg not in ("self", "cls"))
        yield from [body.returns] if body.returns else []


def _overloads(module: str, owner: str, name: str) -> list[Definition]:
    """Return the function with this name, or the method with this name of a class, and its overloads."""
    nodes = _tree(module).body
    if owner:
        (nodes,) = [node.body for node in nodes if isinstance(node, ast.ClassDef) and node.name == owner]
    nodes = nodes + [each for node in nodes if isinstance(node, ast.If) for each in node.body]
    return [node for node in nodes if isinstance(node, Definition) and node.name == name]


def _evaluate(annotation: ast.expr, module: str) -> Any:  # noqa: ANN401 - a type, or a generic one with arguments
    return eval(ast.unparse(annotation), _names_for_type_checkers(module))


@cache
def _names_for_type_checkers(module: str) -> dict[str, Any]:
    """Return the names of a module, and those that it defines only for type checkers."""
    names = dict(vars(importlib.import_module(module)))
    for node in _tree(module).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module, "exec"), names)
    return names


def _classes_in(annotation: Any) -> Iterator[type]:  # noqa: ANN401 - a type, or a generic one with arguments
    """Yield the classes of ours in an annotation; those of its fields in place of a dictionary of keyword arguments."""
    if isinstance(annotation, str):
        return  # a literal, or a forward reference of an alias to a class of its own module
    if is_typeddict(annotation):
        for field in get_type_hints(annotation).values():
            yield from _classes_in(field)
    elif inspect.isclass(origin := get_origin(annotation) or annotation) and origin.__module__.startswith("zenspark"):
        yield origin
    for argument in annotation if isinstance(annotation, list) else get_args(annotation):
        yield from _classes_in(argument)


# --- docstrings ------------------------------------------------------------------------------------


def documented(text: str | None, sections: str = "Args") -> set[str]:
    """Return the names that a section of a docstring describes, `Args:` unless others are given as `A|B`."""
    found = re.findall(rf"^(?:{sections}):\n((?:[ ]{{4,}}.*\n?|\n)+)", text or "", re.MULTILINE)
    return {name for section in found for name in re.findall(r"^    (\w+): \S", section, re.MULTILINE)}


def has_section(text: str | None, section: str) -> bool:
    """Return whether a docstring has a section that is not empty."""
    return re.search(rf"^{section}:\n    \S", text or "", re.MULTILINE) is not None


def examples() -> Iterator[tuple[str, list[doctest.Example]]]:
    """Yield the example of every public class and function, by its full name."""
    parser = doctest.DocTestParser()
    for name, found in (*public_objects(), *public_functions()):
        lines = parser.get_examples(inspect.getdoc(found) or "", name)
        if lines:
            yield name, lines


def free_names(source: str) -> set[str]:
    """Return the names that a program uses and does not define."""
    nodes = list(ast.walk(ast.parse(source)))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    defined = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler | Definition) and node.name}
    defined |= {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
    return used - defined - {each.arg for each in nodes if isinstance(each, ast.arg)}
