"""What was found out about the publications of a neighbour, remembered until something changes."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from zenspark.router.face import Face
from zenspark.wire.columns import Columns, Shape

T = TypeVar("T")

MAX_CACHED_TEMPLATES = 100_000
"""How many shapes are remembered: more would let whoever publishes ever new keys fill the memory."""
MAX_CACHED_KEY_BYTES = 16 << 20
"""Bytes in the keys of these shapes, for the same reason."""

TemplateKey = tuple[object, ...]
"""That of a shape, see `Columns.signature`: its third part is the suffix of the key."""


class PrefixTemplate(NamedTuple):
    """What shapes of a neighbour have in common that differ only in the suffix of their keys."""

    shape: Shape
    """One of them,"""
    prefix: str | None
    """and what stands before the suffix; None if the number for it is unknown."""

    def key(self, signature: TemplateKey) -> str | None:
        """The key of a shape; None if its number is unknown."""
        suffix = signature[2]
        assert isinstance(suffix, bytes)
        return None if self.prefix is None else self.prefix + suffix.decode()


class FaceTemplates(dict[TemplateKey, T]):
    """What is known of the shapes of one face, by their signatures."""

    __slots__ = ("bytes", "templates", "version")

    def __init__(self, version: object) -> None:
        super().__init__()
        self.version = version
        self.bytes = 0
        self.templates: dict[TemplateKey, PrefixTemplate] = {}

    def template(self, face: Face, columns: Columns, index: int, signature: TemplateKey) -> PrefixTemplate:
        """What a shape has in common with others: on ever new keys there are few, and to decode one takes long."""
        common = (*signature[:2], *signature[3:])
        found = self.templates.get(common)
        if found is None:
            shape = columns.shape_at(index)
            prefix = face.resolve(msgspec.structs.replace(shape.wire_expr, suffix=""))
            found = self.templates[common] = PrefixTemplate(shape, prefix)
        return found

    def count_key_bytes(self, key: str | None) -> None:
        """Something on a key was added."""
        if key is not None:
            self.bytes += len(key)


class FaceTemplateCache(Generic[T]):
    """For each face, something known about shapes of publications."""

    def __init__(self) -> None:
        self._faces: WeakKeyDictionary[Face, FaceTemplates[T]] = WeakKeyDictionary()

    def of(self, face: Face, version: object) -> FaceTemplates[T]:
        """What is known of a face, to be added to; nothing if the version is another than the last time."""
        found = self._faces.get(face)
        if (
            found is None
            or found.version != version
            or len(found) > MAX_CACHED_TEMPLATES
            or found.bytes > MAX_CACHED_KEY_BYTES
        ):
            found = self._faces[face] = FaceTemplates(version)
        return found
