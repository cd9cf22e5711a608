"""Chooses between the two builds of the compiled modules, compiled and interpreted.

Some modules exist twice in one directory: `buffer.py`, and beside it the extension module compiled from it.
Python prefers the extension. With `ZENSPARK_PURE=1` in the environment the package puts `SourceFinder` before
Python's own finders, and everything below `zenspark` is then read from its `.py`: to test that both builds
behave alike, to measure coverage, to step through with a debugger.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Literal

PACKAGE = "zenspark"


class SourceFinder:
    """Finds the modules below `zenspark` in their `.py` files, blind to extension modules."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not fullname.startswith(PACKAGE + "."):
            return None
        for directory in path or ():
            spec = FileFinder(directory, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname)
            if spec is not None:
                return spec
        return None


def choose_build(environment: Mapping[str, str]) -> None:
    """Make every later import below `zenspark` read the `.py`, if the environment has `ZENSPARK_PURE=1`.

    Args:
        environment: The environment variables.
    """
    if environment.get("ZENSPARK_PURE") == "1" and SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, SourceFinder)


def build_kind() -> Literal["compiled", "interpreted"]:
    """Return which build of zenspark this process runs.

    Returns:
        "compiled" if it uses the extension modules, otherwise "interpreted".

    Example:
        >>> zenspark.build_kind() in ("compiled", "interpreted")
        True
    """
    if SourceFinder in sys.meta_path:
        return "interpreted"
    return "compiled" if has_extensions(os.path.dirname(__file__)) else "interpreted"


def has_extensions(directory: str) -> bool:
    """Return whether an extension module that this Python can load lies anywhere below the directory."""
    return any(name[name.find(".") :] in EXTENSION_SUFFIXES for _, _, names in os.walk(directory) for name in names)
