"""The lake: Delta tables of samples on a disk or in an object store, read and written without Spark."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenspark.lake.lake import Lake, Snapshot

__all__ = ["Lake", "Snapshot"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from zenspark.lake import lake

    return getattr(lake, name)
