"""Forwarding plans: next hops and the re-encoded head of the PUSH for each, computed once per row template.

The next hops are those that `routing/routes.py` decides: what is sent is what `Router.receive` sends for each
publication. Where templates do not determine it, `plans` returns None, and the rows must be routed one by one, by
`Router.receive`:

- the source has an interceptor, or is a group member whose messages are also received on another face;
- a template has the plan `PER_MESSAGE`: its tree is unknown, its key exceeds the limits, or a target has an
  interceptor;
- no timestamps can be added, because that of a row is too far ahead of the clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from zenspark.router.face import Face, Region
from zenspark.router.forwarding.template_cache import FaceTemplateCache, FaceTemplates, TemplateKey
from zenspark.router.linkstate.states import SELF
from zenspark.router.router import Router
from zenspark.wire.columns import NO_LANE, PushColumns, lane_of
from zenspark.wire.templates import push_head
from zenspark.wire.values import Congestion, QoS


class NextHop(msgspec.Struct, frozen=True, eq=False):
    """Forwarding of publications with one template to one neighbour."""

    target: Face
    head: bytes
    """Encoded PUSH up to its body."""
    key_mapping_version: int
    """Key mapping version of the target for which the head was encoded."""


class ForwardingPlan(msgspec.Struct, frozen=True, eq=False):
    """Targets of the publications with one template."""

    next_hops: tuple[NextHop, ...] = ()
    local_key: str | None = None
    """Key of the publications, if the local session has a matching subscriber; else None."""
    lane: int = NO_LANE
    congestion: Congestion = Congestion.DROP
    applies_to_template: bool = True
    """Whether the plan holds for each publication with the template."""

    @property
    def is_local(self) -> bool:
        """Whether the local session has a matching subscriber."""
        return self.local_key is not None

    @property
    def is_current(self) -> bool:
        """Whether no key mapping of a target has changed since."""
        return not self.next_hops or all(
            next_hop.key_mapping_version == next_hop.target.key_mapping_version for next_hop in self.next_hops
        )


PER_MESSAGE = ForwardingPlan(applies_to_template=False)
"""Plan of a template whose publications must be routed one by one, by `Router.receive`."""


class NeighbourPlan(msgspec.Struct, eq=False):
    """Rows of one run that go to one neighbour: a lane and a head for each template."""

    lanes: bytearray
    """Lane by template; NO_LANE if its rows do not go there."""
    undroppable_lanes: bytearray
    """Lane by template; NO_LANE if its rows do not go there, or may be dropped."""
    block_first: set[int]
    """Templates with BlockFirst: of their rows from one source, one is forwarded to a backlogged link."""
    heads: list[bytes]
    """Encoded PUSH up to its body, by template; empty if its rows do not go there."""

    @classmethod
    def empty(cls, count: int) -> NeighbourPlan:
        """Plan without rows."""
        return cls(bytearray([NO_LANE]) * count, bytearray([NO_LANE]) * count, set(), [b""] * count)


class ForwardingPlanner:
    """Computes the forwarding plans of one router. `local` is the face of its own session."""

    def __init__(self, router: Router, local: Face) -> None:
        self._router = router
        self._local = local
        self._cache: FaceTemplateCache[ForwardingPlan] = FaceTemplateCache()
        self._version = -1
        """Version of the routes that the cached plans were made from."""

    def plans(self, face: Face, columns: PushColumns, start: int, stop: int) -> list[ForwardingPlan] | None:
        """Plans for rows of a face, by template; adds timestamps if configured. None: route the rows one by one."""
        plans = None if face.ingress is not None or face.is_duplicate_member else self._lookup(face, columns)
        timestamping = self._router.timestamping
        if plans is None or timestamping is None:
            return plans
        selected = bytes([plan.is_local or bool(plan.next_hops) for plan in plans])
        return plans if timestamping.timestamp_rows(columns, start, stop, selected) else None

    def _lookup(self, face: Face, columns: PushColumns) -> list[ForwardingPlan] | None:
        if self._version != self._router.routes.version:
            # all plans at once: the plans of two faces that have left would keep each other, and both faces, alive
            self._cache.clear()
            self._version = self._router.routes.version
        cached = self._cache.for_face(face, face.key_mapping_version)
        is_router = face.region is Region.ROUTER
        plans = []
        for index in range(columns.template_count):
            cache_key = template_key = columns.template_key(index)
            if is_router:  # its psid of a router may have been reassigned
                cache_key = (self._router.root_psid(face, columns.node_id(index)), *template_key)
            plan = cached.get(cache_key)
            if plan is None or not plan.is_current:
                plan = cached[cache_key] = self._make_plan(face, cached, columns, index, template_key)
            if not plan.applies_to_template:
                return None
            plans.append(plan)
        return plans

    def _make_plan(
        self,
        face: Face,
        cached: FaceTemplates[ForwardingPlan],
        columns: PushColumns,
        index: int,
        template_key: TemplateKey,
    ) -> ForwardingPlan:
        template = cached.template(face, columns, index, template_key)
        example, key = template.example, template.key(template_key)
        root_psid = self._router.root_psid(face, example.node_id)
        if root_psid is None or (key is not None and not self._router.is_within_limits(key)):
            return PER_MESSAGE
        cached.count_key_bytes(key)
        targets = () if key is None else self._router.routes.push_next_hops(face, key, root_psid)
        if any(target.egress is not None for target in targets):
            return PER_MESSAGE
        return ForwardingPlan(
            tuple(
                [
                    _make_next_hop(target, key or "", example.qos, root_psid)
                    for target in targets
                    if target is not self._local
                ]
            ),
            key if self._local in targets else None,
            lane_of(example.qos.priority, example.reliable, example.qos.express),
            example.qos.congestion,
        )


def _make_next_hop(target: Face, key: str, qos: QoS, root_psid: int) -> NextHop:
    node_id = root_psid if target.region is Region.ROUTER else SELF
    target_qos = qos.for_patch(target.patch)
    return NextHop(target, push_head(target.to_wire_expr(key), target_qos, node_id), target.key_mapping_version)


def plans_by_neighbour(plans: Sequence[ForwardingPlan]) -> Iterable[tuple[Face, NeighbourPlan]]:
    """Split plans by neighbour."""
    by_neighbour: dict[Face, NeighbourPlan] = {}
    for index, plan in enumerate(plans):
        for next_hop in plan.next_hops:
            neighbour_plan = by_neighbour.get(next_hop.target)
            if neighbour_plan is None:
                neighbour_plan = by_neighbour[next_hop.target] = NeighbourPlan.empty(len(plans))
            neighbour_plan.heads[index] = next_hop.head
            neighbour_plan.lanes[index] = plan.lane
            if plan.congestion is Congestion.BLOCK:
                neighbour_plan.undroppable_lanes[index] = plan.lane
            elif plan.congestion is Congestion.BLOCK_FIRST:
                neighbour_plan.block_first.add(index)
    return by_neighbour.items()
