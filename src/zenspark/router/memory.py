"""What was found out about the publications of a neighbour, remembered until something changes."""

from __future__ import annotations

from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from zenspark.router.face import Face

T = TypeVar("T")

MOST = 100_000
"""How many shapes are remembered: more would let whoever publishes ever new keys fill the memory."""
MOST_BYTES = 16 << 20
"""Bytes in the keys of these shapes, for the same reason."""


class _Known(Generic[T]):
    """What is known of one face."""

    __slots__ = ("bytes", "shapes", "version")

    def __init__(self, version: object) -> None:
        self.version = version
        self.shapes: dict[tuple[object, ...], T] = {}
        self.bytes = 0


class Memory(Generic[T]):
    """For each face, something known about shapes of publications, by their signatures (see `Columns.signature`)."""

    def __init__(self) -> None:
        self._faces: WeakKeyDictionary[Face, _Known[T]] = WeakKeyDictionary()

    def of(self, face: Face, version: object) -> dict[tuple[object, ...], T]:
        """What is known of a face, to be added to; nothing if the version is another than the last time."""
        found = self._faces.get(face)
        if found is None or found.version != version or len(found.shapes) > MOST or found.bytes > MOST_BYTES:
            found = self._faces[face] = _Known(version)
        return found.shapes

    def grow(self, face: Face, key: str | None) -> None:
        """Something on a key was added to what is known of a face."""
        if key is not None:
            self._faces[face].bytes += len(key)
