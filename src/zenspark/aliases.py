"""`install_as_zenoh`: libraries that import zenoh get zenspark, without a change to them."""

from __future__ import annotations

import sys
from importlib import import_module

from zenspark.errors import UsageError

MODULES = ("", ".aio", ".errors", ".ext", ".handlers", ".shm", ".zenoh")
"""Suffixes of the modules that become aliases: `zenoh` itself, and each that programs import below it."""


def install_as_zenoh() -> None:
    """Make every later `import zenoh` in this process import zenspark; a second call changes nothing.

    It must come before anything imports zenoh: names that were imported already would stay those of eclipse-zenoh.

    Raises:
        UsageError: zenoh was imported already.

    Example:
        >>> zenspark.install_as_zenoh()
        >>> import zenoh
    """
    aliases = {f"zenoh{name}": import_module(f"zenspark{name}") for name in MODULES}
    foreign = [name for name in sys.modules if name.split(".")[0] == "zenoh" and name not in aliases]
    foreign += [name for name, module in aliases.items() if sys.modules.get(name, module) is not module]
    if foreign:
        where = getattr(sys.modules[foreign[0]], "__file__", None) or "another place"
        raise UsageError(f"{foreign[0]} is imported already, from {where}: call install_as_zenoh() before that")
    sys.modules.update(aliases)
