"""Current declarations: what a late joiner gets, the declarations that exist when its INTEREST arrives, then D_FINAL.

Many declarations are sent in portions, one interest of a face after the other: `Dispatcher` (net/node/dispatch.py)
requests a portion in each turn of the loop, none while the link is backlogged. Peers and upstream nodes, which send no
interest, get theirs when their face is added (`declarations/declarations.py`), routers from
`linkstate/sourced_declarations.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from zenspark.router.declarations.announcements import emit_declare
from zenspark.router.declarations.declarations import Declarations
from zenspark.router.face import DeclarationKind, Face, Outgoing, Region
from zenspark.router.interests.table import InterestTable, LiveInterest
from zenspark.wire.messages import DeclareFinal
from zenspark.wire.values import QueryableInfo

MAX_DECLARATIONS_PER_PORTION = 256
"""Maximum current declarations in one portion: a short message may request all there are."""


class CurrentDeclarations:
    """Replies to the interests in current declarations of all faces of one router."""

    def __init__(self, out: Outgoing, interests: InterestTable, declarations: Declarations) -> None:
        self._out = out
        self._interests = interests
        self._declarations = declarations
        self._pending_interests: dict[Face, deque[LiveInterest]] = {}
        """Interests of each face to which the reply is not complete, in order."""

    @property
    def awaiting_faces(self) -> list[Face]:
        """Faces to whose interests the reply is not complete."""
        return list(self._pending_interests)

    def is_awaited_by(self, face: Face) -> bool:
        """Whether there are more declarations to send to a face."""
        return face in self._pending_interests

    def remove_face(self, face: Face) -> None:
        """Send no more declarations to a face."""
        self._pending_interests.pop(face, None)

    def start(self, interest: LiveInterest) -> None:
        """Begin the reply to an interest: with the first portion at once, unless the face awaits an earlier one."""
        interest.remaining = self._find(interest)
        queue = self._pending_interests.setdefault(interest.face, deque())
        queue.append(interest)
        if len(queue) == 1:
            self.send_next_portion(interest.face)

    def _find(self, interest: LiveInterest) -> Iterator[tuple[DeclarationKind, str]]:
        """Current declarations that match an interest."""
        for kind in sorted(interest.kinds, key=lambda kind: kind.value):
            entries = self._declarations.tables[kind].matching(interest.key)
            for key in dict.fromkeys(interest.announced_key(kind, entry.key) for entry in entries):
                yield kind, key

    def send_next_portion(self, face: Face) -> None:
        """Send the next portion of declarations to a face."""
        left, queue = MAX_DECLARATIONS_PER_PORTION, self._pending_interests[face]
        while queue and left:
            left = self._send_portion(queue[0], left)
            if queue[0].remaining is None:
                queue.popleft()
        if not queue:
            del self._pending_interests[face]

    def _send_portion(self, interest: LiveInterest, limit: int) -> int:
        """Send up to `limit` declarations of an interest; returns how many more may follow."""
        if interest.remaining is None:  # the interest ended meanwhile
            return limit
        for kind, key in islice(interest.remaining, limit):
            limit -= 1
            info = self._declarations.visible_info(interest.target, kind, key)
            if info is not None:
                self.send(interest, kind, key, info)
        if limit:
            interest.remaining = None
            self.send_final(interest)
        return limit

    def send(self, interest: LiveInterest, kind: DeclarationKind, key: str, info: QueryableInfo) -> None:
        """Send one declaration that matches an interest, unless it was sent for this interest already."""
        if (kind, key) in interest.announced:
            return
        if interest.upstream_ids:
            interest.announced.add((kind, key))
        interest.is_matched = True
        announcements = self._declarations.announcements
        if interest.is_future or interest.face.region is Region.MEMBER:
            announcements.announce(interest.target, kind, key, info, interest.id)
        else:
            announcements.announce_untracked(interest.face, kind, key, info, interest.id)

    def send_final(self, interest: LiveInterest) -> None:
        """Send D_FINAL, if all declarations of this node are sent and no upstream node is awaited."""
        if interest.is_current and not interest.waiting and interest.remaining is None:
            if interest.is_matched or not interest.face.has_fellow_members:
                emit_declare(self._out, interest.face, DeclareFinal(), interest.id)
            interest.announced.clear()
            if not interest.is_future:
                self._interests.remove(interest.face, interest.id)
