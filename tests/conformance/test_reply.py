"""The page Reply: RESPONSE, RESPONSE_FINAL, REPLY and ERR, and whole replies, drawn by hand."""

from __future__ import annotations

import pytest

from tests.conformance.drawn import (
    IN_REPLY,
    IN_RESPONSE,
    STAMP,
    STAMP_BYTES,
    accepted,
    drawn,
    exact,
    refused,
    response,
)
from zenspark.errors import UnknownExtension
from zenspark.transport.framing import LengthPrefix
from zenspark.wire.codec import decode_bare_batch, decode_batch, encode
from zenspark.wire.messages import Del, Err, Frame, Put, Reply, Response, ResponseFinal
from zenspark.wire.values import (
    Congestion,
    Consolidation,
    Encoding,
    EntityId,
    Extension,
    Mapping,
    Priority,
    QoS,
    SourceInfo,
    WireExpr,
    ZenohId,
)

SOURCE_BYTES = "07 30 c3 c2 c1 c0 06 09"
SOURCE = SourceInfo(ZenohId(0xC0C1C2C3), 6, 9)
RESPONDER_BYTES = "06 30 c3 c2 c1 c0 06"
RESPONDER = EntityId(ZenohId(0xC0C1C2C3), 6)

# -- RESPONSE ----------------------------------------------------------------------------------------------------


def test_response_as_drawn() -> None:
    """MR-167, RE-21: request id, scope, suffix, extensions, and then the body."""
    text = f"""
        fb                   # Z M N
        80 01                # request_id 128
        ac 02                # key_scope 300
        02 2f 61             # key_suffix
        a1 0d                # QoS
        c2 0b {STAMP_BYTES}
        43 {RESPONDER_BYTES}
        05 00                # ERR
    """
    assert exact(text) == Response(
        request_id=128,
        wire_expr=WireExpr(300, "/a", Mapping.SENDER),
        qos=QoS.REQUEST,
        timestamp=STAMP,
        responder=RESPONDER,
        body=Err(payload=b""),
    )


def test_response_body_is_reply_or_err() -> None:
    """MR-168, RE-1, RE-10, RE-22: the body's own header specifies which of the two it is; one of them is required."""
    assert exact(IN_RESPONSE + "04 02") == response(Reply(body=Del()))
    assert exact(IN_RESPONSE + "05 00") == response(Err(payload=b""))
    refused(IN_RESPONSE, "a byte")


@pytest.mark.parametrize("text", ["1b {} 00 05 00", "1a {}"])
def test_response_request_id_has_32_bits(text: str) -> None:
    """MR-163, MR-176, RE-16, RE-40: the request id is a variable-length integer of at most 32 bits."""
    assert exact(text.format("ff ff ff ff 0f")).request_id == 0xFFFFFFFF
    refused(text.format("80 80 80 80 10"), "at most 32 bits")


def test_responder_id() -> None:
    """MR-169, MR-170, RE-28, RE-30: extension 3, bytes, not mandatory: id length in bits 7:4, the id, and the
    entity.
    """
    assert exact(f"9b 00 00 43 {RESPONDER_BYTES} 05 00").responder == RESPONDER
    assert accepted("9b 00 00 43 06 3f c3 c2 c1 c0 06 05 00").responder == RESPONDER
    assert exact("1b 00 00 05 00").responder is None
    assert isinstance(refused(f"9b 00 00 53 {RESPONDER_BYTES} 05 00"), UnknownExtension)


@pytest.mark.parametrize("size", range(1, 17))
def test_responder_zid_length(size: int) -> None:
    """MR-170, MR-171, RE-30, RE-31: the id of a responder has one byte more than bits 7:4 specify."""
    raw = bytes(range(1, size + 1))
    message = exact(f"9b 00 00 43 {size + 2:02x} {(size - 1) << 4:02x} {raw.hex()} 06 05 00")
    assert message.responder == EntityId(ZenohId(int.from_bytes(raw, "little")), 6)


def test_responder_entity_has_32_bits() -> None:
    """MR-172, RE-32: the entity is a variable-length integer of at most 32 bits."""
    message = exact("9b 00 00 43 07 00 07 ff ff ff ff 0f 05 00")
    assert message.responder == EntityId(ZenohId(7), 0xFFFFFFFF)
    refused("9b 00 00 43 07 00 07 80 80 80 80 10 05 00", "at most 32 bits")


def test_response_without_key() -> None:
    """RE-19: the error a router makes when a queryable is silent, captured, has an empty key expression."""
    message = exact("db 01 00 a1 0d 43 03 00 e5 00 05 07 54696d656f7574")
    assert message.wire_expr == WireExpr(0, "", Mapping.SENDER)
    assert message.body == Err(payload=b"Timeout")


# -- RESPONSE_FINAL ----------------------------------------------------------------------------------------------


def test_response_final_as_drawn() -> None:
    """MR-175, MR-178, RE-39, RE-42 to RE-44: a request id, and with Z extensions, of which QoS and Timestamp
    are known.
    """
    assert exact("1a 80 01") == ResponseFinal(request_id=128)
    both = f"9a 80 01 a1 0d 42 0b {STAMP_BYTES}"
    assert exact(both) == ResponseFinal(request_id=128, qos=QoS.REQUEST, timestamp=STAMP)
    assert exact("9a 80 01 2e 05").exts == (Extension(0x2E, 5),)
    refused("1a 80 01 00", "the end of the message")


# -- REPLY -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [0x00, 0x20, 0x80, 0xA0])
def test_reply_flags(flags: int) -> None:
    """MR-231, MR-233 to MR-235, RE-47, RE-49 to RE-52, RE-70: C, bit 5, announces a consolidation mode, Z, bit
    7, extensions; then the value begins.
    """
    mode = "03" if flags & 0x20 else ""
    extensions = "2e 05" if flags & 0x80 else ""
    assert exact(f"{IN_RESPONSE} {flags | 4:02x} {mode} {extensions} 01 01 78") == response(
        Reply(
            consolidation=Consolidation.LATEST if flags & 0x20 else Consolidation.AUTO,
            exts=(Extension(0x2E, 5),) if flags & 0x80 else (),
            body=Put(payload=b"x"),
        )
    )


def test_reply_body_is_put_or_del() -> None:
    """MR-209, MR-236, RE-4, RE-46, RE-53: the value has a header of its own, and everything a publication can have."""
    assert exact(IN_REPLY + "02") == response(Reply(body=Del()))
    put = Put(timestamp=STAMP, encoding=Encoding(4), source_info=SOURCE, attachment=b"\xab", payload=b"x")
    full = f"{IN_REPLY} e1 {STAMP_BYTES} 08 c1 {SOURCE_BYTES} 43 01 ab 01 78"
    assert exact(full) == response(Reply(body=put))
    refused(IN_REPLY, "a byte")


def test_reply_of_a_capture_has_no_consolidation() -> None:
    """RE-50: captured replies never set C; one that does is understood."""
    captured = exact("fb 11 00 07 712f7372762f61 a1 0d 43 06 30 a3a2a1a0 06 04 01 05 68656c6c6f")
    assert captured.body == Reply(body=Put(payload=b"hello"))
    assert exact(IN_RESPONSE + "24 01 02").body == Reply(consolidation=Consolidation.NONE, body=Del())


# -- ERR ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [0x00, 0x40, 0x80, 0xC0])
def test_err_flags(flags: int) -> None:
    """RE-5, RE-56, RE-57, RE-59 to RE-64: E, bit 6, announces an encoding, Z, bit 7, extensions; then the
    payload behind its length.
    """
    encoding = "08" if flags & 0x40 else ""
    extensions = "2e 05" if flags & 0x80 else ""
    assert exact(f"{IN_RESPONSE} {flags | 5:02x} {encoding} {extensions} 04 62 6f 6f 6d") == response(
        Err(
            encoding=Encoding(4) if flags & 0x40 else Encoding.BYTES,
            exts=(Extension(0x2E, 5),) if flags & 0x80 else (),
            payload=b"boom",
        )
    )


def test_err_source_info() -> None:
    """RE-65: extension 1, bytes, not mandatory."""
    assert exact(f"{IN_RESPONSE} 85 41 {SOURCE_BYTES} 00") == response(Err(source_info=SOURCE, payload=b""))
    assert isinstance(refused(f"{IN_RESPONSE} 85 51 {SOURCE_BYTES} 00"), UnknownExtension)


def test_err_shm_marker() -> None:
    """RE-66, RE-75: extension 2 without content, mandatory; with M clear it is another extension."""
    assert exact(IN_RESPONSE + "85 12 01 00 01 78").body.shm is True
    plain = accepted(IN_RESPONSE + "85 02 01 78").body
    assert (plain.shm, plain.payload, plain.exts) == (False, b"x", (Extension(0x02),))


# -- whole replies -----------------------------------------------------------------------------------------------

PUT_REPLY = f"""
    a5 85 01 31 01                                  # FRAME Z R, seq_num 133, priority RealTime
    fb 80 01 ac 02 02 2f 61                         # RESPONSE Z M N, request_id, key_scope, key_suffix
    a1 19 c2 0b {STAMP_BYTES} 43 {RESPONDER_BYTES}  # QoS, Timestamp, ResponderId
    24 03                                           # REPLY C, consolidation
    e1 {STAMP_BYTES} 08                             # PUT Z E T, timestamp, encoding
    c1 {SOURCE_BYTES} 43 02 ab cd                   # SourceInfo, Attachment
    05 68 65 6c 6c 6f                               # payload
"""
FINAL = f"""
    a5 86 01 31 01                                  # FRAME, seq_num 134
    9a 80 01                                        # RESPONSE_FINAL Z, request_id
    a1 19 42 0b {STAMP_BYTES}                       # QoS, Timestamp
"""
URGENT = QoS(Priority.REAL_TIME, Congestion.BLOCK, express=True)


def test_reply_as_laid_out() -> None:
    """RE-6, RE-46, RE-67 to RE-71: length, FRAME, RESPONSE, REPLY and PUT, each with everything it can have, in
    the order of the layout.
    """
    batch = drawn(PUT_REPLY)
    [frame] = decode_batch(batch)
    put = Put(timestamp=STAMP, encoding=Encoding(4), source_info=SOURCE, attachment=b"\xab\xcd", payload=b"hello")
    assert frame == Frame(
        reliable=True,
        sn=133,
        priority=Priority.REAL_TIME,
        msgs=(
            Response(
                request_id=128,
                wire_expr=WireExpr(300, "/a", Mapping.SENDER),
                qos=URGENT,
                timestamp=STAMP,
                responder=RESPONDER,
                body=Reply(consolidation=Consolidation.LATEST, body=put),
            ),
        ),
    )
    assert LengthPrefix.U16.wrap(encode(frame)) == bytes([len(batch), 0]) + batch


def test_final_as_laid_out() -> None:
    """RE-7, RE-72, RE-73: a FRAME of its own with RESPONSE_FINAL, the same request id, QoS and Timestamp."""
    assert exact(FINAL) == Frame(
        reliable=True,
        sn=134,
        priority=Priority.REAL_TIME,
        msgs=(ResponseFinal(request_id=128, qos=URGENT, timestamp=STAMP),),
    )


def test_final_in_the_frame_of_the_last_response() -> None:
    """RE-73: captured: RESPONSE_FINAL right behind the last RESPONSE, in one FRAME."""
    frame = exact("25 a6988503 fb 01 00 07 712f7372762f31 a1 0d 43 06 30 a3a2a1a0 06 04 01 05 000102feff 9a 01 21 0d")
    assert [type(message) for message in frame.msgs] == [Response, ResponseFinal]
    assert {message.request_id for message in frame.msgs} == {1}


def test_error_as_laid_out() -> None:
    """RE-10, RE-74, RE-75: RESPONSE and ERR, each with everything it can have, in the order of the layout."""
    text = f"""
        fb 80 01 ac 02 02 2f 61                         # RESPONSE Z M N, request_id, key_scope, key_suffix
        a1 19 c2 0b {STAMP_BYTES} 43 {RESPONDER_BYTES}  # QoS, Timestamp, ResponderId
        c5 08                                           # ERR Z E, encoding
        41 {SOURCE_BYTES}                               # SourceInfo
        04 62 6f 6f 6d                                  # payload
    """
    assert exact(text) == Response(
        request_id=128,
        wire_expr=WireExpr(300, "/a", Mapping.SENDER),
        qos=URGENT,
        timestamp=STAMP,
        responder=RESPONDER,
        body=Err(encoding=Encoding(4), source_info=SOURCE, payload=b"boom"),
    )


def test_replies_on_a_low_latency_session() -> None:
    """RE-9: RESPONSE and RESPONSE_FINAL may stand without FRAME."""
    data = drawn("1b 01 00 05 00 1a 01")
    found = decode_bare_batch(data)
    assert [type(message) for message in found] == [Response, ResponseFinal]
    assert b"".join(map(encode, found)) == data
