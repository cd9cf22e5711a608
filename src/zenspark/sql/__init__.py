"""SQL over a lake without Spark: an embedded engine that only reads, and returns results in milliseconds."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenspark.sql.engine import Engine
    from zenspark.sql.tables import ColumnInfo, TableInfo

__all__ = ["ColumnInfo", "Engine", "TableInfo"]

_MODULES = {"Engine": "engine", "ColumnInfo": "tables", "TableInfo": "tables"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
