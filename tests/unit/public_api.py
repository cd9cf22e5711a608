"""The public names of zenspark, with their methods and parameters, for tests of what users see of them."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

MODULES = ("zenspark", "zenspark.ext", "zenspark.handlers", "zenspark.aio")
INTERNAL = frozenset({"from_wire", "to_wire"})
"""Methods between the values of users and those of messages: public for the other layers only."""


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


def parameters(function: Any) -> list[str]:  # noqa: ANN401 - any callable
    """Return the names of the parameters that a caller gives; none for one whose signature cannot be read."""
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:
        return []
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [each.name for each in found if each.name not in ("self", "cls") and each.kind not in kinds]


def documented(text: str | None, sections: str = "Args") -> set[str]:
    """Return the names that a section of a docstring describes, `Args:` unless others are given as `A|B`."""
    found = re.findall(rf"^(?:{sections}):\n((?:[ ]{{4,}}.*\n?|\n)+)", text or "", re.MULTILINE)
    return {name for section in found for name in re.findall(r"^    (\w+): \S", section, re.MULTILINE)}
