"""FaceTable: the driver that carries each face of the router."""

from __future__ import annotations

from contextlib import AbstractContextManager

from zenspark.net.io.link_driver import ConnectionDriver, LinkDriver
from zenspark.net.node.observer import GroupMemberInfo, Neighbour
from zenspark.router.face import Face
from zenspark.wire.values import ZenohId


class FaceTable:
    """Maps faces to drivers, and drivers of sessions to faces. Changed in the loop, with the node's lock held."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self._lock = lock
        self._drivers: dict[Face, ConnectionDriver] = {}
        self._faces: dict[ConnectionDriver, Face] = {}
        self._groups: dict[Face, LinkDriver] = {}
        """The drivers of groups, by the face of the group and of each member."""
        self._members: dict[Face, GroupMemberInfo] = {}

    # -- sessions

    def add_session(self, face: Face, driver: ConnectionDriver) -> None:
        """Add the face of a session that was opened."""
        self._drivers[face] = driver
        self._faces[driver] = face

    def remove_session(self, driver: ConnectionDriver) -> Face | None:
        """Remove and return the face of a session that has ended; None if it was never open."""
        face = self._faces.pop(driver, None)
        if face is not None:
            del self._drivers[face]
        return face

    def face_of(self, driver: ConnectionDriver) -> Face:
        """Return the face of an open session."""
        return self._faces[driver]

    def is_open(self, driver: ConnectionDriver) -> bool:
        """Return whether a driver has an open session."""
        return driver in self._faces

    def has_session(self, zid: ZenohId) -> bool:
        """Return whether a node has a session with this one; from any thread."""
        with self._lock:
            return any(face.zid == zid for face in self._drivers)

    # -- groups

    def add_group_face(self, face: Face, driver: LinkDriver, member: GroupMemberInfo | None = None) -> None:
        """Add the face of a group, or of one member of it."""
        self._groups[face] = driver
        if member is not None:
            self._members[face] = member

    def remove_group_face(self, face: Face) -> tuple[LinkDriver, GroupMemberInfo | None]:
        """Remove the face of a group, or of one member of it; returns its driver and the member."""
        return self._groups.pop(face), self._members.pop(face, None)

    # -- all of them

    def driver(self, face: Face) -> LinkDriver | None:
        """Return the driver that a face is received from and sent to; None for the local session."""
        return self._drivers.get(face) or self._groups.get(face)

    @property
    def drivers(self) -> dict[Face, ConnectionDriver]:
        """A copy of the drivers of sessions, by face; from any thread."""
        with self._lock:
            return dict(self._drivers)

    @property
    def neighbourhood(self) -> dict[Face, Neighbour]:
        """A copy of all neighbours, by face; from any thread."""
        with self._lock:
            return {**self._drivers, **self._members}

    @property
    def link_drivers(self) -> set[LinkDriver]:
        """A copy of the set of all drivers; from any thread."""
        with self._lock:
            return {*self._drivers.values(), *self._groups.values()}

    def clear(self) -> None:
        """Remove all faces, in a forked child."""
        self._drivers.clear()
        self._groups.clear()
        self._members.clear()
