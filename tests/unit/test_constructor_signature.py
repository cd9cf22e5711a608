"""Constructors of compiled classes: their parameters are those of the source."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from zenspark.constructor_signature import ConstructorSignature, from_source
from zenspark.handlers.channel import Channel
from zenspark.types.sample import Sample
from zenspark.types.zbytes import ZBytes

SOURCE = """from __future__ import annotations
LIMIT = 3
class Other:
    def __init__(self) -> None: ...
class Made:
    def close(self) -> None: ...
    def __init__(self, size: Size, *, limit: int = LIMIT) -> None:
        raise RuntimeError
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    tmp_path.joinpath("made_of_source.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("made_of_source")
    del sys.modules["made_of_source"]


@pytest.mark.parametrize("kind", [Channel, Sample, ZBytes])
def test_signature_is_that_of_the_source_in_both_builds(kind: type) -> None:
    source = inspect.signature(from_source(kind))
    assert list(source.parameters.values())[1:] == list(inspect.signature(kind).parameters.values())
    assert inspect.signature(kind).return_annotation == source.return_annotation == "None"


def test_annotations_are_text_and_defaults_are_values(module: ModuleType) -> None:
    assert str(inspect.signature(from_source(module.Made))) == "(self, size: 'Size', *, limit: 'int' = 3) -> 'None'"


def test_subclass_has_the_signature_of_its_own_constructor() -> None:
    class Base:
        __signature__ = ConstructorSignature()

        def __init__(self, size: int) -> None: ...

    class Same(Base): ...

    class Own(Base):
        def __init__(self, name: str, limit: int = 3) -> None: ...

    assert list(inspect.signature(Same).parameters) == ["size"]
    assert list(inspect.signature(Own).parameters) == ["name", "limit"]


def test_without_its_source_a_class_has_no_signature(module: ModuleType) -> None:
    Path(str(module.__file__)).unlink()
    with pytest.raises(AttributeError, match="the source of Made is not installed"):
        from_source(module.Made)
