"""Cache of decisions per face and row template, invalidated by version."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from zenspark.router.face import Face
from zenspark.wire.columns import PushColumns, PushTemplate

T = TypeVar("T")

MAX_CACHED_TEMPLATES = 100_000
"""Templates cached per face: more would let a neighbour that publishes on ever new keys fill the memory."""
MAX_CACHED_KEY_BYTES = 16 << 20
"""Bytes in the keys of cached templates per face: long keys must not fill the memory either."""

TemplateKey = tuple[object, ...]
"""Identity of a row template, see `PushColumns.template_key`: its third part is the suffix of the key."""


class PrefixTemplate(NamedTuple):
    """Common part of row templates that differ only in the suffix of their keys."""

    example: PushTemplate
    """One of the templates, decoded."""
    prefix: str | None
    """Key before the suffix; None if its key id is unknown."""

    def key(self, template_key: TemplateKey) -> str | None:
        """Full key of a template; None if its key id is unknown."""
        suffix = template_key[2]
        assert isinstance(suffix, bytes)
        return None if self.prefix is None else self.prefix + suffix.decode()


class FaceTemplates(dict[TemplateKey, T]):
    """Cached values of one face's templates, by template key."""

    __slots__ = ("bytes", "templates", "version")

    def __init__(self, version: object) -> None:
        super().__init__()
        self.version = version
        self.bytes = 0
        self.templates: dict[TemplateKey, PrefixTemplate] = {}

    def template(self, face: Face, columns: PushColumns, index: int, template_key: TemplateKey) -> PrefixTemplate:
        """Common part of a template and others: on ever new keys there are few, and decoding one is slow."""
        prefix_key = (*template_key[:2], *template_key[3:])
        cached = self.templates.get(prefix_key)
        if cached is None:
            example = columns.template_at(index)
            prefix = face.resolve(msgspec.structs.replace(example.wire_expr, suffix=""))
            cached = self.templates[prefix_key] = PrefixTemplate(example, prefix)
        return cached

    def count_key_bytes(self, key: str | None) -> None:
        """Count the key of an added entry."""
        if key is not None:
            self.bytes += len(key)


class FaceTemplateCache(Generic[T]):
    """Cached values of all faces' templates."""

    def __init__(self) -> None:
        self._faces: WeakKeyDictionary[Face, FaceTemplates[T]] = WeakKeyDictionary()

    def clear(self) -> None:
        """Discard the values of all faces."""
        self._faces.clear()

    def for_face(self, face: Face, version: object) -> FaceTemplates[T]:
        """Cache of a face, to be added to; empty if its version differs from the last time."""
        cached = self._faces.get(face)
        if (
            cached is None
            or cached.version != version
            or len(cached) > MAX_CACHED_TEMPLATES
            or cached.bytes > MAX_CACHED_KEY_BYTES
        ):
            cached = self._faces[face] = FaceTemplates(version)
        return cached
