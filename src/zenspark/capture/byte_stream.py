"""The bytes of a link with their lengths, from a session nobody knows, as plain fields, and back.

Which session they are from must be guessed: with 2-byte lengths, with 4-byte lengths (low latency), or with
compressed batches. The first of these that reads every byte is taken. They do not get in each other's way: a 4-byte
length and the first byte of a compressed batch both look like a transport OAM message to the other readers, and
nobody sends those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from zenspark.capture import lz4flex
from zenspark.errors import DecodeError, LimitExceeded, UsageError
from zenspark.transport.framing import COMPRESSED, Bytes, Deframer, LengthPrefix, decompress
from zenspark.wire import json_fields
from zenspark.wire.codec import decode_bare_batch, decode_batch, encode
from zenspark.wire.declare import Message
from zenspark.wire.messages import Close, Frame, KeepAlive, NetworkMessage, Push, Put, TransportMessage

MAX_LENGTH = 1 << 26
"""A longer batch is taken for garbage. In low-latency sessions eclipse-zenoh does send batches larger than agreed."""

HANDSHAKE = ("INIT_SYN", "INIT_ACK", "OPEN_SYN", "OPEN_ACK")


class Manner(NamedTuple):
    """How the batches of a link are to be read."""

    framing: LengthPrefix = LengthPrefix.U16
    compression: bool = False


MANNERS = (Manner(), Manner(LengthPrefix.U32), Manner(compression=True))
"""In the order they are tried."""


class Batch(msgspec.Struct, frozen=True):
    """One batch: where it begins in its stream, its bytes as sent and as meant."""

    start: int
    sent: Bytes
    content: Bytes

    @property
    def packed(self) -> bool:
        """Whether the content had to be unpacked: then its bytes have no place in the stream."""
        return self.content is not self.sent and self.sent[0] == COMPRESSED

    def place(self, begin: int, end: int) -> tuple[int, int]:
        """Where bytes of the content stand in the stream; somewhere in the batch if it was unpacked."""
        if self.packed:
            return self.start, self.start + len(self.sent)
        offset = self.start + len(self.sent) - len(self.content)
        return offset + begin, offset + end

    def placed(self, error: DecodeError) -> DecodeError:
        """The error with its position in the stream."""
        if self.packed:
            error.expected += f" (byte {error.position} of the unpacked batch)"
        error.position, _ = self.place(error.position, error.position)
        return error

    def messages(self, manner: Manner) -> tuple[Message, ...]:
        """What is in it."""
        decode = decode_bare_batch if manner.framing is LengthPrefix.U32 else decode_batch
        try:
            return decode(self.content)
        except DecodeError as error:
            raise self.placed(error) from None


# -- reading -----------------------------------------------------------------------------------------------------


def read(
    data: bytes, framing: LengthPrefix | None = None, compression: bool | None = None
) -> tuple[Manner, list[tuple[Batch, tuple[Message, ...]]]]:
    """The batches of a link and what is in them, and how they had to be read; what is known narrows the guess.

    If no manner of reading gets to the end, the error is that of the one that understood the most batches.
    """
    if not data:
        raise DecodeError("a batch", 0, "no bytes")
    wrong: list[tuple[int, DecodeError]] = []
    for manner in MANNERS:
        if framing in (None, manner.framing) and compression in (None, manner.compression):
            found = []
            try:
                for batch in batches(data, manner):
                    found.append((batch, batch.messages(manner)))
                return manner, found
            except DecodeError as error:
                wrong.append((len(found), error))
    if not wrong:
        raise UsageError("a session with 4-byte lengths has no compression")
    raise max(wrong, key=lambda attempt: attempt[0])[1]


def batches(data: Bytes, manner: Manner) -> Iterator[Batch]:
    """The batches of a link, read in one manner, to the last byte."""
    deframer = Deframer(manner.framing, MAX_LENGTH)
    deframer.receive_data(data)
    while (sent := next_batch(deframer)) is not None:
        yield unpacked(sent, manner, deframer.position - len(sent))
    if deframer.available:
        more = "1 more byte" if deframer.missing == 1 else f"{deframer.missing} more bytes"
        raise DecodeError(more, len(data), "the end")


def next_batch(deframer: Deframer) -> Bytes | None:
    """The next batch; a length that is too large is an error with a position."""
    try:
        return deframer.next_batch()
    except LimitExceeded as error:
        expected = f"a batch of at most {error.limit} bytes"
        raise DecodeError(expected, deframer.position, f"a length of {error.size}") from None


def unpacked(sent: Bytes, manner: Manner, start: int = 0) -> Batch:
    """The batch that was sent, whatever it was sent as."""
    if not manner.compression:
        return Batch(start, sent, sent)
    try:
        return Batch(start, sent, decompress(sent))
    except DecodeError as error:
        error.position += start
        raise


# -- fields ------------------------------------------------------------------------------------------------------


class PushFields(msgspec.Struct, forbid_unknown_fields=True):
    """What people want to see of a compressed batch: the one value in it."""

    key: str
    payload: str


class StreamFields(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A stream as fields; a batch inside `batches` is the same without `framing`."""

    framing: LengthPrefix | None = None
    batch_len: int | None = None
    compression_header: Literal[0, 1] | None = None
    decompressed: str | None = None
    messages: list[dict[str, Any]] | None = None
    push: PushFields | None = None
    batches: list[StreamFields] | None = None


def to_fields(data: bytes, framing: LengthPrefix | None = None, compression: bool | None = None) -> json_fields.Fields:
    """What the bytes of a link say."""
    manner, found = read(data, framing, compression)
    shown = [_batch_fields(batch, messages, manner) for batch, messages in found]
    if len(shown) == 1:
        shown[0].framing = manner.framing
        stream = shown[0]
    elif all(_is_handshake(batch.messages) for batch in shown):
        stream = StreamFields(manner.framing, messages=[one for batch in shown for one in batch.messages or ()])
    else:
        stream = StreamFields(manner.framing, batches=shown)
    return msgspec.to_builtins(stream)  # type: ignore[no-any-return]


def _is_handshake(messages: list[dict[str, Any]] | None) -> bool:
    return bool(messages) and all(message.get("msg") in HANDSHAKE for message in messages or ())


def _batch_fields(batch: Batch, messages: tuple[Message, ...], manner: Manner) -> StreamFields:
    fields = StreamFields(batch_len=len(batch.sent))
    if manner.compression and batch.sent:
        fields.compression_header = 1 if batch.packed else 0
        fields.decompressed = batch.content.hex() if batch.packed else None
        fields.push = _only_push(messages)
    if fields.push is None:
        fields.messages = [json_fields.to_fields(message) for message in messages]
    return fields


def _only_push(messages: tuple[Message, ...]) -> PushFields | None:
    match messages:
        case (Frame(msgs=(Push(body=Put(payload=payload), wire_expr=expr),)),) if expr.scope == 0:
            return PushFields(expr.suffix, payload.hex())
    return None


def from_fields(fields: object) -> bytes:
    """The bytes of a link that say this."""
    try:
        stream = msgspec.convert(fields, StreamFields)
    except msgspec.ValidationError as error:
        raise UsageError(f"fields: {error}") from None
    if stream.framing is None:
        raise UsageError("fields.framing is missing: u16 or u32")
    batches = stream.batches
    if batches is None and stream.batch_len is None and _is_handshake(stream.messages):
        batches = [StreamFields(messages=[message]) for message in stream.messages or ()]
    if batches is None:
        return _encode_batch(stream, stream.framing, "fields")
    return b"".join(_encode_batch(batch, stream.framing, f"fields.batches[{i}]") for i, batch in enumerate(batches))


def _encode_batch(fields: StreamFields, framing: LengthPrefix, path: str) -> bytes:
    content = _content(fields, framing, path)
    if fields.compression_header == COMPRESSED:
        content = lz4flex.compress(content)
    if fields.compression_header is not None:
        content = bytes([fields.compression_header]) + content
    if fields.batch_len not in (None, len(content)):
        raise UsageError(f"{path}.batch_len is {fields.batch_len}, but the batch comes to {len(content)} bytes")
    return framing.wrap(content)


def _content(fields: StreamFields, framing: LengthPrefix, path: str) -> bytes:
    if fields.decompressed is not None:
        try:
            return bytes.fromhex(fields.decompressed)
        except ValueError:
            raise UsageError(f"{path}.decompressed: expected hexadecimal text with two digits a byte") from None
    if fields.messages is None:
        hint = ": push has no sequence number of its frame" if fields.push else ""
        raise UsageError(f"{path}.messages is missing{hint}")
    found = [
        json_fields.from_fields(_family(message, framing), message, f"{path}.messages[{i}]")
        for i, message in enumerate(fields.messages)
    ]
    return b"".join(map(encode, found))


def _family(message: dict[str, Any], framing: LengthPrefix) -> type[Message]:
    bare = framing is LengthPrefix.U32 and message.get("msg") not in (KeepAlive.NAME, Close.NAME)
    return NetworkMessage if bare else TransportMessage
