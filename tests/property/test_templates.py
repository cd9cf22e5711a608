"""Templates and the object codec decode alike: whatever the bytes, the same messages, error and position.

The messages that the codec reads are counted: a message that differs from the last one of its kind only in request id
and payload must be decoded by its template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import strategies
from tests.property.twin_networks import count_calls
from tests.strategies import examples
from zenspark.errors import DecodeError
from zenspark.wire.codec import encode
from zenspark.wire.columns import BatchDecoder, Framing, PushColumns, StopReason
from zenspark.wire.columns import decoder as decoder_module
from zenspark.wire.message_schema import Message, replace
from zenspark.wire.messages import Frame, NetworkMessage, Put, Query, Reply, Request, Response, ResponseFinal
from zenspark.wire.templates import MAX_TEMPLATE_BYTES, TemplateDecoder
from zenspark.wire.values import EntityId, Extension, WireExpr, ZenohId

Numbered = Request | Response | ResponseFinal
KINDS: tuple[type[Numbered], ...] = (Request, Response, ResponseFinal)
REQUEST = Request(request_id=7, wire_expr=WireExpr(0, "a/b"), timeout_ms=10_000, body=Query(parameters="x=1"))
RESPONSE = Response(
    request_id=7,
    wire_expr=WireExpr(3, "b"),
    responder=EntityId(ZenohId(5), 6),
    body=Reply(body=Put(payload=b"12345678")),
)
PLAIN: list[Numbered] = [REQUEST, RESPONSE, ResponseFinal(request_id=7)]
CODEC_PATH = (decoder_module, "read_network_message")
"""What reads a message of a frame that no template matches."""

Read = Callable[[BatchDecoder], Message]
"""Reads the message at the position of a decoder."""


def read_batch(batch: bytes, read: Read) -> tuple[list[Message], object]:
    """Return the messages of a batch that are no publications, and where reading ended, with the error if it did."""
    decoder, columns = BatchDecoder(batch, Framing.BATCH), PushColumns(16)
    found: list[Message] = []
    reason = decoder.decode(columns)
    while reason is not StopReason.END:
        if reason is StopReason.MESSAGE:
            try:
                found.append(read(decoder))
            except DecodeError as error:
                return found, (type(error), error.expected, error.found, error.message, error.position, decoder.pos)
        columns.clear()
        reason = decoder.decode(columns)
    return found, decoder.pos


def framed(messages: Sequence[NetworkMessage]) -> bytes:
    return encode(Frame(reliable=True, sn=1, msgs=tuple(messages)))


def payload_of(message: Numbered) -> bytes | None:
    """Return the payload that may differ from the template's; None if there is none, or it is in shared memory."""
    put = message.body.body if isinstance(message, Response) and isinstance(message.body, Reply) else None
    return put.payload if isinstance(put, Put) and not put.shm else None


def with_payload(message: Numbered, payload: bytes) -> Numbered:
    """Replace the payload of a reply with a value; other messages stay as they are."""
    if payload_of(message) is None:
        return message
    assert isinstance(message, Response)
    assert isinstance(message.body, Reply)
    return replace(message, body=replace(message.body, body=replace(message.body.body, payload=payload)))


request_ids = strategies.integers(32)


@st.composite
def variants(draw: st.DrawFn, message: Numbered) -> Numbered:
    """The same message with another request id, and perhaps another payload."""
    changed = replace(message, request_id=draw(request_ids))
    return with_payload(changed, draw(strategies.blobs | st.just(bytes(2000)))) if draw(st.booleans()) else changed


def numbered(kind: type[Numbered]) -> st.SearchStrategy[Numbered]:
    return strategies.messages(kind)  # type: ignore[return-value]  # messages of that class


@st.composite
def batches(draw: st.DrawFn) -> list[Numbered]:
    """Messages of all kinds, many of them alike."""
    pool = draw(st.lists(st.sampled_from(KINDS).flatmap(numbered) | st.sampled_from(PLAIN), min_size=1, max_size=4))
    return draw(st.lists(st.sampled_from(pool).flatmap(variants), min_size=1, max_size=8))


class Damage:
    """A byte of a batch is changed, bytes are inserted or removed, or the batch ends early."""

    def __init__(self, at: int, removed: int, inserted: bytes, is_truncated: bool) -> None:
        self.at, self.removed, self.inserted, self.is_truncated = at, removed, inserted, is_truncated

    def __repr__(self) -> str:
        return f"Damage({self.at}, {self.removed}, {self.inserted!r}, {self.is_truncated})"

    def apply(self, batch: bytes) -> bytes:
        """Return the damaged batch; its frame header stays."""
        header = len(framed([]))
        at = header + self.at % (len(batch) - header)
        rest = b"" if self.is_truncated else batch[at + self.removed :]
        return batch[:at] + self.inserted + rest


damages = st.builds(Damage, st.integers(0, 500), st.integers(0, 2), st.binary(max_size=2), st.booleans())
LONGER_LENGTH = Damage(len(encode(RESPONSE)) - 9, 1, b"\x88\x00", False)
"""The payload's length of 8 in two bytes instead of one."""


@given(batches(), batches(), st.lists(damages, max_size=8))
@example([RESPONSE], [RESPONSE], [LONGER_LENGTH, Damage(30, 0, b"", True)])
@examples(150)
def test_templates_and_codec_decode_the_same(
    first: list[Numbered], later: list[Numbered], drawn_damages: list[Damage]
) -> None:
    """Batches that make templates, and then ones that are damaged, and may or may not match."""
    template_decoder = TemplateDecoder()
    damaged = [damage.apply(framed(later)) for damage in drawn_damages]
    for batch in (framed(first), framed(later), *damaged, framed(first)):
        assert read_batch(batch, template_decoder.read) == read_batch(batch, BatchDecoder.message)


@given(batches(), st.binary(max_size=60))
@examples(100)
def test_templates_and_codec_decode_any_bytes_the_same(first: list[Numbered], noise: bytes) -> None:
    template_decoder = TemplateDecoder()
    for batch in (framed(first), framed([]) + noise, framed(first) + noise, framed(first)):
        assert read_batch(batch, template_decoder.read) == read_batch(batch, BatchDecoder.message)


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
@examples(60)
def test_messages_that_differ_in_request_id_and_payload_only_are_decoded_by_template(
    kind: type[Numbered], data: st.DataObject
) -> None:
    message = data.draw(numbered(kind) | st.sampled_from([each for each in PLAIN if isinstance(each, kind)]))
    sent = data.draw(st.lists(variants(message), min_size=2, max_size=6))
    with count_calls(CODEC_PATH) as calls:
        found, _ = read_batch(framed(sent), TemplateDecoder().read)
    assert found == sent
    assert calls["read_network_message"] == messages_before_template(sent)
    with count_calls(CODEC_PATH) as calls:
        assert read_batch(framed(sent), BatchDecoder.message)[0] == sent
    assert calls["read_network_message"] == len(sent)


def messages_before_template(sent: list[Numbered]) -> int:
    """Return how many of these messages are read up to the first that becomes the template of the others."""
    for count, message in enumerate(sent, 1):
        if len(encode(message)) <= MAX_TEMPLATE_BYTES:
            return count
    return len(sent)


def test_a_reply_in_shared_memory_matches_no_template_of_another() -> None:
    def reply(extension: int, slices: bytes) -> Response:
        put = Put(shm=True, exts=(Extension(extension, None),), payload=slices)
        return replace(RESPONSE, body=Reply(body=put))

    template_decoder = TemplateDecoder()
    for message in (reply(1, b"\0"), reply(2, b"\1\0\3abc")):
        batch = framed([message])
        assert read_batch(batch, template_decoder.read) == read_batch(batch, BatchDecoder.message)
