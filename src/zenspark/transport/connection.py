"""Connection: one link to one peer, from the first byte to the last. Bytes in, events out.

States: the handshake runs (OPENING), an acceptor has been asked and its owner must decide (ASKED), the session is
OPEN, it is CLOSED. The owner moves bytes: it receives into `buffer()`, tells `receive()` how many came and handles
each event before it asks for the next, because publications are handed over as columns that point into that buffer.
It writes what a `Send` holds, calls `handle_timeout` when `next_timeout` has come, and stops after `Closed`. Once the
session is open it has an `outbox`, which is the owner's alone: nothing here touches it.

What can go wrong: anything the peer sends. It is always answered by `Closed` with a reason, never by an exception.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from enum import Enum, auto

import msgspec

from zenspark.errors import CloseReason, DecodeError, LimitExceeded, ProtocolError
from zenspark.transport.counters import ReceiveCounters
from zenspark.transport.framing import compress, decompress
from zenspark.transport.handshake import Acceptor, HandshakeRefused, Initiator, Opened, SessionParameters, make_refusal
from zenspark.transport.outbox import Outbox
from zenspark.transport.reassembly import ReassemblyPool
from zenspark.transport.receiver import Closed, FrameReceiver, LaneParameters, MessageReceived, MessageRejected, PushRun
from zenspark.wire.codec import decode_transport, encode
from zenspark.wire.columns import Columns, Cursor, Framing
from zenspark.wire.messages import Close, Join, KeepAlive, OpenSyn, TransportMessage
from zenspark.wire.values import NextSns, Priority, ZenohId

MAX_BUFFER_BYTES = 1 << 19
"""What one read may bring: several of the largest batches, and little enough to stay in the processor's cache."""
SMALL_BUFFER, DATAGRAM_BUFFER = 1 << 13, 1 << 17
"""What there is room for to begin with, on a stream, where there is twice as much when it was all used; and for
datagrams, which have to fit. A router has hundreds of sessions, most of which say little at a time."""
MAX_ROWS_PER_EVENT = 1 << 15
"""How many publications are handed over at once: about what the buffer holds of the smallest ones."""
MIN_BATCH_BYTES = 64
"""What there must be room for: in less, no piece of a message fits behind the head of its fragment."""
KEEP_ALIVES_PER_LEASE = 4
"""How often we are heard of within a lease, unless told otherwise."""


class ConnectionState(Enum):
    OPENING = auto()
    ASKED = auto()
    OPEN = auto()
    CLOSED = auto()


class Send(msgspec.Struct, frozen=True):
    """Bytes to write, behind what was said before."""

    batch: bytes


class SessionRequested(msgspec.Struct, frozen=True):
    """Somebody wants a session on these terms: `admit()` or `close()`."""

    terms: SessionParameters


class PeerIdentified(msgspec.Struct, frozen=True):
    """The node we call has said who it is; unless the connection is closed now, it is asked for a session."""

    zid: ZenohId


Event = Send | SessionRequested | PeerIdentified | Opened | MessageReceived | MessageRejected | PushRun | Closed
Step = Generator[Event, None, int]
"""Events, and at the end how many bytes they took."""


class Connection:
    """One link, one peer. Made by an `Initiator` or an `Acceptor` that nobody else uses.

    `columns` may be shared by all connections of one thread: it holds something only while `receive` runs.
    """

    def __init__(
        self,
        side: Initiator | Acceptor,
        now: float,
        message_limit: int = 1 << 30,
        is_streamed: bool = True,
        columns: Columns | None = None,
        keep_alives: int = KEEP_ALIVES_PER_LEASE,
        pool: ReassemblyPool | None = None,
    ) -> None:
        self._pool = ReassemblyPool(message_limit) if pool is None else pool
        self._side = side
        self._message_limit = message_limit
        self._prefix = 2 if is_streamed else 0
        """What of the length before a batch counts as part of it: a datagram has none of its own."""
        self._buffer = bytearray(SMALL_BUFFER if is_streamed else DATAGRAM_BUFFER)
        self._filled = 0
        self._columns = columns
        self._keep_alives = keep_alives
        self._hearing: FrameReceiver | None = None
        self._is_plain = False
        """Whether there is a session whose batches are as they come."""
        self._heard = now
        self._sent = now
        self.arrivals = ReceiveCounters()
        """What came over this link, and what of it was lost."""
        self.state = ConnectionState.OPENING
        self.terms: SessionParameters | None = None
        self.outbox: Outbox | None = None

    @property
    def callee(self) -> ZenohId | None:
        """Whom this end calls, once it has answered; None if this end is the one who is called."""
        terms = self._side.terms if isinstance(self._side, Initiator) else None
        return None if terms is None else terms.peer.zid

    # -- out

    def start(self) -> list[Event]:
        """What to do first."""
        return [self._say(self._side.start())] if isinstance(self._side, Initiator) else []

    def _say(self, message: TransportMessage) -> Send:
        """A transport message as a batch of its own, in the framing of the moment."""
        raw = encode(message)
        terms = self.terms if self.state is ConnectionState.OPEN else None
        if terms is not None and terms.low_latency:
            return Send(len(raw).to_bytes(4, "little") + raw)
        if terms is not None and terms.compression:
            raw = compress(raw)
        return Send(len(raw).to_bytes(2, "little") + raw)

    def sent(self, now: float) -> None:
        """Something was written: the peer will have heard of us."""
        self._sent = now

    def heard(self, now: float) -> None:
        """The peer is not silent, whatever has been read of it: its lease begins anew."""
        self._heard = now

    def admit(self) -> list[Event]:
        """Let in who asked."""
        assert self.state is ConnectionState.ASKED
        assert self.terms is not None
        assert isinstance(self._side, Acceptor)
        return [self._say(self._side.ack(self.terms)), self._open(self.terms)]

    def close(self, reason: CloseReason = CloseReason.GENERIC, text: str = "closed here") -> Closed:
        """End it. CLOSE says whether that is the end of a session (S = 1), or only this link is refused (S = 0)."""
        farewell = b""
        if self.state is not ConnectionState.CLOSED:
            ends_session = self.state is ConnectionState.OPEN and reason is not CloseReason.MAX_LINKS
            farewell = self._say(Close(session=ends_session, reason=reason)).batch
        self.state = ConnectionState.CLOSED
        return Closed(reason, text, by_peer=False, farewell=farewell)

    # -- in

    def buffer(self) -> memoryview:
        """Where the next bytes go."""
        return memoryview(self._buffer)[self._filled :]

    def receive(self, count: int, now: float) -> Iterator[Event]:
        """So many bytes came into `buffer()`: what they mean. Each event must be handled before the next."""
        self._heard = now
        self._filled += count
        is_full = self._filled == len(self._buffer)
        try:
            consumed = 0
            while consumed < self._filled and self.state is not ConnectionState.CLOSED:
                if self._is_plain:  # all there is in one go
                    cursor = self._cursor(consumed)
                    yield from self._walk(cursor)
                    consumed = cursor.pos
                    break
                step = yield from self._step(consumed)
                if not step:
                    break
                consumed += step
            self._keep(consumed)
            if is_full and len(self._buffer) < MAX_BUFFER_BYTES:
                self._buffer = self._buffer + bytearray(len(self._buffer))
        except ProtocolError as error:
            yield self._fail(error)

    def _keep(self, consumed: int) -> None:
        """Move what is left, an unfinished batch, to the front."""
        left = self._filled - consumed
        if consumed and left:
            whole = memoryview(self._buffer)
            whole[:left] = whole[consumed : self._filled]
        self._filled = left

    def _step(self, start: int) -> Step:
        """Go as far as the state allows; how many bytes that took, 0 if more must come."""
        if self.state is ConnectionState.OPEN:
            return (yield from self._flow_compressed(start))
        return (yield from self._shake(start))

    def forget(self) -> None:
        """It is over: give back the memory of messages that were not finished."""
        if self._hearing is not None:
            self._hearing.end()

    def receive_eof(self) -> Closed:
        """The other side will send nothing more."""
        self.state = ConnectionState.CLOSED
        return Closed(CloseReason.GENERIC, "the other side went away", by_peer=True)

    def _fail(self, error: ProtocolError) -> Closed:
        return self.close(error.reason, str(error))

    # -- the handshake

    def _shake(self, start: int) -> Step:
        batch = self._batch(start, 0xFFFF)
        if batch is None or self.state is ConnectionState.ASKED:
            return 0
        if batch:
            yield from self._on_handshake(bytes(batch))
        return 2 + len(batch)

    def _batch(self, start: int, limit: int) -> memoryview | None:
        """The batch behind the length at a position; None if it is not all here."""
        if self._filled - start < 2:
            return None
        size = int.from_bytes(self._buffer[start : start + 2], "little")
        if size > limit:
            raise LimitExceeded(size, limit, "length of a batch")
        if self._filled - start < 2 + size:
            return None
        return memoryview(self._buffer)[start + 2 : start + 2 + size]

    def _on_handshake(self, batch: bytes) -> Iterator[Event]:
        try:
            outcome = self._side.receive(decode_transport(batch))
        except DecodeError as error:
            outcome = make_refusal(CloseReason.INVALID, str(error))
        match outcome:
            case Opened(terms) if terms.batch_size < MIN_BATCH_BYTES:
                yield self.close(CloseReason.INVALID, f"batches of {terms.batch_size} bytes are too small")
            case Opened(terms) if isinstance(self._side, Acceptor):
                self.terms = terms
                self.state = ConnectionState.ASKED
                yield SessionRequested(terms)
            case Opened(terms):
                yield self._open(terms)
            case HandshakeRefused(reason, text, None):
                self.state = ConnectionState.CLOSED
                yield Closed(reason, text, by_peer=True)
            case HandshakeRefused(reason, text):
                yield self.close(reason, text)
            case OpenSyn():
                assert self.callee is not None
                yield PeerIdentified(self.callee)
                if self.state is not ConnectionState.CLOSED:
                    yield self._say(outcome)
            case message:
                yield self._say(message)

    def _open(self, terms: SessionParameters) -> Opened:
        self.terms = terms
        self.state = ConnectionState.OPEN
        self._is_plain = terms.low_latency or not terms.compression
        self._framing = Framing.BARE if terms.low_latency else Framing.STREAM
        self._limit = terms.batch_size if terms.low_latency else terms.batch_size - self._prefix
        first = NextSns(((terms.peer_initial_sn,) * 2,) * len(Priority))
        lanes = LaneParameters(terms.qos, terms.sn_mask, terms.patch, first, self._message_limit)
        columns = Columns(MAX_ROWS_PER_EVENT) if self._columns is None else self._columns
        self._hearing = FrameReceiver(lanes, columns, self.arrivals, self._pool.share())
        self.outbox = Outbox(
            terms.batch_size,
            terms.initial_sn,
            terms.sn_mask,
            terms.qos,
            terms.compression,
            terms.low_latency,
            streamed=self._prefix > 0,
            finals_apart=self._side.offer.finals_apart,
        )
        return Opened(terms)

    # -- the session

    def _cursor(self, start: int) -> Cursor:
        goes_on = self._prefix > 0
        return Cursor(self._buffer, self._framing, self._limit, start, self._filled, goes_on=goes_on)

    def _flow_compressed(self, start: int) -> Step:
        assert self.terms is not None
        batch = self._batch(start, self.terms.batch_size - self._prefix)
        if batch is None:
            return 0
        if batch:
            yield from self._walk(Cursor(decompress(batch, self.terms.batch_size), Framing.BATCH))
        return 2 + len(batch)

    def _walk(self, cursor: Cursor) -> Iterator[Event]:
        """Everything a cursor meets, in order, until somebody closes."""
        assert self._hearing is not None
        for event in self._hearing.walk(cursor):
            if isinstance(event, Join):  # means something in groups only
                continue
            if isinstance(event, Closed):
                self.state = ConnectionState.CLOSED
            yield event
            if self.state is not ConnectionState.OPEN:
                return

    # -- time

    def next_timeout(self) -> float:
        """When `handle_timeout` has something to do."""
        if self.terms is None or self.state is not ConnectionState.OPEN:
            return float("inf")
        return min(self._sent + self.terms.lease / self._keep_alives, self._heard + self.terms.peer_lease)

    def handle_timeout(self, now: float) -> list[Event]:
        """Say that we are here; give up a peer that does not say so."""
        if self.state is not ConnectionState.OPEN:
            return []
        assert self.terms is not None
        if now >= self._heard + self.terms.peer_lease:
            return [self.close(CloseReason.EXPIRED, f"nothing was heard for {self.terms.peer_lease:g} s")]
        if now >= self._sent + self.terms.lease / self._keep_alives:
            return [self._say(KeepAlive())]
        return []
