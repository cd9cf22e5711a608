"""Publications forwarded in columns arrive as those routed one by one: same order, same lanes, same bytes.

The calls of both paths are counted: where there must be forwarding plans, no row may be routed as a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests import strategies
from tests.property.publications import decode_rows, fits_row
from tests.property.twin_networks import Calls, count_calls
from tests.strategies import examples
from zenspark.clock import MAX_DRIFT_NS, HybridClock, ntp64_from_ns
from zenspark.errors import LimitExceeded
from zenspark.router.face import Face
from zenspark.router.forwarding.plans import ForwardingPlan, ForwardingPlanner, plans_by_neighbour
from zenspark.router.linkstate.network import TREE_RECOMPUTATION_DELAY_SECONDS
from zenspark.router.router import Router, RouterPolicy
from zenspark.router.timestamping import TimestampPolicy
from zenspark.transport.framing import decompress
from zenspark.transport.outbox import Outbox
from zenspark.transport.receiver import FrameReceiver, LaneParameters, MessageReceived
from zenspark.wire.codec import encode, encode_link_states
from zenspark.wire.columns import BatchDecoder, Framing, PushColumns, PushRun, RowForwarder, StopReason
from zenspark.wire.message_schema import replace
from zenspark.wire.messages import (
    Declare,
    DeclareFinal,
    DeclareKeyexpr,
    DeclareSubscriber,
    Del,
    Frame,
    LinkState,
    NetworkMessage,
    NetworkOam,
    Push,
    Put,
    UndeclareKeyexpr,
    UndeclareSubscriber,
)
from zenspark.wire.values import BoundExpr, Mapping, NextSns, Priority, Timestamp, WhatAmI, WireExpr, ZenohId

OWN = ZenohId(0x0123456789ABCDEF)
BESIDE, BEHIND, FAR = ZenohId(0x20), ZenohId(0x21), ZenohId(0x22)
NOW = 1_700_000_000_000_000_000
HOUR = 3_600_000_000_000
SN_MASK = 0xFFF
PATCH = 1
NAMES = ("source", "client", "peer", "router", "far", "group", "member")
SENDERS = ("source", "source", "source", "client", "peer", "router", "router", "member")
ROUTED_NODE_IDS = {0, 2}
"""The node ids from the neighbouring router whose tree has its link; others are unknown, or have a tree without it."""
KEYS = ("a", "a/b", "a/b/c", "b", "a/*", "**", "not//a/key")

Guarded = st.sampled_from([None, "client", "router"])


class Link(msgspec.Struct, frozen=True):
    """What was agreed with a neighbour."""

    batch_size: int
    qos: bool
    compression: bool
    low_latency: bool


class NeighbourMessage(msgspec.Struct, frozen=True):
    """A neighbour sends a message."""

    who: str
    message: NetworkMessage
    reliable: bool = True


class Run(msgspec.Struct, frozen=True):
    """One of them sends several messages at once, in frames of their lanes."""

    who: str
    messages: tuple[tuple[Push, bool], ...]


class Refusing:
    """A guard that keeps what has no payload."""

    def intercept(self, message: Any, reliable: bool, now: float) -> Any:  # noqa: ANN401
        return None if isinstance(message, Push) and isinstance(message.body, Del) else message


class World:
    """One router, its neighbours, and what each of them is sent."""

    def __init__(self, adds_timestamps: bool, drops: bool, guarded: str | None, links: dict[str, Link]) -> None:
        timestamping = TimestampPolicy(OWN, HybridClock(), lambda: NOW, drops) if adds_timestamps else None
        self.router = Router(OWN, WhatAmI.ROUTER, RouterPolicy(timestamping=timestamping))
        self.is_guarded = guarded is not None
        self.local = self.router.add_local()
        self.received: list[tuple[Push, bool]] = []
        group = self.router.add_group()
        self.faces = {
            "source": self.router.add_face(ZenohId(0x10), WhatAmI.CLIENT, 0.0)[0],
            "client": self.router.add_face(ZenohId(0x11), WhatAmI.CLIENT, 0.0)[0],
            "peer": self.router.add_face(ZenohId(0x12), WhatAmI.PEER, 0.0)[0],
            "router": self.router.add_face(BESIDE, WhatAmI.ROUTER, 0.0)[0],
            "far": self.router.add_face(FAR, WhatAmI.ROUTER, 0.0)[0],
            "group": group,
            "member": self.router.add_member(group, ZenohId(0x13), WhatAmI.PEER),
        }
        states = [
            LinkState(psid=0, sn=2, zid=BESIDE, whatami=1, links=(1, 2)),
            LinkState(psid=1, sn=1, zid=OWN, whatami=1, links=(0, 3)),
            LinkState(psid=2, sn=2, zid=BEHIND, whatami=1, links=(0,)),
            LinkState(psid=3, sn=2, zid=FAR, whatami=1, links=(1,)),
        ]
        announced = NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states(states))
        self.router.receive(self.faces["router"], announced, 0.0)
        states = [
            LinkState(psid=0, sn=3, zid=FAR, whatami=1, links=(1,)),
            LinkState(psid=1, sn=1, zid=OWN, whatami=1),
        ]
        announced = NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states(states))
        self.router.receive(self.faces["far"], announced, 0.0)
        self.router.handle_timeout(TREE_RECOMPUTATION_DELAY_SECONDS)
        self.outboxes = {
            face: Outbox(link.batch_size, 7, SN_MASK, link.qos, link.compression, link.low_latency)
            for face, link in ((self.faces[name], link) for name, link in links.items())
        }
        self.batch_sizes = {self.faces[name]: link.batch_size for name, link in links.items()}
        if guarded is not None:
            self.faces[guarded].egress = Refusing()

    def receive(self, face: Face, message: NetworkMessage, reliable: bool) -> None:
        """One message, as an object."""
        for target, sent in self.router.receive(face, message, 1.0):
            passed = sent if target.egress is None else target.egress.intercept(sent, reliable, 1.0)
            if target is self.local:
                if isinstance(sent, Push):
                    self.received.append((replace(sent, wire_expr=WireExpr(0, "local")), reliable))
            elif isinstance(passed, Push):  # declarations are not what this is about
                self.append(target, passed, reliable)

    def route(self, face: Face, push: Push, reliable: bool) -> None:
        """One publication, as an object."""
        self.receive(face, push, reliable)

    def append(self, target: Face, push: Push, reliable: bool) -> None:
        try:
            self.outboxes[target].append(push.qos.priority, reliable, encode(push))
        except LimitExceeded:  # a low-latency session cannot fragment
            assert len(encode(push)) > self.batch_sizes[target]


class OneByOne(World):
    """Routes every publication as a message."""

    def run(self, run: Run) -> None:
        for message, reliable in run.messages:
            self.route(self.faces[run.who], message, reliable)


class InColumns(World):
    """Forwards in columns what it can."""

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments)
        self.planner = ForwardingPlanner(self.router, self.local)
        self.columns = PushColumns(5, 4, 3)

    def run(self, run: Run) -> None:
        decoder = BatchDecoder(b"".join(batches(run)), Framing.STREAM, 0xFFFF)
        outcome = StopReason.FULL
        while outcome is not StopReason.END:
            self.columns.clear()
            outcome = decoder.decode(self.columns)
            self.receive_columns(run.who, self.columns)
            if outcome is StopReason.MESSAGE:
                message = decoder.message()
                assert isinstance(message, Push)
                assert not fits_row(message)
                self.route(self.faces[run.who], message, decoder.reliable)

    def receive_columns(self, who: str, columns: PushColumns) -> None:
        plans = self.planner.plans(self.faces[who], columns, 0, len(columns))
        if plans is not None:
            self.forward(columns, plans)
            return
        assert self.may_lack_plans(who, columns)
        for row in range(len(columns)):
            reliable = columns.template_at(columns.template_index[row]).reliable
            self.route(self.faces[who], columns.push(row), reliable)

    def may_lack_plans(self, who: str, columns: PushColumns) -> bool:
        """Whether an interceptor, a tree or a clock may decide for each message: then there need not be plans."""
        node_ids = {columns.node_id(index) for index in range(columns.template_count)}
        return (
            self.is_guarded
            or (who == "router" and not node_ids <= ROUTED_NODE_IDS)
            or (self.router.timestamping is not None and any(map(is_too_far_ahead, columns.timestamp)))
        )

    def forward(self, columns: PushColumns, plans: list[ForwardingPlan]) -> None:
        """Forward rows by their plans, and deliver those of the local session."""
        pushes = PushRun(columns, 0, len(columns), timestamped_by=None if self.router.timestamping is None else OWN)
        for row in range(len(columns)):
            if plans[columns.template_index[row]].is_local:
                self.received.append(local_row(pushes, row))
        for target, plan in plans_by_neighbour(plans):
            forwarder = RowForwarder(columns, 0, len(columns), bytes(plan.lanes), plan.heads, OWN.to_bytes())
            while forwarder.lane >= 0:
                try:
                    self.outboxes[target].append_forwarded(forwarder)
                except LimitExceeded:
                    continue


def is_too_far_ahead(ntp64: int) -> bool:
    """Whether a clock that shows NOW rejects a timestamp."""
    return ntp64 > ntp64_from_ns(NOW + MAX_DRIFT_NS)


def local_row(pushes: PushRun, row: int) -> tuple[Push, bool]:
    """What the session makes of a row."""
    template = pushes.template_at(pushes.columns.template_index[row])
    push = replace(pushes.columns.push(row), wire_expr=WireExpr(0, "local"), node_id=0)
    if isinstance(push.body, Put) and template.timestamp_id is not None:
        stamp = Timestamp(pushes.columns.timestamp[row], template.timestamp_id)
        push = replace(push, body=replace(push.body, timestamp=stamp))
    return push, template.reliable


def batches(run: Run) -> Iterator[bytes]:
    for message, reliable in run.messages:
        content = encode(Frame(reliable=reliable, sn=1, priority=message.qos.priority, msgs=(message,)))
        yield len(content).to_bytes(2, "little") + content


# -- what arrives ---------------------------------------------------------------------------------------------------


def arrived(written: Sequence[bytes], link: Link) -> list[tuple[Push, bool]]:
    """The messages in what was written to a neighbour."""
    lanes = LaneParameters(link.qos, SN_MASK, PATCH, NextSns(((7, 7),) * len(Priority)), 1 << 20)
    frame_receiver = FrameReceiver(lanes, PushColumns(64))
    found: list[tuple[Push, bool]] = []
    for batch in written:
        if link.low_latency:
            decoder = BatchDecoder(batch, Framing.BARE, 1 << 20)
        elif link.compression:
            decoder = BatchDecoder(decompress(batch[2:], link.batch_size), Framing.BATCH)
        else:
            decoder = BatchDecoder(batch, Framing.STREAM, link.batch_size - 2)
        for event in frame_receiver.events(decoder):
            if isinstance(event, PushRun):
                columns = event.columns
                for row in range(event.start, event.stop):
                    found.append((columns.push(row), columns.template_at(columns.template_index[row]).reliable))
            else:
                assert isinstance(event, MessageReceived), event
                assert isinstance(event.message, Push)
                found.append((event.message, event.reliable))
    return found


def split_own_timestamps(found: list[tuple[Push, bool]]) -> tuple[list[tuple[Push, bool]], list[int]]:
    """Replace the timestamps of the router's own clock, which differ from run to run, and return these as well."""
    own, others = [], []
    for push, reliable in found:
        body = push.body
        if body.timestamp is not None and body.timestamp.id == OWN:
            own.append(body.timestamp.ntp64)
            push = replace(push, body=replace(body, timestamp=Timestamp(0, OWN)))
        others.append((push, reliable))
    return others, own


# -- messages --------------------------------------------------------------------------------------------------------

links = st.builds(
    Link, st.sampled_from([64, 100, 2000]), st.booleans(), st.sampled_from([False, False, True]), st.just(False)
) | st.builds(Link, st.sampled_from([64, 2000]), st.just(True), st.just(False), st.just(True))
numbers = st.integers(1, 3)
exprs = st.builds(WireExpr, st.just(0), st.sampled_from([*KEYS, *KEYS[:3]])) | st.builds(
    WireExpr, numbers, st.sampled_from(["", "/b", "/b/c"]), st.sampled_from(Mapping)
)
clocks = st.none() | st.sampled_from([NOW - HOUR, NOW, NOW + 1, NOW + 100_000_000, NOW + HOUR]).map(
    lambda time: Timestamp(ntp64_from_ns(time), ZenohId(0x77))
)


@st.composite
def pushes(draw: st.DrawFn) -> tuple[Push, bool]:
    push = draw(strategies.messages(Push))
    assert isinstance(push, Push)
    assume(not getattr(push.body, "shm", False))
    if draw(st.booleans()):
        push = Push(qos=push.qos, wire_expr=push.wire_expr, body=Put(payload=b"x" * draw(st.integers(0, 150))))
    body = replace(push.body, timestamp=draw(clocks))
    node_id = draw(st.sampled_from([0, 0, 0, 2, 2, 3, 9]))
    return replace(push, wire_expr=draw(exprs), body=body, node_id=node_id), draw(st.booleans())


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Often several that are alike."""
    kinds = draw(st.lists(pushes(), min_size=1, max_size=4))
    who = draw(st.sampled_from(SENDERS))
    return Run(who, tuple(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=12))))


def declared(body: Any, node_id: int = 0) -> Declare:  # noqa: ANN401
    return Declare(body=body, node_id=node_id)


neighbours = st.sampled_from(["client", "peer", "router", "far", "source"])
subscriptions = st.builds(
    lambda who, number, key, node: NeighbourMessage(
        who, declared(DeclareSubscriber(id=number, wire_expr=WireExpr(0, key)), node if who == "router" else 0)
    ),
    neighbours,
    numbers,
    st.sampled_from(KEYS[:-1]),
    st.sampled_from([0, 2]),
)
changes = st.one_of(
    subscriptions,
    subscriptions,
    st.builds(lambda who, number: NeighbourMessage(who, declared(UndeclareSubscriber(id=number))), neighbours, numbers),
    st.builds(
        lambda who, number, key: NeighbourMessage(
            who, declared(DeclareKeyexpr(expr_id=number, wire_expr=BoundExpr(0, key)))
        ),
        neighbours,
        numbers,
        st.sampled_from(KEYS[:3]),
    ),
    st.builds(
        lambda who, number: NeighbourMessage(who, declared(UndeclareKeyexpr(expr_id=number))), neighbours, numbers
    ),
    st.just(NeighbourMessage("peer", declared(DeclareFinal()))),
)
first = st.tuples(
    *(
        st.just(NeighbourMessage(who, declared(DeclareSubscriber(id=1, wire_expr=WireExpr(0, key)))))
        for who, key in (("client", "a/**"), ("peer", "**"), ("router", "a/*"), ("far", "a"), ("source", "b"))
    )
).map(list)


steps_of_world = st.lists(runs() | runs() | changes, min_size=1, max_size=8)
links_of_world = st.fixed_dictionaries(dict.fromkeys(NAMES, links))
PLAIN_LINKS = dict.fromkeys(NAMES, Link(2000, True, False, False))
PLAIN_RUN = Run("source", ((Push(wire_expr=WireExpr(0, "a/b"), body=Put(payload=b"x")), True),) * 3)
SUBSCRIBED = [NeighbourMessage("client", declared(DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a/**"))))]
"""The simplest case with a plan, so that there always is one."""

PATHS = (
    (World, "route"),
    (InColumns, "forward"),
    (TimestampPolicy, "timestamp"),
    (TimestampPolicy, "timestamp_rows"),
)


def play(world: OneByOne | InColumns, listens: bool, steps: list[NeighbourMessage | Run]) -> Calls:
    """Let the neighbours of a world send; returns the calls of each path."""
    if listens:
        declaration = declared(DeclareSubscriber(id=1, wire_expr=WireExpr(0, "a")))
        world.router.receive(world.local, declaration, 1.0)
    with count_calls(*PATHS) as calls:
        for step in steps:
            if isinstance(step, Run):
                world.run(step)
            else:
                world.receive(world.faces[step.who], step.message, step.reliable)
    return calls


def assert_paths_taken(general: Calls, fast: Calls, steps: list[NeighbourMessage | Run]) -> None:
    """One world took the general path for every publication, the other one had plans (`may_lack_plans`)."""
    pushes = [push for step in steps if isinstance(step, Run) for push, _ in step.messages]
    assert general["route"] == len(pushes)
    assert general["forward"] == general["timestamp_rows"] == 0
    assert fast["timestamp"] <= fast["route"]
    assert general["timestamp"] == 0 or fast["timestamp"] + fast["timestamp_rows"] > 0


@given(
    st.booleans(),
    st.booleans(),
    Guarded,
    links_of_world,
    st.booleans(),
    first,
    steps_of_world,
)
@example(False, False, None, PLAIN_LINKS, False, SUBSCRIBED, [PLAIN_RUN])
@examples(200)
def test_forwarding_by_columns_equals_forwarding_by_message(
    adds_timestamps: bool,
    drops: bool,
    guarded: str | None,
    agreed: dict[str, Link],
    listens: bool,
    before: list[NeighbourMessage],
    steps: list[NeighbourMessage | Run],
) -> None:
    steps = [*before, *steps, *steps]  # what was found out about a template is used again, after what has changed since
    arguments = (adds_timestamps, drops, guarded, agreed)
    slow, fast = OneByOne(*arguments), InColumns(*arguments)
    assert_paths_taken(play(slow, listens, steps), play(fast, listens, steps), steps)
    assert split_own_timestamps(fast.received)[0] == split_own_timestamps(slow.received)[0]
    for name, link in agreed.items():
        one, other = (world.outboxes[world.faces[name]] for world in (slow, fast))
        assert one.next_sns == other.next_sns
        written, same = ([bytes(batch) for batch in outbox.pop_all()] for outbox in (one, other))
        if adds_timestamps:
            expected, own = split_own_timestamps(arrived(written, link))
            found, also = split_own_timestamps(arrived(same, link))
            assert found == expected
            assert len(set(also)) == len(set(own)) == len(own)
        else:
            assert same == written


# -- timestamps ------------------------------------------------------------------------------------------------------

timestamped_pushes = st.builds(
    lambda key, body, clock: Push(wire_expr=WireExpr(0, key), body=replace(body, timestamp=clock)),
    st.sampled_from(KEYS[:4]),
    st.sampled_from([Put(payload=b"x"), Put(payload=b"y"), Del()]),
    clocks,
)
runs_of_pushes = st.lists(st.lists(timestamped_pushes, min_size=1, max_size=8), min_size=1, max_size=5)
WITHOUT_TIMESTAMP = Push(wire_expr=WireExpr(0, "a"), body=Put(payload=b"x"))
AHEAD = replace(
    WITHOUT_TIMESTAMP, body=Put(payload=b"x", timestamp=Timestamp(ntp64_from_ns(NOW + HOUR), ZenohId(0x77)))
)


class Timestamper:
    """A policy that timestamps runs of publications as rows, or each as a message, if it has a key of `targets`."""

    def __init__(self, drops: bool, targets: set[str]) -> None:
        self.policy = TimestampPolicy(OWN, HybridClock(), lambda: NOW, drops)
        self.targets = targets

    def by_rows(self, pushes: list[Push]) -> list[Push | None]:
        """Return the publications of a run with timestamps; by message if one is too far ahead of the clock."""
        columns = decode_rows(pushes)
        keys = [columns.template_at(index).wire_expr.suffix for index in range(columns.template_count)]
        if self.policy.timestamp_rows(columns, 0, len(columns), bytes(key in self.targets for key in keys)):
            assert not has_future_timestamp(pushes, self.targets)
            return [with_timestamp(push, columns.timestamp[row]) for row, push in enumerate(pushes)]
        assert has_future_timestamp(pushes, self.targets)
        return self.by_messages(pushes)

    def by_messages(self, pushes: list[Push]) -> list[Push | None]:
        """Return the publications of a run with timestamps; None for one that is dropped."""
        return [self.policy.timestamp(push) if push.wire_expr.suffix in self.targets else push for push in pushes]


def with_timestamp(push: Push, ntp64: int) -> Push:
    """Return a publication with the timestamp that its row has; 0 if it has none."""
    if push.body.timestamp is not None:
        assert push.body.timestamp.ntp64 == ntp64
    elif ntp64:
        push = replace(push, body=replace(push.body, timestamp=Timestamp(ntp64, OWN)))
    return push


def has_future_timestamp(pushes: list[Push], targets: set[str]) -> bool:
    """Whether the timestamp of a PUT with a target is too far ahead."""
    timestamps = [push.body.timestamp for push in pushes if isinstance(push.body, Put) and has_target(push, targets)]
    return any(timestamp is not None and is_too_far_ahead(timestamp.ntp64) for timestamp in timestamps)


def has_target(push: Push, targets: set[str]) -> bool:
    return push.wire_expr.suffix in targets


def assert_own_timestamps_are_newest(pushes: list[Push | None], targets: set[str]) -> None:
    """Each timestamp of the own clock is greater than all before it, but for those of publications without a target."""
    newest = 0
    for push in pushes:
        if push is not None and isinstance(push.body, Put) and has_target(push, targets):
            assert push.body.timestamp is not None
            assert push.body.timestamp.id != OWN or push.body.timestamp.ntp64 > newest
            newest = max(newest, push.body.timestamp.ntp64)


@given(st.booleans(), st.sets(st.sampled_from(KEYS[:4]), min_size=1), runs_of_pushes)
@example(False, {"a"}, [[WITHOUT_TIMESTAMP] * 2, [WITHOUT_TIMESTAMP, AHEAD], [WITHOUT_TIMESTAMP]])
@examples(200)
def test_rows_are_timestamped_like_messages(drops: bool, targets: set[str], runs_of_pushes: list[list[Push]]) -> None:
    one, other = Timestamper(drops, targets), Timestamper(drops, targets)
    with count_calls(*PATHS) as calls:
        by_rows = [push for pushes in runs_of_pushes for push in one.by_rows(pushes)]
    routed = [push for pushes in runs_of_pushes if has_future_timestamp(pushes, targets) for push in pushes]
    assert calls["timestamp_rows"] == len(runs_of_pushes)
    assert calls["timestamp"] == sum(has_target(push, targets) for push in routed)
    with count_calls(*PATHS) as calls:
        by_messages = [push for pushes in runs_of_pushes for push in other.by_messages(pushes)]
    assert calls["timestamp_rows"] == 0
    assert [push is None for push in by_rows] == [push is None for push in by_messages]
    kept, expected = ([(push, True) for push in pushes if push is not None] for pushes in (by_rows, by_messages))
    assert split_own_timestamps(kept)[0] == split_own_timestamps(expected)[0]
    for pushes in (by_rows, by_messages):
        assert_own_timestamps_are_newest(pushes, targets)
