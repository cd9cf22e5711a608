"""What two sides said to each other, from the bytes each of them sent.

Two recorded directions have no common clock, so what is told, in which order, follows from the content:

- The order of each direction is kept, always.
- What refers to something the other side says (a key by the other's number, a response to a request, declarations an
  interest asked for, each step of the handshake) is told after it, and as soon after it as possible: an answer goes
  before anything that answers nothing.
- Otherwise the two take turns, batch by batch.

If neither side can go on, because what is referred to was never recorded, the first in line goes on without it. The
same holds for bytes that arrive as they are sent; then a side that waits does so until its reference turns up, or
until `PATIENCE` bytes wait behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from zenspark.capture.byte_stream import Manner
from zenspark.capture.direction import Broken, Direction, Found, Lost, Rules, Said, Side
from zenspark.transport.framing import Bytes, LengthPrefix
from zenspark.transport.handshake import Capabilities, Identity, SessionParameters, negotiate
from zenspark.wire.declare import Message
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

PATIENCE = 1 << 24
"""How many bytes may wait behind a message whose reference was not yet said: nobody's memory is without end."""

Reference = tuple[str, int]
"""Something a side said that the other may refer to: what it is, and its number."""

HANDSHAKE: dict[type[Message], type[Message]] = {InitAck: InitSyn, OpenSyn: InitAck, OpenAck: OpenSyn}
"""What each step of the handshake answers."""


class Ignored(msgspec.Struct, frozen=True):
    """Bytes behind a CLOSE, which nobody reads."""

    side: Side
    start: int
    size: int


class Truncated(msgspec.Struct, frozen=True):
    """A direction that ends in the middle of a batch: where the batch begins, and how many bytes it lacks."""

    side: Side
    position: int
    missing: int


Event = Said | Lost | Broken | Ignored | Truncated


def expressions(message: Message) -> Iterator[WireExpr | BoundExpr]:
    """The key expressions a message carries, itself or in its body; an empty one stands for none."""
    for part in (message, getattr(message, "body", None)):
        for name in ("wire_expr", "ext_wire_expr"):
            expr = getattr(part, name, None)
            if expr is not None and (expr.scope or expr.suffix):
                yield expr


def references(message: Message) -> Iterator[Reference]:
    """What the other side must have said before this."""
    if type(message) in HANDSHAKE:
        yield HANDSHAKE[type(message)].NAME, 0
    for expr in expressions(message):
        if isinstance(expr, WireExpr) and expr.scope and expr.mapping is Mapping.RECEIVER:
            yield "key", expr.scope
    match message:
        case Response() | ResponseFinal():
            yield "request", message.request_id
        case Declare(interest_id=int(interest)) if interest:  # interest 0 is never sent: peers imply it
            yield "interest", interest


def agreed(syn: InitSyn | None, ack: InitAck) -> SessionParameters:
    """The terms of a session; without the InitSyn, what the acceptor said."""
    said = syn or ack
    offer = Capabilities(
        resolution=Capabilities().resolution if said.resolution is None else said.resolution,
        batch_size=Capabilities().batch_size if said.batch_size is None else said.batch_size,
        qos=said.qos or said.qos_link is not None,
        low_latency=said.low_latency,
        compression=said.compression,
    )
    return negotiate(offer, ack)


class Speaker:
    """One side of a conversation: its direction, what it said that can be referred to, and what it says next."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.direction = Direction(side)
        self.identity: Identity | None = None
        self.begins_late = False
        """Whether the recording begins after the handshake."""
        self.closed_at: int | None = None
        self.known: dict[Reference, str] = {}
        self.head: Found | None = None
        self.needs: tuple[Reference, ...] = ()
        self._freed: set[int] = set()
        self._begun = False
        self._waits_for_ack = False
        self._last_batch = 0
        self._bound_key = False

    @property
    def continues(self) -> bool:
        """Whether what it says next belongs to what it said last: same batch, or a use of the key just bound."""
        return self._bound_key or self.direction.batch == self._last_batch

    def look(self) -> bool:
        """Have at hand what this side says next, if there is anything."""
        if self.head is None:
            self.head = self.direction.next()
            self.needs = tuple(self._needs(self.head.message)) if isinstance(self.head, Said) else ()
        return self.head is not None

    def _needs(self, message: Message) -> Iterator[Reference]:
        if self._waits_for_ack:
            yield OpenAck.NAME, 0
        yield from references(message)

    def speak(self) -> Found:
        """Give out what is at hand."""
        assert self.head is not None
        found, self.head = self.head, None
        message = found.message if isinstance(found, Said) else None
        self._last_batch = self.direction.batch
        self._waits_for_ack = isinstance(message, OpenSyn)
        self._bound_key = isinstance(message, Declare) and isinstance(message.body, DeclareKeyexpr)
        if message is not None and not self._begun:
            self._begun = True
            self.begins_late = not isinstance(message, InitSyn | InitAck)
        return found

    def learn(self, message: Message, key: str) -> None:
        """Remember what later messages may refer to."""
        match message:
            case Declare(body=DeclareKeyexpr(expr_id=number)):
                if number in self._freed or ("key", number) not in self.known:  # a number is bound only once
                    self._freed.discard(number)
                    self.known["key", number] = key
            case Declare(body=UndeclareKeyexpr(expr_id=number)):
                self._freed.add(number)  # the other side may have used it before it heard of this
            case Declare(body=DeclareSubscriber() | DeclareQueryable() | DeclareToken() as body):
                self.known[body.NAME[2:], body.id] = key
            case Interest(id=number, mode=mode) if mode is not InterestMode.FINAL:
                self.known["interest", number] = key
            case Request(request_id=number):
                self.known["request", number] = key
            case InitSyn() | InitAck():
                self.identity = Identity(message.zid, message.whatami)
                self.known[message.NAME, 0] = key
            case OpenSyn() | OpenAck():
                self.known[message.NAME, 0] = key


class Conversation:
    """Follows two directions at once: `receive_data` for either, `events` for what can be told, `finish` at the end."""

    def __init__(self) -> None:
        self.speakers = {side: Speaker(side) for side in Side}
        self.parameters: SessionParameters | None = None
        """What both sides agreed on, if the handshake was recorded."""
        self._syn: InitSyn | None = None
        self._last = Side.S2C
        self._turn = Side.C2S

    def receive_data(self, side: Side, data: Bytes) -> None:
        """Take the next bytes one side sent."""
        self.speakers[side].direction.receive_data(data)

    def events(self) -> Iterator[Event]:
        """What can be told from the bytes that are here."""
        while (speaker := self._next_speaker()) is not None:
            if not speaker.continues and not speaker.needs:
                self._turn = speaker.side.other
            self._last = speaker.side
            found = speaker.speak()
            yield self._understood(speaker, found) if isinstance(found, Said) else found

    def finish(self) -> Iterator[Event]:
        """What is left to tell now that no more bytes will come."""
        for speaker in self.speakers.values():
            speaker.direction.ended = True
        yield from self.events()
        for speaker in self.speakers.values():
            yield from self._ending(speaker)

    def _ending(self, speaker: Speaker) -> Iterator[Event]:
        direction = speaker.direction
        yield from direction.unfinished()
        if speaker.closed_at is not None and direction.total > speaker.closed_at:
            yield Ignored(speaker.side, speaker.closed_at, direction.total - speaker.closed_at)
        elif direction.waiting and not direction.stopped:
            yield Truncated(speaker.side, direction.followed, direction.missing)

    # who speaks next

    def _next_speaker(self) -> Speaker | None:
        last = self.speakers[self._last]
        waiting = [speaker for speaker in self.speakers.values() if speaker.look()]
        ready = [speaker for speaker in waiting if self._is_ready(speaker)]
        if last in ready and last.continues:
            return last
        answers = [speaker for speaker in ready if speaker.needs]
        if answers:
            return answers[0] if answers[0] is not last else answers[-1]
        if ready:
            return next((speaker for speaker in ready if speaker.side is self._turn), ready[0])
        return waiting[0] if waiting and self._is_hopeless(waiting) else None

    def _is_ready(self, speaker: Speaker) -> bool:
        known = self.speakers[speaker.side.other].known
        return all(need in known for need in speaker.needs)

    def _is_hopeless(self, waiting: list[Speaker]) -> bool:
        """Whether nothing that is still to come can be waited for."""
        others = [self.speakers[speaker.side.other] for speaker in waiting]
        return all(other in waiting or other.direction.ended or other.direction.stopped for other in others) or any(
            speaker.direction.waiting > PATIENCE for speaker in waiting
        )

    # what it means

    def _understood(self, speaker: Speaker, said: Said) -> Said:
        message = said.message
        other = self.speakers[speaker.side.other]
        key = self._key(speaker, message)
        request_key = None
        if isinstance(message, Response | ResponseFinal):
            request_key = other.known.get(("request", message.request_id))
        if isinstance(message, ResponseFinal):
            other.known.pop(("request", message.request_id), None)
        speaker.learn(message, key or "")
        self._follow(speaker, said)
        return msgspec.structs.replace(said, key=key, request_key=request_key)

    def _key(self, speaker: Speaker, message: Message) -> str | None:
        for expr in expressions(message):
            return self._resolved(speaker, expr)
        own, others = speaker.known, self.speakers[speaker.side.other].known
        match message:
            case Interest(id=number):
                return own.get(("interest", number)) or None
            case ResponseFinal(request_id=number):
                return others.get(("request", number)) or None
            case Declare(body=DeclareFinal(), interest_id=int(number)):
                return others.get(("interest", number)) or None
            case Declare(body=UndeclareKeyexpr(expr_id=number)):
                return own.get(("key", number))
            case Declare(body=UndeclareSubscriber() | UndeclareQueryable() | UndeclareToken() as body):
                return own.get((body.NAME[2:], body.id))
        return None

    def _resolved(self, speaker: Speaker, expr: WireExpr | BoundExpr) -> str:
        if not expr.scope:
            return expr.suffix
        own, others = speaker.known, self.speakers[speaker.side.other].known
        tables = [others, own]  # a binding says not whose number it builds on: the receiver's, for eclipse-zenoh
        if isinstance(expr, WireExpr):
            tables = [own if expr.mapping is Mapping.SENDER else others]
        for table in tables:
            if ("key", expr.scope) in table:
                return table["key", expr.scope] + expr.suffix
        return f"#{expr.scope}+{expr.suffix}" if expr.suffix else f"#{expr.scope}"

    def _follow(self, speaker: Speaker, said: Said) -> None:
        """Do what a transport message makes both ends do."""
        match said.message:
            case InitSyn() as syn:
                self._syn = syn
            case InitAck() as ack:
                self.parameters = agreed(self._syn, ack)
            case OpenSyn(initial_sn=sn) | OpenAck(initial_sn=sn):
                speaker.direction.switch(None if self.parameters is None else rules_of(self.parameters, sn))
            case Close():
                speaker.closed_at = said.end
                speaker.direction.stopped = True


def rules_of(terms: SessionParameters, initial_sn: int) -> Rules:
    """How a direction is read once it is open."""
    framing = LengthPrefix.U32 if terms.low_latency else LengthPrefix.U16
    manner = Manner(framing, terms.compression and not terms.low_latency)
    return Rules(manner, terms.sn_mask, terms.patch, initial_sn)


def follow(c2s: Bytes, s2c: Bytes) -> Iterator[Event]:
    """What was said in a whole conversation."""
    conversation = Conversation()
    conversation.receive_data(Side.C2S, c2s)
    conversation.receive_data(Side.S2C, s2c)
    return conversation.finish()
