"""What was found out about the publications of a neighbour, remembered until something changes."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from zenspark.router.face import Face
from zenspark.wire.columns import Columns, Shape

T = TypeVar("T")

MOST = 100_000
"""How many shapes are remembered: more would let whoever publishes ever new keys fill the memory."""
MOST_BYTES = 16 << 20
"""Bytes in the keys of these shapes, for the same reason."""

Signature = tuple[object, ...]
"""That of a shape, see `Columns.signature`: its third part is the suffix of the key."""


class Template(NamedTuple):
    """What shapes of a neighbour have in common that differ only in the suffix of their keys."""

    shape: Shape
    """One of them,"""
    prefix: str | None
    """and what stands before the suffix; None if the number for it is unknown."""

    def key(self, signature: Signature) -> str | None:
        """The key of a shape; None if its number is unknown."""
        suffix = signature[2]
        assert isinstance(suffix, bytes)
        return None if self.prefix is None else self.prefix + suffix.decode()


class Known(dict[Signature, T]):
    """What is known of the shapes of one face, by their signatures."""

    __slots__ = ("bytes", "templates", "version")

    def __init__(self, version: object) -> None:
        super().__init__()
        self.version = version
        self.bytes = 0
        self.templates: dict[Signature, Template] = {}

    def template(self, face: Face, columns: Columns, index: int, signature: Signature) -> Template:
        """What a shape has in common with others: on ever new keys there are few, and to decode one takes long."""
        common = (*signature[:2], *signature[3:])
        found = self.templates.get(common)
        if found is None:
            shape = columns.shape_at(index)
            prefix = face.resolve(msgspec.structs.replace(shape.wire_expr, suffix=""))
            found = self.templates[common] = Template(shape, prefix)
        return found

    def grow(self, key: str | None) -> None:
        """Something on a key was added."""
        if key is not None:
            self.bytes += len(key)


class Memory(Generic[T]):
    """For each face, something known about shapes of publications."""

    def __init__(self) -> None:
        self._faces: WeakKeyDictionary[Face, Known[T]] = WeakKeyDictionary()

    def of(self, face: Face, version: object) -> Known[T]:
        """What is known of a face, to be added to; nothing if the version is another than the last time."""
        found = self._faces.get(face)
        if found is None or found.version != version or len(found) > MOST or found.bytes > MOST_BYTES:
            found = self._faces[face] = Known(version)
        return found
