"""Forwarding: where publications go that came in columns, and the words for them there, found once for each shape.

It comes to the same as `Router.receive` with each of them. Where that cannot be known from the shape alone, because
somebody looks at every message, the answer is None: they have to be received one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from zenspark.router.face import Face, Region
from zenspark.router.linkstate.network import SELF
from zenspark.router.router import Router
from zenspark.router.routing.template_cache import FaceTemplateCache, FaceTemplates, TemplateKey
from zenspark.wire.codec import encode
from zenspark.wire.columns import EXPRESS, NO_LANE, Columns
from zenspark.wire.messages import Del, Push
from zenspark.wire.values import Congestion, QoS

RELIABLE = 0x08
"""A bit of a lane in the columns."""


class NextHop(msgspec.Struct, frozen=True, eq=False):
    """How publications of one shape go on to one neighbour."""

    target: Face
    head: bytes
    """All that stands before the body."""
    key_mapping_version: int
    """That of the target, in which the key is named."""


class ForwardingPlan(msgspec.Struct, frozen=True, eq=False):
    """Where publications of one shape go."""

    next_hops: tuple[NextHop, ...] = ()
    local_key: str | None = None
    """Their key, if the session of this node wants them."""
    lane: int = NO_LANE
    congestion: Congestion = Congestion.DROP
    is_cacheable: bool = True
    """Whether all of that is so for each of them."""

    @property
    def is_local(self) -> bool:
        """Whether the session of this node wants them."""
        return self.local_key is not None

    @property
    def is_current(self) -> bool:
        """Whether no key has got another number since."""
        return not self.next_hops or all(
            way.key_mapping_version == way.target.key_mapping_version for way in self.next_hops
        )


PER_MESSAGE = ForwardingPlan(is_cacheable=False)


class PeerPlan(msgspec.Struct, eq=False):
    """What one neighbour gets of the publications of one read: for each shape a lane and a head."""

    lanes: bytearray
    blocking: bytearray
    """The same without those that may be dropped."""
    block_first: set[int]
    """The shapes of which one publication may not be dropped: those with BlockFirst."""
    heads: list[bytes]

    @classmethod
    def empty(cls, count: int) -> PeerPlan:
        return cls(bytearray([NO_LANE]) * count, bytearray([NO_LANE]) * count, set(), [b""] * count)


class ForwardingPlanner:
    """Knows where the publications of one router's neighbours go. `local` is the face of its own session."""

    def __init__(self, router: Router, local: Face) -> None:
        self._router = router
        self._local = local
        self._memory: FaceTemplateCache[ForwardingPlan] = FaceTemplateCache()

    def plans(self, face: Face, columns: Columns, start: int, stop: int) -> list[ForwardingPlan] | None:
        """Where some rows of a face go, by shape, stamped if they have to be. None: receive them one by one."""
        found = None if face.ingress is not None or face.is_duplicate_member else self._found(face, columns)
        stamping = self._router.timestamping
        if found is None or stamping is None:
            return found
        wanted = bytes([course.is_local or bool(course.next_hops) for course in found])
        return found if stamping.timestamp_rows(columns, start, stop, wanted) else None

    def _found(self, face: Face, columns: Columns) -> list[ForwardingPlan] | None:
        known = self._memory.of(face, (self._router.routes.version, face.key_mapping_version))
        is_router = face.region is Region.ROUTER
        found = []
        for index in range(columns.shape_count):
            name = signature = columns.signature(index)
            if is_router:  # its number for a router may have come to mean another one
                name = (self._router.tree(face, columns.node_id(index)), *signature)
            course = known.get(name)
            if course is None or not course.is_current:
                course = known[name] = self._course(face, known, columns, index, signature)
            if not course.is_cacheable:
                return None
            found.append(course)
        return found

    def _course(
        self, face: Face, known: FaceTemplates[ForwardingPlan], columns: Columns, index: int, signature: TemplateKey
    ) -> ForwardingPlan:
        template = known.template(face, columns, index, signature)
        shape, key, tree = template.shape, template.key(signature), self._router.tree(face, template.shape.node_id)
        if tree is None or (key is not None and not self._router.is_within_limits(key)):
            return PER_MESSAGE
        known.count_key_bytes(key)
        targets = () if key is None else self._router.routes.push(face, key, tree)
        if any(target.egress is not None for target in targets):
            return PER_MESSAGE
        return ForwardingPlan(
            tuple(
                [_make_next_hop(target, key or "", shape.qos, tree) for target in targets if target is not self._local]
            ),
            key if self._local in targets else None,
            shape.qos.priority | (RELIABLE if shape.reliable else 0) | (EXPRESS if shape.qos.express else 0),
            shape.qos.congestion,
        )


def _make_next_hop(target: Face, key: str, qos: QoS, tree: int) -> NextHop:
    node_id = tree if target.region is Region.ROUTER else SELF
    written = qos.for_patch(target.patch)
    whole = encode(Push(wire_expr=target.to_wire_expr(key), qos=written, node_id=node_id, body=Del()))
    return NextHop(target, whole[:-1], target.key_mapping_version)


def plans_by_peer(courses: Sequence[ForwardingPlan]) -> Iterable[tuple[Face, PeerPlan]]:
    """What each neighbour gets."""
    found: dict[Face, PeerPlan] = {}
    for index, course in enumerate(courses):
        for way in course.next_hops:
            share = found.get(way.target)
            if share is None:
                share = found[way.target] = PeerPlan.empty(len(courses))
            share.heads[index] = way.head
            share.lanes[index] = course.lane
            if course.congestion is Congestion.BLOCK:
                share.blocking[index] = course.lane
            elif course.congestion is Congestion.BLOCK_FIRST:
                share.block_first.add(index)
    return found.items()
