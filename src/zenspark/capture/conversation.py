"""Merges both directions of a captured connection into one sequence of messages.

Two captured directions have no common clock, so the order of events follows from the content:

- The order of each direction is kept, always.
- A message that refers to one of the other side (a key by the other's id, a response to a request, declarations for an
  interest, each step of the handshake) comes after it, and as soon after it as possible: such a message goes before
  one that refers to nothing.
- Otherwise the two sides alternate, batch by batch.

If neither side can go on, because the referenced message was never captured, the first in line goes on without it. The
same holds for live bytes; then a side waits until its reference turns up, or until `MAX_REORDER_BYTES` wait behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from zenspark.capture.byte_stream import StreamFormat
from zenspark.capture.direction import (
    CapturedMessage,
    Direction,
    DirectionEvent,
    DirectionParameters,
    InvalidBytes,
    LostMessage,
    Side,
)
from zenspark.transport.framing import Bytes, LengthPrefix
from zenspark.transport.handshake import Capabilities, Identity, SessionParameters, negotiate
from zenspark.wire.message_schema import Message
from zenspark.wire.messages import (
    Close,
    Declare,
    DeclareFinal,
    DeclareKeyexpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    InitAck,
    InitSyn,
    Interest,
    OpenAck,
    OpenSyn,
    Request,
    Response,
    ResponseFinal,
    UndeclareKeyexpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from zenspark.wire.values import BoundExpr, InterestMode, Mapping, WireExpr

MAX_REORDER_BYTES = 1 << 24
"""Bytes that may wait behind a message whose reference was not received yet: this bounds the memory."""

Reference = tuple[str, int]
"""A message that the other side may refer to: its kind, and its number."""

HANDSHAKE_REQUESTS: dict[type[Message], type[Message]] = {InitAck: InitSyn, OpenSyn: InitAck, OpenAck: OpenSyn}
"""The message that each step of the handshake replies to."""


class Ignored(msgspec.Struct, frozen=True):
    """Bytes after a CLOSE, which are not decoded."""

    side: Side
    start: int
    size: int


class Truncated(msgspec.Struct, frozen=True):
    """A direction that ends in the middle of a batch: position of the batch, and the number of bytes it lacks."""

    side: Side
    position: int
    missing: int


Event = CapturedMessage | LostMessage | InvalidBytes | Ignored | Truncated


def expressions(message: Message) -> Iterator[WireExpr | BoundExpr]:
    """Key expressions of a message, or of its body; an empty one is none."""
    for part in (message, getattr(message, "body", None)):
        for name in ("wire_expr", "ext_wire_expr"):
            expr = getattr(part, name, None)
            if expr is not None and (expr.scope or expr.suffix):
                yield expr


def references(message: Message) -> Iterator[Reference]:
    """Messages the other side must have sent before this one."""
    if type(message) in HANDSHAKE_REQUESTS:
        yield HANDSHAKE_REQUESTS[type(message)].NAME, 0
    for expr in expressions(message):
        if isinstance(expr, WireExpr) and expr.scope and expr.mapping is Mapping.RECEIVER:
            yield "key", expr.scope
    match message:
        case Response() | ResponseFinal():
            yield "request", message.request_id
        case Declare(interest_id=int(interest)) if interest:  # interest 0 is never sent: it is implicit between peers
            yield "interest", interest


def negotiated_parameters(syn: InitSyn | None, ack: InitAck) -> SessionParameters:
    """Session parameters; without the InitSyn, those of the acceptor's INIT(ACK)."""
    init = syn or ack
    capabilities = Capabilities(
        resolution=Capabilities().resolution if init.resolution is None else init.resolution,
        batch_size=Capabilities().batch_size if init.batch_size is None else init.batch_size,
        qos=init.qos or init.qos_link is not None,
        low_latency=init.low_latency,
        compression=init.compression,
    )
    return negotiate(capabilities, ack)


class SideState:
    """One side of a conversation: its direction, its referenceable messages, and its next event."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.direction = Direction(side)
        self.identity: Identity | None = None
        self.begins_late = False
        """Whether the capture begins after the handshake."""
        self.closed_at: int | None = None
        self.reference_keys: dict[Reference, str] = {}
        """Key expression of each message that the other side may refer to; empty if it has none."""
        self.head: DirectionEvent | None = None
        self.needs: tuple[Reference, ...] = ()
        self._freed: set[int] = set()
        self._has_begun = False
        self._waits_for_ack = False
        self._last_batch = 0
        self._bound_key = False

    @property
    def continues(self) -> bool:
        """Whether the next event belongs to the last one: same batch, or a use of the key just mapped."""
        return self._bound_key or self.direction.batch == self._last_batch

    def peek(self) -> bool:
        """Fetch the next event of this side; False if there is none."""
        if self.head is None:
            self.head = self.direction.next()
            self.needs = tuple(self._needs(self.head.message)) if isinstance(self.head, CapturedMessage) else ()
        return self.head is not None

    def _needs(self, message: Message) -> Iterator[Reference]:
        if self._waits_for_ack:
            yield OpenAck.NAME, 0
        yield from references(message)

    def pop(self) -> DirectionEvent:
        """Return the next event of this side."""
        assert self.head is not None
        event, self.head = self.head, None
        message = event.message if isinstance(event, CapturedMessage) else None
        self._last_batch = self.direction.batch
        self._waits_for_ack = isinstance(message, OpenSyn)
        self._bound_key = isinstance(message, Declare) and isinstance(message.body, DeclareKeyexpr)
        if message is not None and not self._has_begun:
            self._has_begun = True
            self.begins_late = not isinstance(message, InitSyn | InitAck)
        return event

    def record(self, message: Message, key: str) -> None:
        """Record a message of this side that later messages may refer to, with its key expression."""
        match message:
            case Declare(body=DeclareKeyexpr(expr_id=number)):
                if number in self._freed or ("key", number) not in self.reference_keys:  # an id is mapped only once
                    self._freed.discard(number)
                    self.reference_keys["key", number] = key
            case Declare(body=UndeclareKeyexpr(expr_id=number)):
                self._freed.add(number)  # the other side may have used it before it received this
            case Declare(body=DeclareSubscriber() | DeclareQueryable() | DeclareToken() as body):
                self.reference_keys[body.NAME[2:], body.id] = key
            case Interest(id=number, mode=mode) if mode is not InterestMode.FINAL:
                self.reference_keys["interest", number] = key
            case Request(request_id=number):
                self.reference_keys["request", number] = key
            case InitSyn() | InitAck():
                self.identity = Identity(message.zid, message.whatami)
                self.reference_keys[message.NAME, 0] = key
            case OpenSyn() | OpenAck():
                self.reference_keys[message.NAME, 0] = key


class Conversation:
    """Follows two directions at once: `receive_data` for either, `events` after it, `finish` at the end."""

    def __init__(self) -> None:
        self.sides = {side: SideState(side) for side in Side}
        self.parameters: SessionParameters | None = None
        """Negotiated session parameters, if the handshake was captured."""
        self._syn: InitSyn | None = None
        self._last = Side.S2C
        self._turn = Side.C2S

    def receive_data(self, side: Side, data: Bytes) -> None:
        """Append the next bytes one side sent."""
        self.sides[side].direction.receive_data(data)

    def events(self) -> Iterator[Event]:
        """Events decodable from the bytes received so far."""
        while (sender := self._next_sender()) is not None:
            if not sender.continues and not sender.needs:
                self._turn = sender.side.other
            self._last = sender.side
            event = sender.pop()
            yield self._resolve_message(sender, event) if isinstance(event, CapturedMessage) else event

    def finish(self) -> Iterator[Event]:
        """Remaining events, now that no more bytes will come."""
        for sender in self.sides.values():
            sender.direction.ended = True
        yield from self.events()
        for sender in self.sides.values():
            yield from self._ending(sender)

    def _ending(self, sender: SideState) -> Iterator[Event]:
        direction = sender.direction
        yield from direction.unfinished_messages()
        if sender.closed_at is not None and direction.total > sender.closed_at:
            yield Ignored(sender.side, sender.closed_at, direction.total - sender.closed_at)
        elif direction.waiting and not direction.stopped:
            yield Truncated(sender.side, direction.followed, direction.missing)

    # order of the sides

    def _next_sender(self) -> SideState | None:
        last = self.sides[self._last]
        waiting = [sender for sender in self.sides.values() if sender.peek()]
        ready = [sender for sender in waiting if self._is_ready(sender)]
        if last in ready and last.continues:
            return last
        replies = [sender for sender in ready if sender.needs]
        if replies:
            return replies[0] if replies[0] is not last else replies[-1]
        if ready:
            return next((sender for sender in ready if sender.side is self._turn), ready[0])
        return waiting[0] if waiting and self._cannot_wait(waiting) else None

    def _is_ready(self, sender: SideState) -> bool:
        recorded = self.sides[sender.side.other].reference_keys
        return all(reference in recorded for reference in sender.needs)

    def _cannot_wait(self, waiting: list[SideState]) -> bool:
        """Whether no side can wait for the message it refers to: it will not come, or too many bytes wait."""
        others = [self.sides[sender.side.other] for sender in waiting]
        return all(other in waiting or other.direction.ended or other.direction.stopped for other in others) or any(
            sender.direction.waiting > MAX_REORDER_BYTES for sender in waiting
        )

    # interpretation

    def _resolve_message(self, sender: SideState, captured: CapturedMessage) -> CapturedMessage:
        message = captured.message
        other = self.sides[sender.side.other]
        key = self._key(sender, message)
        request_key = None
        if isinstance(message, Response | ResponseFinal):
            request_key = other.reference_keys.get(("request", message.request_id))
        if isinstance(message, ResponseFinal):
            other.reference_keys.pop(("request", message.request_id), None)
        sender.record(message, key or "")
        self._follow(sender, captured)
        return msgspec.structs.replace(captured, key=key, request_key=request_key)

    def _key(self, sender: SideState, message: Message) -> str | None:
        for expr in expressions(message):
            return self._resolve_key(sender, expr)
        sender_keys, receiver_keys = sender.reference_keys, self.sides[sender.side.other].reference_keys
        match message:
            case Interest(id=number):
                return sender_keys.get(("interest", number)) or None
            case ResponseFinal(request_id=number):
                return receiver_keys.get(("request", number)) or None
            case Declare(body=DeclareFinal(), interest_id=int(number)):
                return receiver_keys.get(("interest", number)) or None
            case Declare(body=UndeclareKeyexpr(expr_id=number)):
                return sender_keys.get(("key", number))
            case Declare(body=UndeclareSubscriber() | UndeclareQueryable() | UndeclareToken() as body):
                return sender_keys.get((body.NAME[2:], body.id))
        return None

    def _resolve_key(self, sender: SideState, expr: WireExpr | BoundExpr) -> str:
        if not expr.scope:
            return expr.suffix
        sender_keys, receiver_keys = sender.reference_keys, self.sides[sender.side.other].reference_keys
        # D_KEYEXPR has no mapping flag: eclipse-zenoh resolves the receiver's ids
        tables = [receiver_keys, sender_keys]
        if isinstance(expr, WireExpr):
            tables = [sender_keys if expr.mapping is Mapping.SENDER else receiver_keys]
        for table in tables:
            if ("key", expr.scope) in table:
                return table["key", expr.scope] + expr.suffix
        return f"#{expr.scope}+{expr.suffix}" if expr.suffix else f"#{expr.scope}"

    def _follow(self, sender: SideState, captured: CapturedMessage) -> None:
        """Apply the effects of a transport message on both ends."""
        match captured.message:
            case InitSyn() as syn:
                self._syn = syn
            case InitAck() as ack:
                self.parameters = negotiated_parameters(self._syn, ack)
            case OpenSyn(initial_sn=sn) | OpenAck(initial_sn=sn):
                sender.direction.switch(None if self.parameters is None else direction_parameters(self.parameters, sn))
            case Close():
                sender.closed_at = captured.end
                sender.direction.stopped = True


def direction_parameters(parameters: SessionParameters, initial_sn: int) -> DirectionParameters:
    """Parameters of a direction once the session is open."""
    framing = LengthPrefix.U32 if parameters.low_latency else LengthPrefix.U16
    stream_format = StreamFormat(framing, parameters.compression and not parameters.low_latency)
    return DirectionParameters(stream_format, parameters.sn_mask, parameters.patch, initial_sn)


def follow(c2s: Bytes, s2c: Bytes) -> Iterator[Event]:
    """Events of a whole conversation."""
    conversation = Conversation()
    conversation.receive_data(Side.C2S, c2s)
    conversation.receive_data(Side.S2C, s2c)
    return conversation.finish()
