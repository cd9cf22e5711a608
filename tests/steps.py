"""Counting steps: how much work a piece of pure Python does, independent of the machine and of what else runs on it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import zenspark

if TYPE_CHECKING:
    from _typeshed import TraceFunction


def interpreted(name: str) -> ModuleType:
    """A module of zenspark read from its `.py` file, also where a compiled one is in use."""
    path = f"{zenspark.__path__[0]}/{name.removeprefix('zenspark.').replace('.', '/')}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def interpreted_key_tree() -> ModuleType:
    """`zenspark.key.tree` and the `zenspark.key.match` it uses, both interpreted."""
    compiled = sys.modules["zenspark.key.match"]
    sys.modules["zenspark.key.match"] = interpreted("zenspark.key.match")
    try:
        return interpreted("zenspark.key.tree")
    finally:
        sys.modules["zenspark.key.match"] = compiled


def steps(work: Callable[[], object], directory: str = "/zenspark/") -> int:
    """How many lines of modules in a directory a piece of work runs."""
    count = 0

    def on_line(frame: FrameType, event: str, _: Any) -> TraceFunction:  # noqa: ANN401 - as in TraceFunction
        nonlocal count
        count += event == "line"
        return on_line

    def on_call(frame: FrameType, event: str, _: Any) -> TraceFunction | None:  # noqa: ANN401
        return on_line if directory in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
