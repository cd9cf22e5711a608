"""Group: a session of many nodes, each of which hears everything the others say. Datagrams in, events out.

There is no handshake (protocol.md, section 5.8). Every member says JOIN again and again: who it is, on what terms it
speaks, and which number it uses next in each of its lanes. Whoever has heard that understands its frames from then on;
what comes before is dropped. All of a group must speak on the same terms, since nothing is said to one member alone:
who speaks on others is refused here, in silence. For the same reason a CLOSE is said only when leaving.

A member is known by the address it speaks from. It is gone when it says so, when nothing was heard of it within its
lease, when it says something wrong (and only it: the others stay), or when the same node is heard from elsewhere.

The owner receives each datagram into `buffer()`, tells `receive()` from whom it came and handles each event before it
asks for the next. It writes what a `Send` holds. On `JoinDue` it writes everything in the outbox and behind it what
`announcement()` returns, with nobody else writing in between: what a JOIN says of the next numbers is true only there.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from zenspark.errors import CloseReason, ProtocolError
from zenspark.transport.connection import KEEP_ALIVES_PER_LEASE, MAX_BUFFER_BYTES, MAX_ROWS_PER_EVENT, Send
from zenspark.transport.framing import compress, decompress
from zenspark.transport.handshake import DEFAULT_RESOLUTION, PATCH, Identity, encode_lease, lease_seconds
from zenspark.transport.outbox import Outbox
from zenspark.transport.reassembly import ReassemblyPool
from zenspark.transport.receiver import Closed, FrameReceiver, LaneParameters, MessageReceived, MessageRejected, PushRun
from zenspark.wire.codec import encode
from zenspark.wire.columns import Columns, Cursor, Framing, Outcome
from zenspark.wire.messages import Close, Join, KeepAlive, TransportMessage
from zenspark.wire.values import PROTOCOL_VERSION, NextSns, Priority, Resolution, WhatAmI

DEFAULT_BATCH_SIZE = 8192
"""What a JOIN without sizes means, and the most that eclipse-zenoh announces."""
MIN_JOIN_REPLY_SECONDS = 0.1
"""Seconds between two answers at least: a newcomer is answered at once, but many together only once more."""
MAX_REFUSED_SENDERS = 1000
"""How many refused senders are remembered, to tell of each only once: forged addresses must not fill the memory."""


class GroupSettings(msgspec.Struct, frozen=True):
    """On what terms a node speaks in a group, and what it puts up with."""

    resolution: int = DEFAULT_RESOLUTION
    batch_size: int = DEFAULT_BATCH_SIZE
    lease_ms: int = 10_000
    qos: bool = False
    compression: bool = False
    join_interval: float = 2.5
    max_members: int = 1000
    message_limit: int = 1 << 30
    keep_alives: int = KEEP_ALIVES_PER_LEASE


class Member:
    """Another node of a group, and the address it speaks from."""

    def __init__(
        self, identity: Identity, sender: str, hearing: FrameReceiver, lease: float, now: float, patch: int = PATCH
    ) -> None:
        self.identity = identity
        self.patch = patch
        """The patch of the protocol that it speaks."""
        self.sender = sender
        self.hearing = hearing
        self.lease = lease
        self.heard = now

    def __repr__(self) -> str:
        return f"<Member {self.identity.zid} at {self.sender}>"


class JoinDue(msgspec.Struct, frozen=True):
    """It is time for a JOIN."""


class MemberJoined(msgspec.Struct, frozen=True):
    """A node is understood from now on."""

    member: Member


class MemberLeft(msgspec.Struct, frozen=True):
    """A member is gone, and why."""

    member: Member
    closed: Closed


class MemberEvent(msgspec.Struct, frozen=True):
    """Something a member said."""

    member: Member
    event: MessageReceived | MessageRejected | PushRun


class MemberRefused(msgspec.Struct, frozen=True):
    """Somebody who speaks in this group is not understood, and why; told once."""

    sender: str
    why: str


GroupEvent = Send | JoinDue | MemberJoined | MemberLeft | MemberEvent | MemberRefused


class GroupSession:
    """This node's place in a group. `columns` may be shared by everything in one thread, as a connection's.

    `first_sn` should be another one each time: who comes back sooner than it was missed must not seem to repeat itself.
    """

    def __init__(
        self,
        own: Identity,
        rules: GroupSettings,
        now: float,
        first_sn: int = 0,
        columns: Columns | None = None,
        pool: ReassemblyPool | None = None,
    ) -> None:
        self._pool = ReassemblyPool(rules.message_limit) if pool is None else pool
        self._own = own
        self._rules = rules
        self._mask = Resolution(rules.resolution & 3).mask
        self._columns = Columns(MAX_ROWS_PER_EVENT) if columns is None else columns
        self._buffer = bytearray(MAX_BUFFER_BYTES)
        self._members: dict[str, Member] = {}
        self._refused: dict[str, str] = {}
        self._sent = now
        self._answered = float("-inf")
        self._announce_at = now
        self.is_over = False
        self.outbox = Outbox(rules.batch_size, first_sn & self._mask, self._mask, rules.qos, rules.compression)

    @property
    def members(self) -> list[Member]:
        """Everybody who is understood here."""
        return list(self._members.values())

    @property
    def qos(self) -> bool:
        """Whether this group has priorities."""
        return self._rules.qos

    # -- out

    def _batch(self, message: TransportMessage) -> bytes:
        """A transport message as a batch of its own, behind its length as all batches of an outbox are."""
        raw = encode(message)
        if self._rules.compression:
            raw = compress(raw)
        return len(raw).to_bytes(2, "little") + raw

    def announcement(self, now: float) -> bytes:
        """A JOIN that is true at this moment."""
        rules = self._rules
        pairs = self.outbox.next_sns
        lease, unit = encode_lease(rules.lease_ms)
        says_sizes = (rules.resolution, rules.batch_size) != (DEFAULT_RESOLUTION, DEFAULT_BATCH_SIZE)
        self._announce_at = now + rules.join_interval
        return self._batch(
            Join(
                version=PROTOCOL_VERSION,
                whatami=self._own.whatami,
                zid=self._own.zid,
                resolution=rules.resolution if says_sizes else None,
                batch_size=rules.batch_size if says_sizes else None,
                unit=unit,
                lease=lease,
                sn_re=0 if rules.qos else pairs[Priority.DATA][0],
                sn_be=0 if rules.qos else pairs[Priority.DATA][1],
                qos=NextSns(pairs) if rules.qos else None,
                patch=PATCH,
            )
        )

    def sent(self, now: float) -> None:
        """Something was written: the others will have heard of us."""
        self._sent = now

    def close(self, reason: CloseReason = CloseReason.GENERIC, text: str = "closed here") -> Closed:
        """Leave."""
        farewell = b"" if self.is_over else self._batch(Close(session=False, reason=reason))
        self.is_over = True
        return Closed(reason, text, by_peer=False, farewell=farewell)

    # -- in

    def buffer(self) -> memoryview:
        """Where the next datagram goes."""
        return memoryview(self._buffer)

    def receive(self, sender: str, count: int, now: float) -> Iterator[GroupEvent]:
        """A datagram of so many bytes came into `buffer()`: what it means. Each event must be handled before the next.

        Its size is not held against the batch size: eclipse-zenoh sends larger ones than it announces.
        """
        member = self._members.get(sender)
        try:
            cursor = self._cursor(count)
            if member is None:
                join = self._find_join(cursor)
                if join is None:
                    return
                yield from self._on_join(sender, join, now)
                member = self._members.get(sender)
            if member is not None:
                member.heard = now
                yield from self._hear(member, cursor, now)
        except ProtocolError as error:
            if self._members.get(sender) is not None:
                yield self._drop(self._members[sender], Closed(error.reason, str(error), by_peer=False))
            else:
                yield from self._refuse(sender, str(error))

    def _cursor(self, count: int) -> Cursor:
        if self._rules.compression:
            return Cursor(decompress(self.buffer()[:count]), Framing.BATCH)
        return Cursor(self._buffer, Framing.BATCH, pos=0, end=count)

    def _find_join(self, cursor: Cursor) -> Join | None:
        """The first JOIN in a datagram of somebody unknown: what stands before it cannot be understood."""
        columns = self._columns
        while True:
            columns.clear()
            outcome = cursor.decode(columns)
            if outcome is Outcome.END:
                columns.clear()
                return None
            if outcome is Outcome.MESSAGE:
                message = cursor.message()
                if isinstance(message, Join):
                    columns.clear()
                    return message

    def _hear(self, member: Member, cursor: Cursor, now: float) -> Iterator[GroupEvent]:
        for event in member.hearing.walk(cursor):
            match event:
                case Join():
                    yield from self._on_join(member.sender, event, now)
                case Closed():
                    yield self._drop(member, event)
                case _:
                    yield MemberEvent(member, event)
            if self.is_over or self._members.get(member.sender) is not member:
                return

    # -- members

    def _on_join(self, sender: str, join: Join, now: float) -> Iterator[GroupEvent]:
        known = self._members.get(sender)
        problem = self._problem(join, known)
        if problem:
            if known is not None:
                yield self._drop(known, Closed(CloseReason.INVALID, problem, by_peer=False))
            yield from self._refuse(sender, problem)
            return
        self._refused.pop(sender, None)
        if known is not None and known.identity.zid == join.zid:
            known.lease = lease_seconds(join)  # its lanes go on: this JOIN may be older than what was heard since
            return
        for other in [each for each in self.members if each is known or each.identity.zid == join.zid]:
            yield self._drop(other, Closed(CloseReason.GENERIC, "another one came in its place", by_peer=True))
        yield from self._admit(sender, join, now)

    def _admit(self, sender: str, join: Join, now: float) -> Iterator[GroupEvent]:
        rules = self._rules
        lanes = LaneParameters(rules.qos, self._mask, join.patch or 0, _initial_sns(join), rules.message_limit)
        identity = Identity(join.zid, join.whatami)
        member = Member(
            identity,
            sender,
            FrameReceiver(lanes, self._columns, share=self._pool.share()),
            lease_seconds(join),
            now,
            join.patch or 0,
        )
        self._members[sender] = member
        self._announce_at = min(self._announce_at, max(now, self._answered + MIN_JOIN_REPLY_SECONDS))
        if self._announce_at <= now:  # before anybody says anything to it: it does not understand us yet
            self._answered = now
            yield JoinDue()
        yield MemberJoined(member)

    def _problem(self, join: Join, known: Member | None) -> str:
        """Why somebody cannot be understood here; nothing if it can."""
        rules = self._rules
        resolution = DEFAULT_RESOLUTION if join.resolution is None else join.resolution & 0x0F
        batch_size = DEFAULT_BATCH_SIZE if join.batch_size is None else join.batch_size
        if join.version != PROTOCOL_VERSION:
            return f"it speaks version {join.version}, not {PROTOCOL_VERSION}"
        if join.zid == self._own.zid:
            return "it has our own id"
        if join.whatami is WhatAmI.CLIENT:
            return "it is a client, and clients have one session only"
        if resolution != rules.resolution:
            return f"its resolution is {resolution:#04x}, not {rules.resolution:#04x}"
        if batch_size != rules.batch_size:
            return f"its batch size is {batch_size}, not {rules.batch_size}"
        if (join.qos is not None) != rules.qos:
            return "it speaks with priorities" if join.qos is not None else "it speaks without priorities"
        if not join.lease:
            return "its lease is 0"
        if max(sn for pair in _initial_sns(join).pairs for sn in pair) > self._mask:
            return "its sequence numbers are above its resolution"
        if known is None and len(self._members) >= rules.max_members:
            return f"{rules.max_members} members are the limit"
        return ""

    def _drop(self, member: Member, closed: Closed) -> MemberLeft:
        del self._members[member.sender]
        member.hearing.end()
        return MemberLeft(member, closed)

    def _refuse(self, sender: str, why: str) -> Iterator[MemberRefused]:
        if self._refused.get(sender) == why:
            return
        if len(self._refused) >= MAX_REFUSED_SENDERS:
            self._refused.clear()
        self._refused[sender] = why
        yield MemberRefused(sender, why)

    # -- time

    def heard(self, now: float) -> None:
        """Nobody is silent, whatever has been read of them: it is we who did not listen."""
        for member in self._members.values():
            member.heard = now

    def next_timeout(self) -> float:
        """When `handle_timeout` has something to do."""
        if self.is_over:
            return float("inf")
        ends = [member.heard + member.lease for member in self._members.values()]
        return min(self._announce_at, self._keep_alive_at, *ends)

    @property
    def _keep_alive_at(self) -> float:
        return self._sent + self._rules.lease_ms / 1000 / self._rules.keep_alives

    def handle_timeout(self, now: float) -> list[GroupEvent]:
        """Say that we are here; give up members that do not say so."""
        if self.is_over:
            return []
        events: list[GroupEvent] = []
        for member in self.members:
            if now >= member.heard + member.lease:
                silent = Closed(CloseReason.EXPIRED, f"nothing was heard for {member.lease:g} s", by_peer=False)
                events.append(self._drop(member, silent))
        if now >= self._announce_at:
            events.append(JoinDue())
        elif now >= self._keep_alive_at:
            events.append(Send(self._batch(KeepAlive())))
        return events


def _initial_sns(join: Join) -> NextSns:
    """The next numbers of each lane; without priorities there is only one pair of lanes."""
    return join.qos or NextSns(((join.sn_re, join.sn_be),) * len(Priority))
