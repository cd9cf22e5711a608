"""GroupSession: a multicast session between many nodes. Datagrams in, events out.

There is no handshake (protocol section 5.8). Every member sends JOIN periodically: its identity, the session
parameters it uses and the next sequence number of each of its lanes. A node that has received the JOIN can decode the
member's frames from then on; frames before that are dropped. All members must use the same parameters, because nothing
can be sent to one member alone: a sender with other parameters is refused locally, without a message. For the same
reason CLOSE is sent only when leaving the group.

A member is identified by its source address. It leaves when it sends CLOSE, when its lease expires, when it violates
the protocol (the other members stay), or when the same zid appears at another address.

The owner receives each datagram into `buffer()`, passes its source address to `receive()` and handles each event before
it requests the next. It writes the batch of a `Send`. On `JoinDue` it writes everything in the outbox and directly
behind it the result of `make_join()`, with no other write in between: the sequence numbers in a JOIN are valid only at
that point.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from zenspark.errors import CloseReason, ProtocolError
from zenspark.transport.connection import MAX_BUFFER_BYTES, MAX_ROWS_PER_EVENT, Send
from zenspark.transport.framing import compress, decompress
from zenspark.transport.handshake import DEFAULT_RESOLUTION, PROTOCOL_PATCH, Identity, encode_lease, lease_seconds
from zenspark.transport.lease import DEFAULT_LEASE_MS, KEEP_ALIVES_PER_LEASE, KeepAliveTimer, PeerLease
from zenspark.transport.outbox import Outbox
from zenspark.transport.reassembly import MAX_MESSAGE_BYTES, ReassemblyPool
from zenspark.transport.receiver import Closed, FrameReceiver, LaneParameters, MessageReceived, MessageRejected
from zenspark.wire.codec import encode
from zenspark.wire.columns import BatchDecoder, Framing, PushColumns, PushRun, StopReason
from zenspark.wire.messages import Close, Join, KeepAlive, TransportMessage
from zenspark.wire.values import PROTOCOL_VERSION, NextSns, Priority, Resolution, WhatAmI

DEFAULT_GROUP_BATCH_BYTES = 8192
"""Bytes of a batch in a group if JOIN carries no sizes, and the most that eclipse-zenoh announces."""
MIN_JOIN_REPLY_SECONDS = 0.1
"""Minimum seconds between two JOINs sent in reply to new members: the first gets one at once, a burst of them
one more JOIN."""
MAX_REFUSED_SENDERS = 1000
"""Refused senders remembered, to report each only once: forged addresses must not fill the memory."""


class GroupSettings(msgspec.Struct, frozen=True):
    """Parameters, timers and limits of a multicast session."""

    resolution: int = DEFAULT_RESOLUTION
    batch_size: int = DEFAULT_GROUP_BATCH_BYTES
    lease_ms: int = DEFAULT_LEASE_MS
    qos: bool = False
    compression: bool = False
    join_interval: float = 2.5
    max_members: int = 1000
    message_limit: int = MAX_MESSAGE_BYTES
    keep_alives: int = KEEP_ALIVES_PER_LEASE


class Member:
    """Another node of the group, identified by its source address."""

    def __init__(
        self,
        identity: Identity,
        sender: str,
        receiver: FrameReceiver,
        lease: float,
        now: float,
        patch: int = PROTOCOL_PATCH,
    ) -> None:
        self.identity = identity
        self.patch = patch
        """Protocol patch in the JOIN of the member."""
        self.sender = sender
        self.receiver = receiver
        self.lease = PeerLease(now, lease)

    def __repr__(self) -> str:
        return f"<Member {self.identity.zid} at {self.sender}>"


class JoinDue(msgspec.Struct, frozen=True):
    """The owner must write a JOIN now."""


class MemberJoined(msgspec.Struct, frozen=True):
    """A node joined the group; its frames can be decoded from now on."""

    member: Member


class MemberLeft(msgspec.Struct, frozen=True):
    """A member left the group, with the reason."""

    member: Member
    closed: Closed


class MemberEvent(msgspec.Struct, frozen=True):
    """A message received from a member."""

    member: Member
    event: MessageReceived | MessageRejected | PushRun


class SenderRefused(msgspec.Struct, frozen=True):
    """A JOIN was refused, or an undecodable datagram was rejected, with the reason; once per sender and reason."""

    sender: str
    text: str
    identity: Identity | None
    """Zid and role in the JOIN; None if there is none."""


GroupEvent = Send | JoinDue | MemberJoined | MemberLeft | MemberEvent | SenderRefused


class GroupSession:
    """Membership of this node in a multicast group. `columns` may be shared by all sessions of one thread.

    `first_sn` should differ on each start: otherwise the frames of a node that rejoins before its lease expired would
    be discarded as repetitions.
    """

    def __init__(
        self,
        identity: Identity,
        settings: GroupSettings,
        now: float,
        first_sn: int = 0,
        columns: PushColumns | None = None,
        pool: ReassemblyPool | None = None,
    ) -> None:
        self._pool = ReassemblyPool(settings.message_limit) if pool is None else pool
        self._identity = identity
        self._settings = settings
        self._mask = Resolution(settings.resolution & 3).mask
        self._columns = PushColumns(MAX_ROWS_PER_EVENT) if columns is None else columns
        self._buffer = bytearray(MAX_BUFFER_BYTES)
        self._members: dict[str, Member] = {}
        self._refused: dict[str, str] = {}
        self._keep_alive = KeepAliveTimer(now, settings.keep_alives, settings.lease_ms / 1000)
        self._join_replied_at = float("-inf")
        self._join_due_at = now
        self.has_ended = False
        self.outbox = Outbox(settings.batch_size, first_sn & self._mask, self._mask, settings.qos, settings.compression)

    @property
    def members(self) -> list[Member]:
        """The members whose frames can be decoded."""
        return list(self._members.values())

    @property
    def qos(self) -> bool:
        """Whether this group uses priorities."""
        return self._settings.qos

    # -- sending

    def _batch(self, message: TransportMessage) -> bytes:
        """Encode a transport message as a batch of its own, length-prefixed like all batches of an outbox."""
        raw = encode(message)
        if self._settings.compression:
            raw = compress(raw)
        return len(raw).to_bytes(2, "little") + raw

    def make_join(self, now: float) -> bytes:
        """Encode a JOIN with the next sequence numbers of the outbox; valid only at this moment."""
        settings = self._settings
        pairs = self.outbox.next_sns
        lease, unit = encode_lease(settings.lease_ms)
        has_sizes = (settings.resolution, settings.batch_size) != (DEFAULT_RESOLUTION, DEFAULT_GROUP_BATCH_BYTES)
        self._join_due_at = now + settings.join_interval
        return self._batch(
            Join(
                version=PROTOCOL_VERSION,
                whatami=self._identity.whatami,
                zid=self._identity.zid,
                resolution=settings.resolution if has_sizes else None,
                batch_size=settings.batch_size if has_sizes else None,
                unit=unit,
                lease=lease,
                sn_re=0 if settings.qos else pairs[Priority.DATA][0],
                sn_be=0 if settings.qos else pairs[Priority.DATA][1],
                qos=NextSns(pairs) if settings.qos else None,
                patch=PROTOCOL_PATCH,
            )
        )

    def restart_keep_alive(self, now: float) -> None:
        """Restart the interval until the next keep-alive, since something was written."""
        self._keep_alive.sent_at = now

    def close(self, reason: CloseReason = CloseReason.GENERIC, text: str = "closed by this node") -> Closed:
        """Leave the group."""
        close_batch = b"" if self.has_ended else self._batch(Close(session=False, reason=reason))
        self.has_ended = True
        return Closed(reason, text, by_peer=False, close_batch=close_batch)

    # -- receiving

    def buffer(self) -> memoryview:
        """Buffer for the next datagram."""
        return memoryview(self._buffer)

    def receive(self, sender: str, count: int, now: float) -> Iterator[GroupEvent]:
        """Decode a datagram of `count` bytes in `buffer()` into events. Each event must be handled before the next.

        The datagram size is not checked against the batch size: eclipse-zenoh sends larger datagrams than it announces.
        """
        member = self._members.get(sender)
        try:
            decoder = self._make_decoder(count)
            if member is None:
                join = self._find_join(decoder)
                if join is None:
                    return
                yield from self._on_join(sender, join, now)
                member = self._members.get(sender)
            if member is not None:
                member.lease.renewed_at = now
                yield from self._receive_from(member, decoder, now)
        except ProtocolError as error:
            if self._members.get(sender) is not None:
                yield self._remove(self._members[sender], Closed(error.reason, str(error), by_peer=False))
            else:
                yield from self._refuse(sender, str(error), None)

    def _make_decoder(self, count: int) -> BatchDecoder:
        if self._settings.compression:
            return BatchDecoder(decompress(self.buffer()[:count]), Framing.BATCH)
        return BatchDecoder(self._buffer, Framing.BATCH, pos=0, end=count)

    def _find_join(self, decoder: BatchDecoder) -> Join | None:
        """First JOIN in a datagram of an unknown sender; messages before it cannot be decoded."""
        columns = self._columns
        while True:
            columns.clear()
            outcome = decoder.decode(columns)
            if outcome is StopReason.END:
                columns.clear()
                return None
            if outcome is StopReason.MESSAGE:
                message = decoder.message()
                if isinstance(message, Join):
                    columns.clear()
                    return message

    def _receive_from(self, member: Member, decoder: BatchDecoder, now: float) -> Iterator[GroupEvent]:
        for event in member.receiver.events(decoder):
            match event:
                case Join():
                    yield from self._on_join(member.sender, event, now)
                case Closed():
                    yield self._remove(member, event)
                case _:
                    yield MemberEvent(member, event)
            if self.has_ended or self._members.get(member.sender) is not member:
                return

    # -- members

    def _on_join(self, sender: str, join: Join, now: float) -> Iterator[GroupEvent]:
        member = self._members.get(sender)
        problem = self._problem(join, member)
        if problem:
            if member is not None:
                yield self._remove(member, Closed(CloseReason.INVALID, problem, by_peer=False))
            yield from self._refuse(sender, problem, Identity(join.zid, join.whatami))
            return
        self._refused.pop(sender, None)
        if member is not None and member.identity.zid == join.zid:
            # keep its lanes: this JOIN may be older than frames received since
            member.lease.seconds = lease_seconds(join)
            return
        for other in [other for other in self.members if other is member or other.identity.zid == join.zid]:
            yield self._remove(
                other,
                Closed(
                    CloseReason.GENERIC,
                    "replaced by another node at the same address or with the same zid",
                    by_peer=True,
                ),
            )
        yield from self._admit(sender, join, now)

    def _admit(self, sender: str, join: Join, now: float) -> Iterator[GroupEvent]:
        settings = self._settings
        lanes = LaneParameters(settings.qos, self._mask, join.patch or 0, _initial_sns(join), settings.message_limit)
        identity = Identity(join.zid, join.whatami)
        member = Member(
            identity,
            sender,
            FrameReceiver(lanes, self._columns, share=self._pool.new_share()),
            lease_seconds(join),
            now,
            join.patch or 0,
        )
        self._members[sender] = member
        self._join_due_at = min(self._join_due_at, max(now, self._join_replied_at + MIN_JOIN_REPLY_SECONDS))
        if self._join_due_at <= now:  # before any other message: the new member cannot decode this node's frames yet
            self._join_replied_at = now
            yield JoinDue()
        yield MemberJoined(member)

    def _problem(self, join: Join, member: Member | None) -> str:
        """Reason to refuse a JOIN; empty if it is acceptable."""
        settings = self._settings
        resolution = DEFAULT_RESOLUTION if join.resolution is None else join.resolution & 0x0F
        batch_size = DEFAULT_GROUP_BATCH_BYTES if join.batch_size is None else join.batch_size
        if join.version != PROTOCOL_VERSION:
            return f"protocol version {join.version}, expected {PROTOCOL_VERSION}"
        if join.zid == self._identity.zid:
            return "its zid is the zid of this node"
        if join.whatami is WhatAmI.CLIENT:
            return "it is a client; clients do not join groups"
        if resolution != settings.resolution:
            return f"resolution {resolution:#04x}, expected {settings.resolution:#04x}"
        if batch_size != settings.batch_size:
            return f"batch size {batch_size}, expected {settings.batch_size}"
        if (join.qos is not None) != settings.qos:
            return "it uses priorities, this group does not" if join.qos is not None else "it uses no priorities"
        if not join.lease:
            return "lease is 0"
        if max(sn for pair in _initial_sns(join).pairs for sn in pair) > self._mask:
            return "sequence number exceeds the resolution"
        if member is None and len(self._members) >= settings.max_members:
            return f"group is full: {settings.max_members} members (limit)"
        return ""

    def _remove(self, member: Member, closed: Closed) -> MemberLeft:
        del self._members[member.sender]
        member.receiver.end()
        return MemberLeft(member, closed)

    def _refuse(self, sender: str, text: str, identity: Identity | None) -> Iterator[SenderRefused]:
        if self._refused.get(sender) == text:
            return
        if len(self._refused) >= MAX_REFUSED_SENDERS:
            self._refused.clear()
        self._refused[sender] = text
        yield SenderRefused(sender, text, identity)

    # -- time

    def renew_leases(self, now: float) -> None:
        """Renew the lease of every member without a message: this node did not read, so silence proves nothing."""
        for member in self._members.values():
            member.lease.renewed_at = now

    def next_timeout(self) -> float:
        """Time at which `handle_timeout` must be called."""
        if self.has_ended:
            return float("inf")
        expiries = [member.lease.expires_at for member in self._members.values()]
        return min(self._join_due_at, self._keep_alive.due_at, *expiries)

    def handle_timeout(self, now: float) -> list[GroupEvent]:
        """Remove members whose lease expired; send JOIN or KEEP_ALIVE when due."""
        if self.has_ended:
            return []
        events: list[GroupEvent] = []
        for member in self.members:
            if member.lease.has_expired(now):
                expired = Closed(CloseReason.EXPIRED, member.lease.describe_expiry(), by_peer=False)
                events.append(self._remove(member, expired))
        if now >= self._join_due_at:
            events.append(JoinDue())
        elif now >= self._keep_alive.due_at:
            events.append(Send(self._batch(KeepAlive())))
        return events


def _initial_sns(join: Join) -> NextSns:
    """Initial sequence numbers of each lane; without priorities all lanes share one pair."""
    return join.qos or NextSns(((join.sn_re, join.sn_be),) * len(Priority))
