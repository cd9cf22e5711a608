"""Templates are encoded and decoded as the object codec does it, whatever the fields are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from zenspark.errors import DecodeError
from zenspark.wire import messages
from zenspark.wire import values as wire
from zenspark.wire._bytes import encode_vle
from zenspark.wire.codec import encode
from zenspark.wire.columns import BatchDecoder, Framing, PushColumns, StopReason
from zenspark.wire.message_schema import Message, replace
from zenspark.wire.templates import MAX_TEMPLATE_BYTES, MessageTemplate, TemplateDecoder, push_head, put_head

REQUEST = messages.Request(
    request_id=7, wire_expr=wire.WireExpr(0, "a/b"), timeout_ms=10_000, body=messages.Query(parameters="x=1")
)
REPLY = messages.Reply(body=messages.Put(payload=b"12345678", encoding=wire.Encoding(5)))
RESPONSE = messages.Response(
    request_id=7, wire_expr=wire.WireExpr(3, "b"), responder=wire.EntityId(wire.ZenohId(5), 6), body=REPLY
)
GONE = replace(RESPONSE, body=messages.Reply(body=messages.Del(timestamp=wire.Timestamp(1, wire.ZenohId(1)))))
ERROR = replace(RESPONSE, body=messages.Err(payload=b"no"))
FINAL = messages.ResponseFinal(request_id=7)
NUMBERS = [0, 127, 128, (1 << 28) - 1, 1 << 28, (1 << 32) - 1]


def read_all(template_decoder: TemplateDecoder, batch: bytes) -> list[Message]:
    """All messages of one batch, none of which is a publication."""
    decoder, columns, found = BatchDecoder(batch, Framing.BATCH), PushColumns(16), []
    while decoder.decode(columns) is StopReason.MESSAGE:
        found.append(template_decoder.read(decoder))
        columns.clear()
    return found


def framed(*sent: bytes) -> bytes:
    return b"\x25\x01" + b"".join(sent)


@pytest.mark.parametrize("message", [REQUEST, RESPONSE, GONE, ERROR, FINAL])
def test_messages_that_differ_only_in_their_request_id_are_decoded(message: messages.NetworkMessage) -> None:
    sent = [replace(message, request_id=number) for number in [*NUMBERS, *NUMBERS]]
    assert read_all(TemplateDecoder(), framed(*map(encode, sent))) == sent


@pytest.mark.parametrize("size", [0, 1, 127, 128, MAX_TEMPLATE_BYTES, 20_000])
def test_responses_that_differ_only_in_their_payload_are_decoded(size: int) -> None:
    other = replace(RESPONSE, body=replace(REPLY, body=messages.Put(payload=bytes(size), encoding=wire.Encoding(5))))
    sent = [RESPONSE, other, RESPONSE, replace(other, request_id=8), other]
    assert read_all(TemplateDecoder(), framed(*map(encode, sent))) == sent


@pytest.mark.slow
@strategies.examples(50)
@given(st.lists(strategies.messages(messages.Request) | strategies.messages(messages.Response), max_size=4))
def test_any_sequence_of_requests_and_responses_is_decoded(sent: list[messages.NetworkMessage]) -> None:
    repeated = [*sent, *sent, FINAL, *reversed(sent), REQUEST, RESPONSE]
    assert read_all(TemplateDecoder(), framed(*map(encode, repeated))) == repeated


def test_other_messages_between_requests_are_decoded() -> None:
    interest = messages.Interest(id=1, mode=wire.InterestMode.FINAL)
    sent = [interest, REQUEST, interest]
    batch = framed(*map(encode, sent)) + encode(messages.KeepAlive()) + framed(encode(REQUEST))
    assert read_all(TemplateDecoder(), batch) == [*sent, messages.KeepAlive(), REQUEST]


def test_a_request_that_differs_in_its_number_only_shares_the_body_of_the_last() -> None:
    first, second = read_all(TemplateDecoder(), framed(encode(REQUEST), encode(replace(REQUEST, request_id=8))))
    assert isinstance(first, messages.Request)
    assert isinstance(second, messages.Request)
    assert second.body is first.body


def test_non_canonical_length_is_decoded_beside_the_canonical_one() -> None:
    """A length may have more bytes than it needs."""
    usual = encode(RESPONSE)
    unusual = usual[:-9] + b"\x88\x00" + usual[-8:]
    assert read_all(TemplateDecoder(), framed(unusual, usual, unusual, usual)) == [RESPONSE] * 4


def test_truncated_message_after_its_template_is_a_decode_error() -> None:
    for sent in (REQUEST, RESPONSE):
        whole = encode(sent)
        for stop in range(1, len(whole)):
            template_decoder = TemplateDecoder()
            read_all(template_decoder, framed(whole))
            with pytest.raises(DecodeError):
                read_all(template_decoder, framed(whole, whole[:stop]))


def test_skip_outside_of_the_batch_raises_index_error() -> None:
    decoder = BatchDecoder(framed(encode(REQUEST)), Framing.BATCH)
    decoder.decode(PushColumns(16))
    decoder.skip(decoder.pos)
    for pos in (decoder.pos - 1, decoder.batch_end + 1):
        with pytest.raises(IndexError):
            decoder.skip(pos)
    decoder.skip(decoder.batch_end)
    assert decoder.decode(PushColumns(16)) is StopReason.END


# -- encoding ---

NUMBERED = (
    strategies.messages(messages.Request)
    | strategies.messages(messages.Response)
    | strategies.messages(messages.ResponseFinal)
)


@pytest.mark.slow
@given(NUMBERED)
def test_a_template_with_an_id_is_the_message(
    message: messages.Request | messages.Response | messages.ResponseFinal,
) -> None:
    template = MessageTemplate(message)
    for number in (message.request_id, *NUMBERS):
        assert template.with_id(number) == encode(replace(message, request_id=number))


@pytest.mark.slow
@given(strategies.messages(messages.Response), strategies.messages(messages.Reply), strategies.messages(messages.Put))
def test_a_template_that_ends_at_its_payload_takes_any_payload(
    response: messages.Response, reply: messages.Reply, put: messages.Put
) -> None:
    def with_payload(payload: bytes) -> messages.Response:
        return replace(response, body=replace(reply, body=replace(put, shm=False, payload=payload)))

    template = MessageTemplate(with_payload(b""), ends_at_payload=True)
    for payload in (b"", b"x", bytes(127), bytes(128), put.payload):
        head = template.with_id(response.request_id)
        assert head + encode_vle(len(payload)) + payload == encode(with_payload(payload))


@pytest.mark.slow
@given(strategies.messages(messages.Push))
def test_a_push_is_its_header_and_its_body(push: messages.Push) -> None:
    bare = messages.Push(wire_expr=push.wire_expr, qos=push.qos, node_id=push.node_id, body=push.body)
    like = messages.Push(wire_expr=wire.WireExpr(1), body=push.body)
    body = encode(like).removeprefix(push_head(like.wire_expr, like.qos))
    assert push_head(push.wire_expr, push.qos, push.node_id) + body == encode(bare)


@pytest.mark.slow
@given(strategies.messages(messages.Push), strategies.messages(messages.Put))
def test_a_put_is_its_head_and_its_payload(push: messages.Push, put: messages.Put) -> None:
    bare = messages.Put(encoding=put.encoding, payload=put.payload)
    head = put_head(push.wire_expr, push.qos, put.encoding)
    whole = encode(messages.Push(wire_expr=push.wire_expr, qos=push.qos, body=bare))
    assert head + encode_vle(len(put.payload)) + put.payload == whole
