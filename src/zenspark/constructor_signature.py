"""ConstructorSignature: `inspect.signature` and `help` show the constructor of a compiled class."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from pathlib import Path


class ConstructorSignature:
    """The `__signature__` of a class whose constructor is compiled: it is read from the source when a caller asks.

    Python knows the parameters of compiled functions and methods, but not those that construct an extension type.
    """

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        home = next(base for base in owner.__mro__ if "__init__" in vars(base))
        constructor = vars(home)["__init__"]
        signature = inspect.signature(constructor if inspect.isfunction(constructor) else from_source(home))
        return signature.replace(parameters=list(signature.parameters.values())[1:])


def from_source(home: type) -> Callable[..., None]:
    """Return a function with the parameters of the `__init__` in the source of a class.

    Raises:
        AttributeError: The source is not installed.
    """
    module = sys.modules[home.__module__]
    assert module.__file__ is not None, "the module of a compiled class is a file"
    source = Path(module.__file__).with_name(f"{module.__name__.rpartition('.')[2]}.py")
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except OSError:
        raise AttributeError(f"the source of {home.__qualname__} is not installed") from None
    (members,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == home.__name__]
    (constructor,) = [node for node in members if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    names = dict(vars(module))
    # annotations stay text, as in the source: what is compiled here has the future imports of this file
    exec(compile(ast.Module([constructor], []), str(source), "exec"), names)
    made: Callable[..., None] = names["__init__"]
    return made
