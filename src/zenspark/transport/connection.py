"""Connection: sans-I/O state machine of one link to one peer, from the first byte to the last. Bytes in, events out.

States: OPENING (handshake in progress), REQUESTED (an acceptor received OPEN and its owner must decide), OPEN, CLOSED.
The owner moves bytes: it receives into `buffer()`, passes the count to `receive()` and handles each event before it
requests the next, because publications are delivered as columns that point into that buffer. It writes the batch of
each `Send`, calls `handle_timeout` when `next_timeout` has come (it ends the session with a peer that was silent for
its lease, with reason EXPIRED: `lease.py`), and stops after `Closed`. An open session has an `outbox`, which belongs to
the owner alone: nothing here touches it.

Every protocol violation of the peer ends in `Closed` with a reason, never in an exception.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from enum import Enum, auto

import msgspec

from zenspark.errors import CloseReason, DecodeError, LimitExceeded, ProtocolError
from zenspark.transport.counters import ReceiveCounters
from zenspark.transport.framing import compress, decompress
from zenspark.transport.handshake import (
    Acceptor,
    HandshakeRefused,
    Identity,
    Initiator,
    Opened,
    SessionParameters,
    make_refusal,
)
from zenspark.transport.lease import KEEP_ALIVES_PER_LEASE, KeepAliveTimer, PeerLease
from zenspark.transport.outbox import Outbox
from zenspark.transport.reassembly import MAX_MESSAGE_BYTES, ReassemblyPool
from zenspark.transport.receiver import Closed, FrameReceiver, LaneParameters, MessageReceived, MessageRejected
from zenspark.wire.codec import decode_transport, encode
from zenspark.wire.columns import BatchDecoder, Framing, PushColumns, PushRun
from zenspark.wire.messages import Close, Join, KeepAlive, OpenSyn, TransportMessage
from zenspark.wire.values import NextSns, Priority, ZenohId

MAX_BUFFER_BYTES = 1 << 19
"""Maximum bytes of one read: several of the largest batches, and few enough to stay in the processor's cache."""
INITIAL_STREAM_BUFFER_BYTES, DATAGRAM_BUFFER_BYTES = 1 << 13, 1 << 17
"""Initial receive buffer of a stream, doubled whenever a read fills it; and the buffer of a datagram link, which must
hold the largest datagram. A router has hundreds of sessions, most of which receive little at a time."""
MAX_ROWS_PER_EVENT = 1 << 15
"""Maximum publications per event: about as many of the smallest ones as the buffer holds."""
MIN_BATCH_BYTES = 64
"""Smallest batch size accepted: in less, no payload fits behind the header of a fragment."""


class ConnectionState(Enum):
    """State of a connection."""

    OPENING = auto()
    REQUESTED = auto()
    OPEN = auto()
    CLOSED = auto()


class Send(msgspec.Struct, frozen=True):
    """Bytes to write, in order."""

    batch: bytes


class SessionRequested(msgspec.Struct, frozen=True):
    """A peer requests a session with these parameters: call `accept()` or `close()`."""

    parameters: SessionParameters


class PeerIdentified(msgspec.Struct, frozen=True):
    """The dialed node sent its zid in INIT(ACK); unless the owner closes the connection now, OPEN(SYN) follows."""

    zid: ZenohId


ConnectionEvent = (
    Send | SessionRequested | PeerIdentified | Opened | MessageReceived | MessageRejected | PushRun | Closed
)
Step = Generator[ConnectionEvent, None, int]
"""Generator of events; returns the number of bytes consumed."""


class Connection:
    """One link to one peer. Takes ownership of the `Initiator` or `Acceptor` it is given.

    `columns` may be shared by all connections of one thread: it holds data only while `receive` runs.
    """

    def __init__(
        self,
        handshake: Initiator | Acceptor,
        now: float,
        message_limit: int = MAX_MESSAGE_BYTES,
        is_streamed: bool = True,
        columns: PushColumns | None = None,
        keep_alives: int = KEEP_ALIVES_PER_LEASE,
        pool: ReassemblyPool | None = None,
    ) -> None:
        self._pool = ReassemblyPool(message_limit) if pool is None else pool
        self._handshake = handshake
        self._message_limit = message_limit
        self._counted_prefix = 2 if is_streamed else 0
        """Bytes of the length prefix that count towards the batch size; 0 for datagrams, which have none."""
        self._buffer = bytearray(INITIAL_STREAM_BUFFER_BYTES if is_streamed else DATAGRAM_BUFFER_BYTES)
        self._filled = 0
        self._columns = columns
        self._receiver: FrameReceiver | None = None
        self._is_uncompressed = False
        """Whether the session is open and its batches are not compressed."""
        self._peer_lease = PeerLease(now)
        self._keep_alive = KeepAliveTimer(now, keep_alives)
        self.receive_counters = ReceiveCounters()
        """Messages received over this link, and messages lost."""
        self.state = ConnectionState.OPENING
        self.parameters: SessionParameters | None = None
        self.outbox: Outbox | None = None

    @property
    def dialed_peer(self) -> Identity | None:
        """The node this end dialed, once it sent INIT(ACK); None on the accepting side."""
        parameters = self._handshake.parameters if isinstance(self._handshake, Initiator) else None
        return None if parameters is None else parameters.peer

    @property
    def dialed_zid(self) -> ZenohId | None:
        """Zid of the node this end dialed, once it sent INIT(ACK); None on the accepting side."""
        peer = self.dialed_peer
        return None if peer is None else peer.zid

    # -- sending

    def start(self) -> list[ConnectionEvent]:
        """Events to handle first: the initiator sends INIT(SYN)."""
        return [self._send(self._handshake.start())] if isinstance(self._handshake, Initiator) else []

    def _send(self, message: TransportMessage) -> Send:
        """Encode a transport message as a batch of its own, in the framing of the current state."""
        raw = encode(message)
        parameters = self.parameters if self.state is ConnectionState.OPEN else None
        if parameters is not None and parameters.low_latency:
            return Send(len(raw).to_bytes(4, "little") + raw)
        if parameters is not None and parameters.compression:
            raw = compress(raw)
        return Send(len(raw).to_bytes(2, "little") + raw)

    def restart_keep_alive(self, now: float) -> None:
        """Restart the interval until the next keep-alive, since something was written."""
        self._keep_alive.sent_at = now

    def renew_leases(self, now: float) -> None:
        """Renew the lease of the peer without a message: this node did not read, so silence proves nothing."""
        self._peer_lease.renewed_at = now

    def accept(self) -> list[ConnectionEvent]:
        """Accept the session the peer requested."""
        assert self.state is ConnectionState.REQUESTED
        assert self.parameters is not None
        assert isinstance(self._handshake, Acceptor)
        return [self._send(self._handshake.ack(self.parameters)), self._open(self.parameters)]

    def close(self, reason: CloseReason = CloseReason.GENERIC, text: str = "closed by this node") -> Closed:
        """Close the connection. CLOSE has S = 1 if it ends the session, S = 0 if only this link is refused."""
        close_batch = b""
        if self.state is not ConnectionState.CLOSED:
            ends_session = self.state is ConnectionState.OPEN and reason is not CloseReason.MAX_LINKS
            close_batch = self._send(Close(session=ends_session, reason=reason)).batch
        self.state = ConnectionState.CLOSED
        return Closed(reason, text, by_peer=False, close_batch=close_batch)

    # -- receiving

    def buffer(self) -> memoryview:
        """Free part of the receive buffer."""
        return memoryview(self._buffer)[self._filled :]

    def receive(self, count: int, now: float) -> Iterator[ConnectionEvent]:
        """Decode `count` new bytes in `buffer()` into events. Each event must be handled before the next."""
        self._peer_lease.renewed_at = now
        self._filled += count
        is_full = self._filled == len(self._buffer)
        try:
            consumed = 0
            while consumed < self._filled and self.state is not ConnectionState.CLOSED:
                if self._is_uncompressed:  # decode the whole buffer at once
                    decoder = self._make_decoder(consumed)
                    yield from self._receive_events(decoder)
                    consumed = decoder.pos
                    break
                step = yield from self._step(consumed)
                if not step:
                    break
                consumed += step
            self._compact_buffer(consumed)
            if is_full and len(self._buffer) < MAX_BUFFER_BYTES:
                self._buffer = self._buffer + bytearray(len(self._buffer))
        except ProtocolError as error:
            yield self._fail(error)

    def _compact_buffer(self, consumed: int) -> None:
        """Move the unconsumed bytes, an incomplete batch, to the front of the buffer."""
        left = self._filled - consumed
        if consumed and left:
            view = memoryview(self._buffer)
            view[:left] = view[consumed : self._filled]
        self._filled = left

    def _step(self, start: int) -> Step:
        """Process one batch as the state allows; returns the bytes consumed, 0 if more are needed."""
        if self.state is ConnectionState.OPEN:
            return (yield from self._decompress_batch(start))
        return (yield from self._handshake_step(start))

    def release_memory(self) -> None:
        """Release the memory of unfinished fragmented messages after the connection has closed."""
        if self._receiver is not None:
            self._receiver.end()

    def receive_eof(self) -> Closed:
        """Handle end of stream: the peer will send nothing more."""
        self.state = ConnectionState.CLOSED
        return Closed(CloseReason.GENERIC, "the peer ended the connection without CLOSE", by_peer=True)

    def _fail(self, error: ProtocolError) -> Closed:
        return self.close(error.reason, str(error))

    # -- the handshake

    def _handshake_step(self, start: int) -> Step:
        batch = self._batch(start, 0xFFFF)
        if batch is None or self.state is ConnectionState.REQUESTED:
            return 0
        if batch:
            yield from self._on_handshake(bytes(batch))
        return 2 + len(batch)

    def _batch(self, start: int, limit: int) -> memoryview | None:
        """Batch behind the length prefix at a position; None if incomplete."""
        if self._filled - start < 2:
            return None
        size = int.from_bytes(self._buffer[start : start + 2], "little")
        if size > limit:
            raise LimitExceeded(size, limit, "length of a batch")
        if self._filled - start < 2 + size:
            return None
        return memoryview(self._buffer)[start + 2 : start + 2 + size]

    def _on_handshake(self, batch: bytes) -> Iterator[ConnectionEvent]:
        try:
            outcome = self._handshake.receive(decode_transport(batch))
        except DecodeError as error:
            outcome = make_refusal(CloseReason.INVALID, str(error))
        match outcome:
            case Opened(parameters) if parameters.batch_size < MIN_BATCH_BYTES:
                yield self.close(
                    CloseReason.INVALID, f"batch size {parameters.batch_size} is below the minimum of {MIN_BATCH_BYTES}"
                )
            case Opened(parameters) if isinstance(self._handshake, Acceptor):
                self.parameters = parameters
                self.state = ConnectionState.REQUESTED
                yield SessionRequested(parameters)
            case Opened(parameters):
                yield self._open(parameters)
            case HandshakeRefused(reason, text, None):
                self.state = ConnectionState.CLOSED
                yield Closed(reason, text, by_peer=True)
            case HandshakeRefused(reason, text):
                yield self.close(reason, text)
            case OpenSyn():
                assert self.dialed_zid is not None
                yield PeerIdentified(self.dialed_zid)
                if self.state is not ConnectionState.CLOSED:
                    yield self._send(outcome)
            case message:
                yield self._send(message)

    def _open(self, parameters: SessionParameters) -> Opened:
        self.parameters = parameters
        self.state = ConnectionState.OPEN
        self._peer_lease.seconds = parameters.peer_lease
        self._keep_alive.lease = parameters.lease
        self._is_uncompressed = parameters.low_latency or not parameters.compression
        self._framing = Framing.BARE if parameters.low_latency else Framing.STREAM
        self._limit = parameters.batch_size if parameters.low_latency else parameters.batch_size - self._counted_prefix
        first = NextSns(((parameters.peer_initial_sn,) * 2,) * len(Priority))
        lanes = LaneParameters(parameters.qos, parameters.sn_mask, parameters.patch, first, self._message_limit)
        columns = PushColumns(MAX_ROWS_PER_EVENT) if self._columns is None else self._columns
        self._receiver = FrameReceiver(lanes, columns, self.receive_counters, self._pool.new_share())
        self.outbox = Outbox(
            parameters.batch_size,
            parameters.initial_sn,
            parameters.sn_mask,
            parameters.qos,
            parameters.compression,
            parameters.low_latency,
            streamed=self._counted_prefix > 0,
            separate_final_frames=self._handshake.capabilities.separate_final_frames,
        )
        return Opened(parameters)

    # -- the session

    def _make_decoder(self, start: int) -> BatchDecoder:
        is_stream = self._counted_prefix > 0
        return BatchDecoder(self._buffer, self._framing, self._limit, start, self._filled, is_partial_buffer=is_stream)

    def _decompress_batch(self, start: int) -> Step:
        assert self.parameters is not None
        batch = self._batch(start, self.parameters.batch_size - self._counted_prefix)
        if batch is None:
            return 0
        if batch:
            yield from self._receive_events(BatchDecoder(decompress(batch, self.parameters.batch_size), Framing.BATCH))
        return 2 + len(batch)

    def _receive_events(self, decoder: BatchDecoder) -> Iterator[ConnectionEvent]:
        """Events of the batches of a decoder, in order, until the session closes."""
        assert self._receiver is not None
        for event in self._receiver.events(decoder):
            if isinstance(event, Join):  # only meaningful in multicast groups
                continue
            if isinstance(event, Closed):
                self.state = ConnectionState.CLOSED
            yield event
            if self.state is not ConnectionState.OPEN:
                return

    # -- timers

    def next_timeout(self) -> float:
        """Time at which `handle_timeout` must be called."""
        if self.state is not ConnectionState.OPEN:
            return float("inf")
        return min(self._keep_alive.due_at, self._peer_lease.expires_at)

    def handle_timeout(self, now: float) -> list[ConnectionEvent]:
        """Send a keep-alive when due; close the session when the peer's lease has expired."""
        if self.state is not ConnectionState.OPEN:
            return []
        if self._peer_lease.has_expired(now):
            return [self.close(CloseReason.EXPIRED, self._peer_lease.describe_expiry())]
        if now >= self._keep_alive.due_at:
            return [self._send(KeepAlive())]
        return []
