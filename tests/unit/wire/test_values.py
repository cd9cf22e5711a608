import ctypes
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import VALUES, examples
from zenspark.errors import DecodeError, EncodeError, UnknownExtension
from zenspark.wire.buffer import Reader, Writer
from zenspark.wire.message_schema import Value
from zenspark.wire.values import (
    BoundExpr,
    Congestion,
    Consolidation,
    Encoding,
    EntityId,
    Extension,
    InterestMode,
    Locator,
    Mapping,
    NextSns,
    Priority,
    QoS,
    QueryableInfo,
    QueryBody,
    QueryTarget,
    Resolution,
    Roles,
    SourceInfo,
    Timestamp,
    TimestampRecord,
    TimestampStack,
    TimeUnit,
    WhatAmI,
    WireExpr,
    ZenohId,
    read_extensions,
    read_payload,
    read_weights,
    write_extensions,
    write_payload,
    write_weights,
)

ZID = ZenohId(0xC0C1C2C3)


def reader_of(text: str) -> Reader:
    return Reader(bytes.fromhex(text))


def written(write: Callable[[Writer], object]) -> str:
    out = Writer()
    write(out)
    return bytes(out.data).hex()


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
@examples(20)
@given(data=st.data())
def test_values_are_immutable_and_round_trip(kind: type, data: st.DataObject) -> None:
    value = data.draw(VALUES[kind])
    assert pickle.loads(pickle.dumps(value)) == value
    if isinstance(value, Value):
        with pytest.raises(AttributeError):
            setattr(value, value.__struct_fields__[0], None)
    if hasattr(value, "to_wire"):
        assert kind.from_wire(0, value.to_wire()) == value  # type: ignore[attr-defined]
        assert value.to_wire() < 1 << 64
    elif not getattr(kind, "FLAGS", None):
        reader = reader_of(written(value.write))
        assert kind.read(reader) == value  # type: ignore[attr-defined]
        assert not reader.left()


# -- enumerations ---


@pytest.mark.parametrize(
    ("member", "text"),
    [
        (WhatAmI.ROUTER, "router"),
        (Priority.REAL_TIME, "real_time"),
        (Congestion.BLOCK_FIRST, "block_first"),
        (TimeUnit.MS, "ms"),
        (InterestMode.CURRENT_FUTURE, "CurrentFuture"),
        (QueryTarget.ALL_COMPLETE, "AllComplete"),
        (Consolidation.MONOTONIC, "Monotonic"),
        (Mapping.SENDER, "sender"),
    ],
)
def test_members_have_a_spelling(member: WhatAmI, text: str) -> None:
    assert member.text == text
    assert type(member).from_wire(0, member.to_wire()) is member


@pytest.mark.parametrize(("kind", "number"), [(WhatAmI, 3), (QueryTarget, 9), (TimeUnit, 2), (Mapping, 2)])
def test_unknown_members_are_rejected(kind: type[WhatAmI], number: int) -> None:
    with pytest.raises(DecodeError) as caught:
        kind.from_wire(4, number)
    assert (caught.value.position, caught.value.found) == (4, str(number))


def test_unknown_role_error_lists_the_known_ones() -> None:
    with pytest.raises(DecodeError, match="expected one of 0 router, 1 peer, 2 client at byte 4, found 3"):
        WhatAmI.from_wire(4, 3)


def test_unknown_consolidation_is_auto() -> None:
    assert Consolidation.from_wire(0, 9) is Consolidation.AUTO


def test_reserved_bits_of_a_priority_are_ignored() -> None:
    assert Priority.from_wire(0, 0xF8 | 5) is Priority.DATA


def test_roles_have_a_bit_each() -> None:
    assert [role.bit for role in WhatAmI] == [1, 2, 4]


def test_scout_requests_at_least_one_role() -> None:
    assert Roles.from_wire(0, 3) == 3
    with pytest.raises(DecodeError, match="at least one role"):
        Roles.from_wire(2, 0)


@pytest.mark.parametrize("what", [0, 8, -1, 300])
def test_roles_outside_the_bitmap_are_not_written(what: int) -> None:
    with pytest.raises(EncodeError, match=f"what: {what} is not a set of roles"):
        Roles(what).to_wire()


@pytest.mark.parametrize(("code", "mask"), [(0, 0x7F), (1, 0x3FFF), (2, 0x0FFF_FFFF), (3, 0xFFFF_FFFF)])
def test_resolution_has_its_sequence_number_mask(code: int, mask: int) -> None:
    assert Resolution(code).mask == mask
    assert 102_766_003 & Resolution.BITS_8.mask == 51


# -- extensions ---


@pytest.mark.parametrize(
    ("extension", "wire", "fields"),
    [
        (Extension(0x0F), "0f", (15, "unit", False)),
        (Extension(0x31, 5), "3105", (1, "z64", True)),
        (Extension(0x47, b"\xaa\xbb"), "4702aabb", (7, "zbuf", False)),
    ],
)
def test_unknown_extensions_round_trip(extension: Extension, wire: str, fields: tuple[int, str, bool]) -> None:
    out = Writer()
    out.u8(0x04, "")
    assert extension.write(out, 0) == 1
    assert bytes(out.data).hex() == "84" + wire
    reader = reader_of(wire)
    assert Extension.read(reader, reader.u8(), False) == extension
    assert (extension.id, extension.enc, extension.mandatory) == fields


def test_unknown_mandatory_extensions_are_rejected_if_strict() -> None:
    reader = reader_of("311f")
    assert Extension.read(reader, reader.u8(), False) == Extension(0x31, 31)
    reader = reader_of("311f")
    with pytest.raises(UnknownExtension) as caught:
        Extension.read(reader, reader.u8(), True)
    assert (caught.value.extension, caught.value.position) == (1, 0)


@pytest.mark.parametrize("header", [0x60, 0x6F, 0x7F])
def test_extension_encoding_3_is_a_decode_error(header: int) -> None:
    reader = Reader(bytes([header]))
    with pytest.raises(DecodeError, match=f"found 3 in extension 0x{header & 0x0F:x}"):
        Extension.read(reader, reader.u8(), False)


@pytest.mark.parametrize(
    ("extension", "problem"),
    [
        (Extension(0x60), "exts: 0x60 is not an extension header"),
        (Extension(-1), "exts: 0x-1 is not an extension header"),
        (Extension(0x0F, 1), "exts: extension 0xf cannot carry a value"),
        (Extension(0x2F), "exts: expected an integer, got NoneType"),
        (Extension(0x2F, 1 << 64), "exts: 18446744073709551616 does not fit 64 bits"),
        (Extension(0x4F, 1), "exts: expected bytes, got int"),
    ],
)
def test_extensions_that_cannot_be_written(extension: Extension, problem: str) -> None:
    out = Writer()
    out.u8(4, "")
    with pytest.raises(EncodeError) as caught:
        extension.write(out, 0)
    assert str(caught.value) == problem


def test_reads_a_nested_chain() -> None:
    # the reply of usrpwd authentication in an InitAck, section 6.4
    assert read_extensions(reader_of("228c8fe2ddebddb7901d")) == (Extension(0x22, 0x1D20DEEEBBB8878C),)
    assert read_extensions(reader_of("8202")) == (Extension(0x02), Extension(0x02))
    with pytest.raises(DecodeError, match="a byte"):
        read_extensions(reader_of("82"))


@pytest.mark.parametrize(
    ("extensions", "wire"),
    [
        ((Extension(0x22, 0x1D20DEEEBBB8878C),), "228c8fe2ddebddb7901d"),
        ((Extension(0x02), Extension(0x42, b"\xaa"), Extension(0x02)), "82c201aa02"),
    ],
)
def test_writes_a_nested_chain(extensions: tuple[Extension, ...], wire: str) -> None:
    out = Writer()
    write_extensions(out, extensions)
    assert bytes(out.data).hex() == wire
    assert read_extensions(Reader(bytes(out.data))) == extensions


def test_a_nested_chain_has_only_extensions_that_can_be_written() -> None:
    with pytest.raises(EncodeError, match="exts: 0x82 is not an extension header"):
        write_extensions(Writer(), (Extension(0x82), Extension(0x02)))


# -- ids and clock readings ---


@pytest.mark.parametrize(
    ("text", "wire"),
    [
        ("7", "07"),
        ("c0c1c2c3", "c3c2c1c0"),
        ("100", "0001"),
        ("f0112233445566778899aabbccddeeff", "ffeeddccbbaa998877665544332211f0"),
    ],
)
def test_ids_are_little_endian_on_the_wire_and_hexadecimal_in_text(text: str, wire: str) -> None:
    zid = ZenohId.parse(text)
    assert str(zid) == text
    assert zid.to_bytes().hex() == wire
    assert zid.size == len(wire) // 2
    assert ZenohId.from_bytes(bytes.fromhex(wire)) == zid
    assert written(zid.write) == f"{zid.size:02x}{wire}"
    assert written(zid.write_sized) == wire
    assert ZenohId.read_sized(reader_of(wire), zid.size) == zid


@pytest.mark.parametrize("text", ["", "0", "07", "C0", "0x7", "g", "-7", " 7", "1" * 33, "٣"])
def test_only_one_spelling_of_an_id_is_valid(text: str) -> None:
    with pytest.raises(EncodeError, match="is not 1 to 32 lower-case hexadecimal digits"):
        ZenohId.parse(text)


@pytest.mark.parametrize("wire", ["00", "0100", "020000", "11" + "ff" * 17])
def test_an_id_is_not_zero_and_not_too_long(wire: str) -> None:
    with pytest.raises(DecodeError, match="a node id of 1 to 16 bytes that is not zero at byte 0"):
        ZenohId.read(reader_of(wire))


@pytest.mark.parametrize("value", [0, -1, 1 << 128])
def test_an_id_that_cannot_be_written(value: int) -> None:
    with pytest.raises(EncodeError, match=f"zid: {value} is not a node id"):
        ZenohId(value).to_bytes()
    with pytest.raises(EncodeError, match=f"zid: {value} is not a node id"):
        _ = ZenohId(value).size


def test_timestamp_is_encoded_as_in_the_protocol() -> None:
    stamp = Timestamp(7_386_664_595_088_445_305, ZenohId(0x33))
    assert written(stamp.write) == "f99ece89828aadc1660133"
    assert Timestamp.read(reader_of("f99ece89828aadc1660133")) == stamp
    assert str(stamp) == "7386664595088445305/33"
    assert stamp.unix_ns == 1_719_841_872_129_693_000


def test_timestamps_are_ordered_by_time_then_by_id() -> None:
    early, late, latest = Timestamp(1, ZenohId(0x100)), Timestamp(2, ZenohId(0x7)), Timestamp(2, ZenohId(0x100))
    assert sorted([latest, early, late]) == [early, late, latest]


def test_a_timestamp_without_an_id_is_rejected() -> None:
    with pytest.raises(DecodeError, match="at byte 1, found nothing"):
        Timestamp.read(reader_of("0100"))


@pytest.mark.parametrize("ntp64", [-1, 1 << 64])
def test_a_clock_reading_has_64_bits(ntp64: int) -> None:
    with pytest.raises(EncodeError, match=r"ntp64: .* does not fit 64 bits"):
        Timestamp(ntp64, ZID).write(Writer())


# -- encodings ---

NAMES = """
    zenoh/bytes zenoh/string zenoh/serialized application/octet-stream text/plain application/json text/json
    application/cdr application/cbor application/yaml text/yaml text/json5 application/python-serialized-object
    application/protobuf application/java-serialized-object application/openmetrics-text image/png image/jpeg
    image/gif image/bmp image/webp application/xml application/x-www-form-urlencoded text/html text/xml text/css
    text/javascript text/markdown text/csv application/sql application/coap-payload application/json-patch+json
    application/json-seq application/jsonpath application/jwt application/mp4 application/soap+xml application/yang
    audio/aac audio/flac audio/mp4 audio/ogg audio/vorbis video/h261 video/h263 video/h264 video/h265 video/h266
    video/mp4 video/ogg video/raw video/vp8 video/vp9
"""
WELL_KNOWN = NAMES.split()  # in the order of their numbers, section 1.5


def test_there_are_as_many_encodings_as_the_protocol_lists() -> None:
    assert len(WELL_KNOWN) == len(Encoding.NAMES) == 53


@pytest.mark.parametrize(("number", "name"), [*enumerate(WELL_KNOWN)])
def test_well_known_encodings(number: int, name: str) -> None:
    assert Encoding.parse(name) == Encoding(number)
    assert str(Encoding(number)) == name


@pytest.mark.parametrize(
    ("text", "wire"),
    [
        ("zenoh/bytes", "00"),
        ("text/plain", "08"),
        ("text/plain;utf-8", "09057574662d38"),
        ("text/plain;", "08"),
        ("zenoh/bytes;x", "010178"),
        ("my/enc;v1", "ffff07096d792f656e633b7631"),
        ("text/PLAIN", "ffff070a746578742f504c41494e"),
        (";", "ffff07013b"),
        ("text/plain;a;b", "0903613b62"),
    ],
)
def test_encodings_as_text_and_as_bytes(text: str, wire: str) -> None:
    encoding = Encoding.parse(text)
    assert written(encoding.write) == wire
    assert Encoding.read(reader_of(wire)) == encoding
    assert str(encoding) in (text, text.rstrip(";"))


@pytest.mark.parametrize("text", ["", "zenoh/bytes", "zenoh/bytes;"])
def test_empty_text_and_zenoh_bytes_are_the_default_encoding(text: str) -> None:
    assert Encoding.parse(text) == Encoding.BYTES


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        (Encoding(53), "unknown(53)"),
        (Encoding(53, "v1"), "unknown(53);v1"),
        (Encoding(0xFFFF), "unknown(65535)"),
        (Encoding(0xFFFF, ""), ""),
        (Encoding(4, ""), "text/plain;"),
    ],
)
def test_encodings_without_a_name(encoding: Encoding, text: str) -> None:
    assert str(encoding) == text


def test_schema_that_is_not_utf_8_round_trips() -> None:
    raw = "0902" + "ff41"
    encoding = Encoding.read(reader_of(raw))
    assert str(encoding) == "text/plain;\ufffdA"
    assert written(encoding.write) == raw
    assert pickle.loads(pickle.dumps(encoding)) == encoding


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [("feff07", Encoding(0xFFFF)), ("808008", Encoding(1 << 16)), ("ffffffff0f0173", Encoding(0x7FFF_FFFF, "s"))],
)
def test_an_encoding_id_has_31_bits(raw: str, encoding: Encoding) -> None:
    assert Encoding.read(reader_of(raw)) == encoding
    assert written(encoding.write) == raw


@pytest.mark.parametrize(
    ("encoding", "field"),
    [
        (Encoding(-1), "encoding.id"),
        (Encoding(1 << 31), "encoding.id"),
        (Encoding(4, "s" * 256), "encoding.schema"),
        (Encoding(4, "\ud800"), "encoding.schema"),
    ],
)
def test_an_encoding_that_cannot_be_written(encoding: Encoding, field: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encoding.write(Writer())
    assert caught.value.field == field


# -- quality of service, queryables ---


@pytest.mark.parametrize(
    ("value", "qos"),
    [
        (0x05, QoS()),
        (0x0D, QoS(congestion=Congestion.BLOCK)),
        (0x25, QoS(congestion=Congestion.BLOCK_FIRST)),
        (0x15, QoS(express=True)),
        (0x08, QoS(Priority.CONTROL, Congestion.BLOCK)),
        (0x07, QoS(Priority.BACKGROUND)),
    ],
)
def test_quality_of_service_in_a_byte(value: int, qos: QoS) -> None:
    assert QoS.from_wire(0, value) == qos
    assert qos.to_wire() == value


def test_block_takes_precedence_over_block_first() -> None:
    assert QoS.from_wire(0, 0x2D).congestion is Congestion.BLOCK


def test_reserved_bits_of_quality_are_ignored() -> None:
    assert QoS.from_wire(0, 0xFFC5) == QoS.DEFAULT == QoS()


def test_default_qos_values() -> None:
    assert [qos.to_wire() for qos in (QoS.DEFAULT, QoS.DECLARE, QoS.REQUEST)] == [0x05, 0x08, 0x0D]


@pytest.mark.parametrize(
    ("value", "info"),
    [(0x01, QueryableInfo(True)), (0x0200, QueryableInfo(False, 2)), (0xFFFF01, QueryableInfo(True, 0xFFFF))],
)
def test_queryable_info_in_a_number(value: int, info: QueryableInfo) -> None:
    assert QueryableInfo.from_wire(0, value) == info
    assert info.to_wire() == value


def test_a_distance_has_16_bits() -> None:
    assert QueryableInfo.from_wire(0, 0x1_0001_00) == QueryableInfo(False, 1)
    with pytest.raises(EncodeError, match=r"info.distance: 65536 does not fit 16 bits"):
        QueryableInfo(distance=1 << 16).to_wire()


# -- key expressions on the wire ---


def test_wire_expr_has_the_flags_of_its_header() -> None:
    assert (WireExpr(1, "/**").has_suffix, WireExpr(1).has_suffix) == (True, False)
    assert (WireExpr().by_sender, WireExpr(mapping=Mapping.RECEIVER).by_sender) == (True, False)
    assert (BoundExpr(0, "a").has_suffix, BoundExpr(1).has_suffix) == (True, False)


def test_wire_expressions_with_flags_in_the_header_round_trip() -> None:
    expr = WireExpr(1, "/**")
    assert written(expr.write) == "01032f2a2a"
    assert WireExpr.read(reader_of("01032f2a2a"), 0x20, 0x40) == expr
    assert WireExpr.read(reader_of("01"), 0, 0) == WireExpr(1, "", Mapping.RECEIVER)
    assert written(WireExpr(1).write) == "01"
    assert BoundExpr.read(reader_of("000464656d6f"), 0x20) == BoundExpr(0, "demo")
    assert written(BoundExpr(0, "demo").write) == "000464656d6f"
    assert BoundExpr.read(reader_of("07"), 0) == BoundExpr(7)
    assert written(BoundExpr(7).write) == "07"


@pytest.mark.parametrize(
    ("expr", "wire"),
    [
        (WireExpr(1, "/**"), "03012f2a2a"),
        (WireExpr(0, "", Mapping.RECEIVER), "0000"),
        (WireExpr(200, "é", Mapping.RECEIVER), "01c801c3a9"),
    ],
)
def test_wire_expressions_in_an_extension(expr: WireExpr, wire: str) -> None:
    assert written(expr.write_extension) == wire
    assert WireExpr.read_extension(reader_of(wire)) == expr


@pytest.mark.parametrize("kind", [WireExpr, BoundExpr])
@pytest.mark.parametrize(
    ("scope", "suffix", "field"),
    [(1 << 16, "", "wire_expr.scope"), (0, "k" * 65_536, "wire_expr.suffix"), (0, "\ud800", "wire_expr.suffix")],
)
def test_wire_expressions_that_cannot_be_written(
    kind: type[WireExpr] | type[BoundExpr], scope: int, suffix: str, field: str
) -> None:
    with pytest.raises(EncodeError) as caught:
        kind(scope, suffix).write(Writer())
    assert caught.value.field == field


# -- entities, bodies, stacks ---


def test_entity_id_and_source_info_round_trip() -> None:
    assert written(EntityId(ZID, 200).write) == "30c3c2c1c0c801"
    assert EntityId.read(reader_of("3fc3c2c1c0c801")) == EntityId(ZID, 200)  # the low half of the flags is reserved
    assert written(SourceInfo(ZID, 1, 2).write) == "30c3c2c1c00102"
    assert SourceInfo.read(reader_of("30c3c2c1c00102")) == SourceInfo(ZID, 1, 2)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (EntityId(ZenohId(0), 0), "zid"),
        (EntityId(ZID, 1 << 32), "eid"),
        (SourceInfo(ZID, -1, 0), "eid"),
        (SourceInfo(ZID, 0, 1 << 32), "sn"),
    ],
)
def test_sources_that_cannot_be_written(value: EntityId | SourceInfo, field: str) -> None:
    with pytest.raises(EncodeError) as caught:
        value.write(Writer())
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("body", "wire"),
    [
        (QueryBody(Encoding.parse("text/plain;x"), b"body!"), "090178626f647921"),
        (QueryBody(Encoding.BYTES, b"body!"), "00626f647921"),
        (QueryBody(Encoding.BYTES, b""), "00"),
    ],
)
def test_the_body_of_a_query_has_no_length(body: QueryBody, wire: str) -> None:
    assert written(body.write) == wire
    assert QueryBody.read(reader_of(wire)) == body


def test_timestamp_stack_round_trips() -> None:
    stack = TimestampStack(5, (TimestampRecord(1, b"\xaa"), TimestampRecord(0x84, b"")))
    assert written(stack.write) == "05020101aa8400"
    assert TimestampStack.read(reader_of("05020101aa8400")) == stack


@pytest.mark.parametrize("wire", ["0000", "018002"])
def test_timestamp_stacks_that_are_rejected(wire: str) -> None:
    with pytest.raises(DecodeError, match="flags that are not 0 and at most 255 records at byte 0"):
        TimestampStack.read(reader_of(wire))


@pytest.mark.parametrize(
    ("stack", "field"),
    [
        (TimestampStack(0), "ts_stack"),
        (TimestampStack(1, (TimestampRecord(1, b""),) * 256), "ts_stack"),
        (TimestampStack(256), "ts_stack.conf_flags"),
        (TimestampStack(1, (TimestampRecord(256, b""),)), "ts_stack.flags"),
    ],
)
def test_timestamp_stacks_that_cannot_be_written(stack: TimestampStack, field: str) -> None:
    with pytest.raises(EncodeError) as caught:
        stack.write(Writer())
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("pairs", "problem"),
    [
        (((0, 0),) * 7, "7 pairs instead of 8"),
        (((0, 0),) * 7 + ((0, 0, 0),), "3 numbers instead of 2"),
        (((0, 1 << 32),) * 8, "4294967296 does not fit 32 bits"),
    ],
)
def test_next_sequence_numbers_are_eight_pairs(pairs: tuple[tuple[int, int], ...], problem: str) -> None:
    with pytest.raises(EncodeError, match=f"qos: {problem}"):
        NextSns(pairs).write(Writer())


# -- locators ---


def test_locator_is_parsed_into_protocol_address_and_metadata() -> None:
    locator = Locator("tcp/127.0.0.1:7447?prio=1-5;rel=1;x;y=a=b")
    assert (locator.protocol, locator.address) == ("tcp", "127.0.0.1:7447")
    assert locator.metadata == {"prio": "1-5", "rel": "1", "x": "", "y": "a=b"}
    assert Locator("tcp/[::]:7447").metadata == {}
    assert str(locator) == locator.text


@pytest.mark.parametrize("text", ["", "tcp", "tcp/", "/a", "tcp/?rel=1", "udp/224.0.0.224:7446#iface=lo"])
def test_invalid_locator_is_rejected(text: str) -> None:
    with pytest.raises(DecodeError, match="expected a locator `protocol/address"):
        Locator.read(Reader(bytes([len(text), *text.encode()])))
    with pytest.raises(EncodeError, match=r"locators: .* is not a locator"):
        Locator(text).write(Writer())


def test_a_locator_has_at_most_255_bytes() -> None:
    assert len(written(Locator("tcp/" + "a" * 251).write)) == 2 * (2 + 255)
    with pytest.raises(EncodeError, match="locators: 256 bytes do not fit"):
        Locator("tcp/" + "a" * 252).write(Writer())


# -- words with a function of their own ---


def test_a_payload_in_shared_memory_stays_as_it_is() -> None:
    slices = "02" + "0002aabb" + "0101cc"
    reader = reader_of(slices + "ff")
    assert read_payload(reader, True).hex() == slices
    assert reader.left() == 1
    assert written(lambda out: write_payload(out, bytes.fromhex(slices), True)) == slices


def test_a_payload_in_the_message_has_a_length() -> None:
    assert read_payload(reader_of("02aabb"), False) == b"\xaa\xbb"
    assert written(lambda out: write_payload(out, b"\xaa\xbb", False)) == "02aabb"


def test_a_payload_of_4_gib_is_not_written() -> None:
    payload = memoryview((ctypes.c_char * 0 * (1 << 32))())  # its items are empty and take no memory
    with pytest.raises(EncodeError, match="payload: 4294967296 bytes do not fit a 32-bit length"):
        write_payload(Writer(), payload, False)  # type: ignore[arg-type]


@pytest.mark.parametrize("slices", ["", "01", "0100", "010002aa", "ffffffff0f00"])
def test_slices_that_stop_are_rejected(slices: str) -> None:
    with pytest.raises(DecodeError):
        read_payload(reader_of(slices), True)


@pytest.mark.parametrize("payload", ["", "01", "010002aa", "0000"])
def test_payload_that_is_no_list_of_slices_is_an_encode_error(payload: str) -> None:
    with pytest.raises(EncodeError, match="payload: is not the list of slices"):
        write_payload(Writer(), bytes.fromhex(payload), True)


def test_there_is_a_weight_for_each_link() -> None:
    assert read_weights(reader_of("0a8001"), (7, 8)) == (10, 128)
    assert written(lambda out: write_weights(out, (10, 128), (7, 8))) == "0a8001"
    with pytest.raises(EncodeError, match="weights: 1 weights for 2 links"):
        write_weights(Writer(), (1,), (7, 8))
    with pytest.raises(EncodeError, match="weights: 65536 does not fit 16 bits"):
        write_weights(Writer(), (1 << 16,), (7,))


def test_the_qos_of_a_response_is_its_own_or_that_of_its_request() -> None:
    requested, own = QoS(Priority.DATA_HIGH, Congestion.BLOCK), QoS(Priority.DATA, Congestion.DROP, express=True)
    assert requested.of_response(own) is own
    assert requested.of_response(None) is requested
    assert requested.of_response(QoS.DEFAULT) is QoS.DEFAULT
    assert [requested.response_extension(each) for each in (own, requested, QoS.DEFAULT)] == [
        own,
        requested,
        QoS.DEFAULT,
    ]
    assert [QoS.DEFAULT.response_extension(each) for each in (own, QoS.DEFAULT)] == [own, None]
    assert requested.not_before(QoS(Priority.REAL_TIME)) is requested
    assert requested.not_before(own) == QoS(Priority.DATA, Congestion.BLOCK)


@pytest.mark.parametrize("congestion", list(Congestion))
@pytest.mark.parametrize("patch", [0, 1, 2])
def test_only_block_first_needs_a_patch(congestion: Congestion, patch: int) -> None:
    """MR-124."""
    qos = QoS(Priority.REAL_TIME, congestion, express=True)
    if congestion is Congestion.BLOCK_FIRST and patch < 1:
        assert qos.for_patch(patch) == QoS(Priority.REAL_TIME, Congestion.DROP, express=True)
    else:
        assert qos.for_patch(patch) is qos
