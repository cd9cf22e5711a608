"""`zenspark.zenoh`: the names of eclipse-zenoh's native module, `zenoh.zenoh`, which some programs import from."""

from typing import Any

import zenspark

__all__ = [name for name in zenspark.__all__ if not name.startswith("_")]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in __all__:
        raise AttributeError(f"module 'zenspark.zenoh' has no attribute {name!r}")
    return getattr(zenspark, name)
