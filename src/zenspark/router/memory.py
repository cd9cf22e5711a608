"""What was found out about the publications of a neighbour, remembered until something changes."""

from __future__ import annotations

from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from zenspark.router.face import Face

T = TypeVar("T")

MOST = 100_000
"""How many shapes are remembered: more would let whoever publishes ever new keys fill the memory."""


class Memory(Generic[T]):
    """For each face, something known about shapes of publications, by their signatures (see `Columns.signature`)."""

    def __init__(self) -> None:
        self._faces: WeakKeyDictionary[Face, tuple[object, dict[tuple[object, ...], T]]] = WeakKeyDictionary()

    def of(self, face: Face, version: object) -> dict[tuple[object, ...], T]:
        """What is known of a face, to be added to; nothing if the version is another than the last time."""
        found = self._faces.get(face)
        if found is None or found[0] != version or len(found[1]) > MOST:
            found = self._faces[face] = (version, {})
        return found[1]
