"""The page Query: REQUEST and QUERY, their extensions, and a whole query, drawn by hand."""

from __future__ import annotations

import pytest

from tests.conformance.drawn import IN_REQUEST, STAMP, STAMP_BYTES, accepted, drawn, exact, refused, request
from zenspark.errors import EncodeError, UnknownExtension
from zenspark.transport.framing import LengthPrefix
from zenspark.wire.codec import decode_bare_batch, decode_batch, encode
from zenspark.wire.messages import Frame, Query, Request
from zenspark.wire.values import (
    Congestion,
    Consolidation,
    Encoding,
    Extension,
    Mapping,
    Priority,
    QoS,
    QueryBody,
    QueryTarget,
    SourceInfo,
    WireExpr,
    ZenohId,
)

SOURCE_BYTES = "07 30 c3 c2 c1 c0 06 09"
SOURCE = SourceInfo(ZenohId(0xC0C1C2C3), 6, 9)

# -- REQUEST -----------------------------------------------------------------------------------------------------


def test_request_as_drawn() -> None:
    """QU-13, QU-79: request id, scope, suffix, extensions, and then the QUERY."""
    text = f"""
        fc                   # Z M N
        80 01                # request_id 128
        ac 02                # key_scope 300
        02 2f 61             # key_suffix
        a1 0d                # QoS: Data, Block
        42 0b {STAMP_BYTES}
        03                   # QUERY
    """
    assert exact(text) == Request(
        request_id=128,
        wire_expr=WireExpr(300, "/a", Mapping.SENDER),
        qos=QoS.REQUEST,
        timestamp=STAMP,
        body=Query(),
    )


def test_request_body_is_query() -> None:
    """MR-159, QU-14: the body is there, and it is a QUERY."""
    assert exact(IN_REQUEST + "03") == request(Query())
    refused(IN_REQUEST, "a byte")


def test_request_id_has_32_bits() -> None:
    """MR-155, QU-9, QU-16: the request id is a variable-length integer of at most 32 bits, whatever resolution
    was agreed.
    """
    assert exact("1c ff ff ff ff 0f 00 03").request_id == 0xFFFFFFFF
    refused("1c 80 80 80 80 10 00 03", "at most 32 bits")


@pytest.mark.parametrize(("value", "target"), [(1, QueryTarget.ALL), (2, QueryTarget.ALL_COMPLETE)])
def test_query_target(value: int, target: QueryTarget) -> None:
    """QU-23, QU-30, QU-31, RO-15: extension 4, an integer, mandatory, specifies which queryables are meant."""
    assert exact(f"9c 00 00 34 {value:02x} 03").target is target


def test_query_target_defaults_to_best_matching() -> None:
    """QU-28, QU-29, RO-15: 0 is BestMatching, which is also meant when there is no target; then none is written."""
    assert accepted("9c 00 00 34 00 03").target is QueryTarget.BEST_MATCHING
    assert accepted("9c 00 00 34 00 03") == exact("1c 00 00 03")


def test_query_target_is_mandatory() -> None:
    """QU-23: with M clear it is another extension; a number without a name is refused."""
    optional = accepted("9c 00 00 24 01 03")
    assert (optional.target, optional.exts) == (QueryTarget.BEST_MATCHING, (Extension(0x24, 1),))
    refused("9c 00 00 34 03 03", "0 BestMatching, 1 All, 2 AllComplete")


def test_budget_has_32_bits_and_zero_is_no_budget() -> None:
    """QU-24, QU-35, QU-36: extension 5, an integer, not mandatory, of 32 bits; 0 is no budget, and neither is
    absence.
    """
    assert exact("9c 00 00 25 02 03").budget == 2
    assert exact("9c 00 00 25 ff ff ff ff 0f 03").budget == 0xFFFFFFFF
    refused("9c 00 00 25 80 80 80 80 10 03", "at most 32 bits")
    assert accepted("9c 00 00 25 00 03") == exact("1c 00 00 03")
    assert isinstance(refused("9c 00 00 35 02 03"), UnknownExtension)


def test_timeout_has_64_bits_and_absent_is_not_zero() -> None:
    """QU-25, QU-39: extension 6, an integer, not mandatory, of 64 bits: milliseconds; absent is not zero."""
    assert exact("9c 00 00 26 90 4e 03").timeout_ms == 10_000
    assert exact("9c 00 00 26 ff ff ff ff ff ff ff ff ff 03").timeout_ms == (1 << 64) - 1
    assert exact("9c 00 00 26 00 03").timeout_ms == 0
    assert exact("1c 00 00 03").timeout_ms is None
    assert isinstance(refused("9c 00 00 36 90 4e 03"), UnknownExtension)


EVERYTHING = Request(
    request_id=1,
    wire_expr=WireExpr(0, "q/a", Mapping.SENDER),
    qos=QoS.REQUEST,
    timestamp=STAMP,
    target=QueryTarget.ALL,
    budget=7,
    timeout_ms=10_000,
    node_id=1,
    body=Query(),
)
HEAD = "fc 01 00 03 71 2f 61 "


def test_request_extensions_in_the_order_of_the_page() -> None:
    """MR-158, QU-26, QU-80: QoS, Timestamp, NodeId, QueryTarget, Budget, Timeout are written in this order."""
    assert exact(f"{HEAD} a1 0d c2 0b {STAMP_BYTES} b3 01 b4 01 a5 07 26 90 4e 03") == EVERYTHING


def test_request_extensions_in_the_order_of_1_10_2() -> None:
    """MR-158, QU-26: NodeId is understood last as well, as in captured requests."""
    assert accepted(f"{HEAD} a1 0d c2 0b {STAMP_BYTES} b4 01 a5 07 a6 90 4e 33 01 03") == EVERYTHING
    captured = accepted("9c 01 03 a1 0d b4 01 a6 90 4e 33 01 23 03")
    assert (captured.target, captured.timeout_ms, captured.node_id) == (QueryTarget.ALL, 10_000, 1)


# -- QUERY -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", range(0, 0x100, 0x20))
def test_query_flags(flags: int) -> None:
    """MR-224 to MR-228, QU-44 to QU-48, QU-51 to QU-54: C, bit 5, announces a consolidation mode, P, bit 6,
    parameters, Z, bit 7, extensions, in this order.
    """
    mode = "02" if flags & 0x20 else ""
    parameters = "03 61 3d 31" if flags & 0x40 else ""
    extensions = "2e 05" if flags & 0x80 else ""
    assert exact(f"{IN_REQUEST} {flags | 3:02x} {mode} {parameters} {extensions}") == request(
        Query(
            consolidation=Consolidation.MONOTONIC if flags & 0x20 else Consolidation.AUTO,
            parameters="a=1" if flags & 0x40 else "",
            exts=(Extension(0x2E, 5),) if flags & 0x80 else (),
        )
    )


MODES = {0x01: Consolidation.NONE, 0x02: Consolidation.MONOTONIC, 0x03: Consolidation.LATEST}


@pytest.mark.parametrize("head", [IN_REQUEST + "23 {:02x}", "1b 00 00 24 {:02x} 02"])
@pytest.mark.parametrize("value", MODES)
def test_consolidation_modes(head: str, value: int) -> None:
    """MR-227, MR-234, QU-47, QU-57, QU-59, QU-61, RE-54: one byte, None, Monotonic or Latest."""
    assert exact(head.format(value)).body.consolidation is MODES[value]


@pytest.mark.parametrize(
    ("with_c", "without"), [("1c 00 00 23 00", "1c 00 00 03"), ("1b 00 00 24 00 02", "1b 00 00 04 02")]
)
def test_consolidation_defaults_to_auto(with_c: str, without: str) -> None:
    """QU-55, RE-54: 0 is Auto, which is also meant without C; then no byte is written."""
    assert accepted(with_c).body.consolidation is Consolidation.AUTO
    assert accepted(with_c) == exact(without)


def test_consolidation_is_resolved_before_sending() -> None:
    """QU-56: captured queries of a user who chose nothing specify Latest, or None if they request a range of time."""
    assert exact("fc 01 00 07 712f7372762f61 a1 0d 26 90 4e 23 03").body.consolidation is Consolidation.LATEST
    ranged = exact("fc 08 00 07 712f7372762f61 a1 0d 26 90 4e 63 01 12 5f74696d653d5b6e6f77282d3268292e2e5d")
    assert ranged.body == Query(consolidation=Consolidation.NONE, parameters="_time=[now(-2h)..]")


@pytest.mark.parametrize("text", ["a=1&b=2", "a=1;b=two", "no format at all", "==&&;;?", "é/温度", "nul\0inside"])
def test_parameters_are_any_text(text: str) -> None:
    """MR-228, QU-48, QU-50, QU-63, QU-64: parameters are UTF-8 behind a length, without an end mark, and the codec
    does not parse them.
    """
    raw = text.encode()
    assert exact(f"{IN_REQUEST} 43 {len(raw):02x} {raw.hex()}").body.parameters == text
    refused(f"{IN_REQUEST} 43 02 61 ff", "UTF-8")


def test_parameters_longer_than_65535_bytes_are_accepted() -> None:
    """MR-229, QU-49: a length above 65535, which the page does not have, is understood."""
    assert exact(f"{IN_REQUEST} 43 ff ff 03 {'61' * 0xFFFF}").body.parameters == "a" * 0xFFFF
    assert exact(f"{IN_REQUEST} 43 80 80 04 {'61' * 0x10000}").body.parameters == "a" * 0x10000


def test_parameters_of_a_capture_are_separated_by_semicolons() -> None:
    """QU-65: a captured query with two parameters has a semicolon between them."""
    captured = exact("fc 02 00 07 712f7372762f61 a1 0d 26 90 4e 63 03 09 613d313b623d74776f")
    assert captured.body.parameters == "a=1;b=two"


def test_query_source_info() -> None:
    """MR-230, QU-66: extension 1, bytes, not mandatory."""
    assert exact(f"{IN_REQUEST} 83 41 {SOURCE_BYTES}") == request(Query(source_info=SOURCE))
    assert isinstance(refused(f"{IN_REQUEST} 83 51 {SOURCE_BYTES}"), UnknownExtension)


def test_query_attachment_is_extension_5() -> None:
    """MR-230, QU-68: bytes, not mandatory, under number 5; under number 2 it would be another extension."""
    assert exact(f"{IN_REQUEST} 83 45 02 ab cd") == request(Query(attachment=b"\xab\xcd"))
    assert accepted(f"{IN_REQUEST} 83 42 02 ab cd").body.attachment is None
    assert isinstance(refused(f"{IN_REQUEST} 83 55 02 ab cd"), UnknownExtension)


def test_query_body_is_extension_3() -> None:
    """MR-230, MR-239, QU-67, QU-69: bytes, not mandatory: an encoding, with a schema if it has one, and a payload."""
    body = QueryBody(Encoding(4, "x"), b"body!")
    assert exact(f"{IN_REQUEST} 83 43 08 09 01 78 62 6f 64 79 21") == request(Query(body=body))
    assert isinstance(refused(f"{IN_REQUEST} 83 53 06 00 62 6f 64 79 21"), UnknownExtension)


def test_query_body_payload_has_no_length() -> None:
    """QU-70: the payload runs to the end of the extension; a length, which the page draws, would be part of it.

    Captured with encoding text/plain;utf-8, and with the default encoding, which is written here.
    """
    captured = exact("fc 0a 00 07 712f7372762f61 a1 0d 26 90 4e a3 03 43 0c 09 05 7574662d38 68656c6c6f")
    assert captured.body.body == QueryBody(Encoding(4, "utf-8"), b"hello")
    default = exact("fc 0b 00 07 712f7372762f61 a1 0d 26 90 4e a3 03 43 06 00 000102feff")
    assert default.body.body == QueryBody(Encoding(0), b"\x00\x01\x02\xfe\xff")
    as_the_page_has_it = accepted(f"{IN_REQUEST} 83 43 06 08 04 62 6f 64 79")
    assert as_the_page_has_it.body.body == QueryBody(Encoding(4), b"\x04body")


def test_query_shm_marker_is_an_extension_of_its_own() -> None:
    """MR-240, QU-71: the marker stands in the chain of the QUERY, before the body, not inside the body."""
    marked = exact(f"{IN_REQUEST} 83 84 43 03 00 01 02")
    assert marked.body == Query(shm=True, body=QueryBody(Encoding(0), b"\x01\x02"))


# -- a whole query -----------------------------------------------------------------------------------------------


def test_query_as_laid_out() -> None:
    """QU-3, QU-77 to QU-81: length, FRAME, REQUEST and QUERY, each with everything it can have, in the order of
    the layout.
    """
    batch = drawn(
        f"""
        a5 85 01 31 01                       # FRAME Z R, seq_num 133, priority RealTime
        fc 80 01 ac 02 02 2f 61              # REQUEST Z M N, request_id, key_scope, key_suffix
        a1 19 c2 0b {STAMP_BYTES}            # QoS, Timestamp
        b3 02 b4 02 a5 07 26 90 4e           # NodeId, Target, Budget, Timeout
        e3 02 03 61 3d 31                    # QUERY Z P C, consolidation, parameters
        c1 {SOURCE_BYTES} c3 03 08 68 69     # SourceInfo, QueryBody
        45 02 ab cd                          # Attachment
        """
    )
    [frame] = decode_batch(batch)
    assert frame == Frame(
        reliable=True,
        sn=133,
        priority=Priority.REAL_TIME,
        msgs=(
            Request(
                request_id=128,
                wire_expr=WireExpr(300, "/a", Mapping.SENDER),
                qos=QoS(Priority.REAL_TIME, Congestion.BLOCK, express=True),
                timestamp=STAMP,
                target=QueryTarget.ALL_COMPLETE,
                budget=7,
                timeout_ms=10_000,
                node_id=2,
                body=Query(
                    consolidation=Consolidation.MONOTONIC,
                    parameters="a=1",
                    source_info=SOURCE,
                    body=QueryBody(Encoding(4), b"hi"),
                    attachment=b"\xab\xcd",
                ),
            ),
        ),
    )
    assert LengthPrefix.U16.wrap(encode(frame)) == bytes([len(batch), 0]) + batch


def test_request_on_a_low_latency_session() -> None:
    """QU-4: a REQUEST may stand without FRAME."""
    data = drawn("fc 01 00 07 712f7372762f61 a1 0d 26 90 4e 23 03")
    [message] = decode_bare_batch(data)
    assert isinstance(message, Request)
    assert encode(message) == data


def test_numbers_that_do_not_fit_are_not_written() -> None:
    """MR-155, QU-9, QU-35: the encoder refuses what the field has no room for."""
    with pytest.raises(EncodeError, match=r"REQUEST\.request_id"):
        encode(Request(request_id=1 << 32, wire_expr=WireExpr(), body=Query()))
    with pytest.raises(EncodeError, match=r"REQUEST\.budget"):
        encode(Request(request_id=0, wire_expr=WireExpr(), budget=1 << 32, body=Query()))
