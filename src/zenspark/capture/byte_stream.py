"""Conversion between a raw byte stream of a link and JSON fields, without knowledge of its session.

The session parameters must be guessed: 2-byte lengths, 4-byte lengths (low latency), or compressed batches. The first
format that decodes every byte is used. They do not conflict: a 4-byte length and the first byte of a compressed batch
both look like a transport OAM message to the other formats, which no implementation sends.
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
from zenspark.wire.message_schema import Message
from zenspark.wire.messages import Close, Frame, KeepAlive, NetworkMessage, Push, Put, TransportMessage

MAX_CAPTURED_BATCH_BYTES = 1 << 26
"""Longest plausible batch. In low-latency sessions eclipse-zenoh sends batches larger than negotiated."""

HANDSHAKE_NAMES = ("INIT_SYN", "INIT_ACK", "OPEN_SYN", "OPEN_ACK")


class StreamFormat(NamedTuple):
    """Framing and compression of a stream."""

    framing: LengthPrefix = LengthPrefix.U16
    compression: bool = False


STREAM_FORMATS = (StreamFormat(), StreamFormat(LengthPrefix.U32), StreamFormat(compression=True))
"""Formats in the order they are tried."""


class Batch(msgspec.Struct, frozen=True):
    """One batch: its position in the stream, its bytes as sent and decompressed."""

    start: int
    sent: Bytes
    content: Bytes

    @property
    def is_compressed(self) -> bool:
        """Whether the content was decompressed: then its bytes have no position in the stream."""
        return self.content is not self.sent and self.sent[0] == COMPRESSED

    def stream_range(self, begin: int, end: int) -> tuple[int, int]:
        """Position in the stream of a range of the content; that of the whole batch if it was compressed."""
        if self.is_compressed:
            return self.start, self.start + len(self.sent)
        offset = self.start + len(self.sent) - len(self.content)
        return offset + begin, offset + end

    def locate_error(self, error: DecodeError) -> DecodeError:
        """The error with its position in the stream."""
        if self.is_compressed:
            error.expected += f" (byte {error.position} of the unpacked batch)"
        error.position, _ = self.stream_range(error.position, error.position)
        return error

    def messages(self, stream_format: StreamFormat) -> tuple[Message, ...]:
        """Decode the messages of the batch."""
        decode = decode_bare_batch if stream_format.framing is LengthPrefix.U32 else decode_batch
        try:
            return decode(self.content)
        except DecodeError as error:
            raise self.locate_error(error) from None


# -- reading -----------------------------------------------------------------------------------------------------


def read(
    data: bytes, framing: LengthPrefix | None = None, compression: bool | None = None
) -> tuple[StreamFormat, list[tuple[Batch, tuple[Message, ...]]]]:
    """Decode the batches of a stream; returns the format and the batches with their messages. Known parameters narrow
    the guess.

    If no format decodes everything, the error of the one that decoded the most batches is raised.
    """
    if not data:
        raise DecodeError("a batch", 0, "no bytes")
    failures: list[tuple[int, DecodeError]] = []
    for stream_format in STREAM_FORMATS:
        if framing in (None, stream_format.framing) and compression in (None, stream_format.compression):
            decoded = []
            try:
                for batch in batches(data, stream_format):
                    decoded.append((batch, batch.messages(stream_format)))
                return stream_format, decoded
            except DecodeError as error:
                failures.append((len(decoded), error))
    if not failures:
        raise UsageError("a session with 4-byte lengths has no compression")
    raise max(failures, key=lambda attempt: attempt[0])[1]


def batches(data: Bytes, stream_format: StreamFormat) -> Iterator[Batch]:
    """Batches of a stream in one format, to the last byte."""
    deframer = Deframer(stream_format.framing, MAX_CAPTURED_BATCH_BYTES)
    deframer.receive_data(data)
    while (sent := next_batch(deframer)) is not None:
        yield decompress_batch(sent, stream_format, deframer.position - len(sent))
    if deframer.available:
        more = "1 more byte" if deframer.missing == 1 else f"{deframer.missing} more bytes"
        raise DecodeError(more, len(data), "the end")


def next_batch(deframer: Deframer) -> Bytes | None:
    """The next batch; a length over the limit is an error with a position."""
    try:
        return deframer.next_batch()
    except LimitExceeded as error:
        expected = f"a batch of at most {error.limit} bytes"
        raise DecodeError(expected, deframer.position, f"a length of {error.size}") from None


def decompress_batch(sent: Bytes, stream_format: StreamFormat, start: int = 0) -> Batch:
    """The batch with its content decompressed if the format requires it."""
    if not stream_format.compression:
        return Batch(start, sent, sent)
    try:
        return Batch(start, sent, decompress(sent))
    except DecodeError as error:
        error.position += start
        raise


# -- fields ------------------------------------------------------------------------------------------------------


class PushFields(msgspec.Struct, forbid_unknown_fields=True):
    """Summary of a compressed batch with one PUT: key and payload."""

    key: str
    payload: str


class StreamFields(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A stream as JSON fields; a batch inside `batches` has the same fields without `framing`."""

    framing: LengthPrefix | None = None
    batch_len: int | None = None
    compression_header: Literal[0, 1] | None = None
    decompressed: str | None = None
    messages: list[dict[str, Any]] | None = None
    push: PushFields | None = None
    batches: list[StreamFields] | None = None


def stream_to_json_fields(
    data: bytes, framing: LengthPrefix | None = None, compression: bool | None = None
) -> json_fields.Fields:
    """Convert a stream to JSON fields."""
    stream_format, decoded = read(data, framing, compression)
    shown = [_batch_fields(batch, messages, stream_format) for batch, messages in decoded]
    if len(shown) == 1:
        shown[0].framing = stream_format.framing
        stream = shown[0]
    elif all(_is_handshake(batch.messages) for batch in shown):
        stream = StreamFields(
            stream_format.framing, messages=[message for batch in shown for message in batch.messages or ()]
        )
    else:
        stream = StreamFields(stream_format.framing, batches=shown)
    return msgspec.to_builtins(stream)  # type: ignore[no-any-return]


def _is_handshake(messages: list[dict[str, Any]] | None) -> bool:
    return bool(messages) and all(message.get("msg") in HANDSHAKE_NAMES for message in messages or ())


def _batch_fields(batch: Batch, messages: tuple[Message, ...], stream_format: StreamFormat) -> StreamFields:
    fields = StreamFields(batch_len=len(batch.sent))
    if stream_format.compression and batch.sent:
        fields.compression_header = 1 if batch.is_compressed else 0
        fields.decompressed = batch.content.hex() if batch.is_compressed else None
        fields.push = _single_push(messages)
    if fields.push is None:
        fields.messages = [json_fields.to_json_fields(message) for message in messages]
    return fields


def _single_push(messages: tuple[Message, ...]) -> PushFields | None:
    match messages:
        case (Frame(msgs=(Push(body=Put(payload=payload), wire_expr=expr),)),) if expr.scope == 0:
            return PushFields(expr.suffix, payload.hex())
    return None


def stream_from_json_fields(fields: object) -> bytes:
    """Convert JSON fields to the bytes of a stream."""
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
        raise UsageError(f"{path}.batch_len is {fields.batch_len}, but the batch has {len(content)} bytes")
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
    messages = [
        json_fields.from_json_fields(_family(message, framing), message, f"{path}.messages[{i}]")
        for i, message in enumerate(fields.messages)
    ]
    return b"".join(map(encode, messages))


def _family(message: dict[str, Any], framing: LengthPrefix) -> type[Message]:
    bare = framing is LengthPrefix.U32 and message.get("msg") not in (KeepAlive.NAME, Close.NAME)
    return NetworkMessage if bare else TransportMessage
