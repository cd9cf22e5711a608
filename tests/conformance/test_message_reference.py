"""The page Message Reference: ids, flags, fields and extensions of every message, drawn by hand.

PUSH, REQUEST and RESPONSE and what they carry are drawn in the files of their own pages.
"""

from __future__ import annotations

from itertools import product

import pytest

from tests.conformance.drawn import (
    IN_PUSH,
    IN_REPLY,
    IN_REQUEST,
    IN_RESPONSE,
    NO_KEY,
    STAMP,
    STAMP_BYTES,
    accepted,
    drawn,
    exact,
    push,
    refused,
    vle,
)
from zenspark.errors import DecodeError, UnknownExtension
from zenspark.transport.framing import Deframer, LengthPrefix
from zenspark.wire import messages
from zenspark.wire.codec import decode_bare_batch, decode_batch, decode_network, decode_transport, encode
from zenspark.wire.declare import replace
from zenspark.wire.messages import (
    Close,
    Declare,
    DeclareFinal,
    DeclareSubscriber,
    Del,
    Fragment,
    Frame,
    InitAck,
    InitSyn,
    Interest,
    Join,
    KeepAlive,
    NetworkOam,
    OpenAck,
    OpenSyn,
    Put,
    ResponseFinal,
    TransportOam,
)
from zenspark.wire.values import (
    PROTOCOL_VERSION,
    Congestion,
    Extension,
    InterestMode,
    Mapping,
    NextSns,
    Priority,
    QoS,
    TimeUnit,
    WhatAmI,
    WireExpr,
    ZenohId,
)

# -- ids and layers ----------------------------------------------------------------------------------------------

TRANSPORT_IDS = {
    0x00: ("00 07", messages.TransportOam),
    0x01: ("01 09 00 01", messages.InitSyn),
    0x02: ("02 00 00 00", messages.OpenSyn),
    0x03: ("03 00", messages.Close),
    0x04: ("04", messages.KeepAlive),
    0x05: ("05 00", messages.Frame),
    0x06: ("06 00", messages.Fragment),
    0x07: ("07 09 00 01 00 00 00", messages.Join),
}
NETWORK_IDS = {
    0x19: ("19 00", messages.Interest),
    0x1A: ("1a 00", messages.ResponseFinal),
    0x1B: ("1b 00 00 05 00", messages.Response),
    0x1C: ("1c 00 00 03", messages.Request),
    0x1D: ("1d 00 02", messages.Push),
    0x1E: ("1e 1a", messages.Declare),
    0x1F: ("1f 07", messages.NetworkOam),
}


@pytest.mark.parametrize("number", TRANSPORT_IDS)
def test_transport_ids(number: int) -> None:
    """MR-1, MR-10 to MR-17: the low five bits of the first byte say which transport message it is."""
    text, cls = TRANSPORT_IDS[number]
    assert drawn(text)[0] & 0x1F == number
    assert type(exact(text)) is cls


@pytest.mark.parametrize("number", NETWORK_IDS)
def test_network_ids(number: int) -> None:
    """MR-2, MR-101 to MR-107, PU-5, QU-5, RE-11, RE-34: the low five bits of the first byte say which network
    message it is.
    """
    text, cls = NETWORK_IDS[number]
    assert drawn(text)[0] & 0x1F == number
    assert type(exact(text)) is cls


@pytest.mark.parametrize("number", range(0x20))
def test_an_id_belongs_to_one_layer_at_most(number: int) -> None:
    """MR-1 to MR-3: the id alone tells the layer; what belongs to the other layer, or to none, is refused by its id."""
    for ids, decode in ((TRANSPORT_IDS, decode_transport), (NETWORK_IDS, decode_network)):
        if number not in ids:
            with pytest.raises(DecodeError, match=f"found id 0x{number:02x}$") as caught:
                decode(bytes([number, 0, 0, 0, 0, 0, 0, 0]))
            assert caught.value.position == 0


DATA_IDS = {0x01: "01 00", 0x02: "02", 0x03: "03", 0x04: "04 02", 0x05: "05 00"}
DATA_NAMES = ("", "PUT", "DEL", "QUERY", "REPLY", "ERR")
CARRIERS = {IN_PUSH: {0x01, 0x02}, IN_REQUEST: {0x03}, IN_RESPONSE: {0x04, 0x05}, IN_REPLY: {0x01, 0x02}}


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("number", range(0x20))
def test_data_ids_and_what_carries_them(carrier: str, number: int) -> None:
    """MR-4, MR-204 to MR-208, PU-22, PU-39, QU-43, RE-45, RE-55: a data id means something only in the body of
    the messages the table names.
    """
    if number not in CARRIERS[carrier]:
        assert refused(f"{carrier} {number:02x} 00 00").found == f"id 0x{number:02x}"
        return
    body = exact(carrier + DATA_IDS[number]).body
    name: str = (body.body if carrier == IN_REPLY else body).NAME
    assert name == DATA_NAMES[number]


# -- on the link -------------------------------------------------------------------------------------------------


def test_stream_length_prefix() -> None:
    """MR-7, PU-65, QU-77, RE-67: on a stream link two bytes of length, the lower first, stand before what they
    count.
    """
    batch = drawn("25 05") + drawn(IN_PUSH + "01 ac 02") + bytes(300)
    stream = drawn("33 01") + batch
    assert len(batch) == 0x133
    assert LengthPrefix.U16.wrap(batch) == stream
    deframer = Deframer(LengthPrefix.U16)
    deframer.receive_data(stream + b"\x01")
    assert deframer.next_batch() == batch
    assert deframer.next_batch() is None


def test_a_batch_holds_several_transport_messages() -> None:
    """MR-8, MR-71: one length stands before a whole batch, and a FRAME ends where the next transport message
    begins.

    The bytes are captured: a best-effort FRAME with three publications, then a reliable one, behind one length.
    """
    stream = drawn(
        """3900
        05 b8ab8031  5d 02 01 05 68656c6c6f  5d 02 01 05 68656c6c6f  5d 02 01 05 68656c6c6f
        25 bfab8031  7d 00 0a 64656d6f2f6b2f72656c 01 05 000102feff"""
    )
    deframer = Deframer()
    deframer.receive_data(stream)
    batch = deframer.next_batch()
    assert batch is not None
    best_effort, reliable = decode_batch(batch)
    assert isinstance(best_effort, Frame)
    assert isinstance(reliable, Frame)
    assert (best_effort.reliable, len(best_effort.msgs)) == (False, 3)
    assert (reliable.reliable, len(reliable.msgs)) == (True, 1)
    assert LengthPrefix.U16.wrap(encode(best_effort) + encode(reliable)) == stream


def test_low_latency_messages_stand_bare() -> None:
    """MR-9, MR-100: on a low-latency session a network message has no FRAME around it, and a length of four
    bytes before it.
    """
    stream = drawn("0d000000 9e 21 08 20 01 00 06 64656d6f2f6b")  # captured: the first message after OPEN
    deframer = Deframer(LengthPrefix.U32)
    deframer.receive_data(stream)
    batch = deframer.next_batch()
    assert batch is not None
    [declare] = decode_bare_batch(batch)
    assert isinstance(declare, Declare)
    assert LengthPrefix.U32.wrap(encode(declare)) == stream


# -- OAM of both layers ------------------------------------------------------------------------------------------

OAMS = {"00": TransportOam, "1f": NetworkOam}


@pytest.mark.parametrize("header", OAMS)
def test_oam_body_is_chosen_by_enc(header: str) -> None:
    """MR-21, MR-22, MR-108, MR-109: bits 6:5 choose between no body, an integer and bytes; there is no fourth
    choice.
    """
    base, oam = int(header, 16), OAMS[header]
    assert exact(f"{base:02x} 07") == oam(id=7)
    assert exact(f"{base | 0x20:02x} 07 ac 02") == oam(id=7, value=300)
    assert exact(f"{base | 0x20:02x} 07 {'ff' * 9}") == oam(id=7, value=(1 << 64) - 1)
    assert exact(f"{base | 0x40:02x} 07 03 0a 0b 0c") == oam(id=7, zbuf=b"\x0a\x0b\x0c")
    refused(f"{base | 0x60:02x} 07 00", "a known body encoding")


@pytest.mark.parametrize("header", OAMS)
def test_oam_id_has_16_bits(header: str) -> None:
    """MR-23, MR-110: the identifier is a variable-length integer of at most 16 bits."""
    assert exact(f"{header} ff ff 03") == OAMS[header](id=0xFFFF)
    refused(f"{header} 80 80 04", "at most 16 bits")


@pytest.mark.parametrize("header", OAMS)
def test_oam_extensions_stand_before_the_body(header: str) -> None:
    """MR-21, MR-24, MR-108, MR-111: with Z the extensions stand between the identifier and the body."""
    base = int(header, 16) | 0xC0
    oam = OAMS[header](id=7, exts=(Extension(0x2E, 5),), zbuf=b"\x0a")
    assert exact(f"{base:02x} 07 2e 05 01 0a") == oam


def test_transport_oam_priority() -> None:
    """MR-25: extension 1, an integer, mandatory, is the priority; with M clear it is another extension."""
    assert exact("80 07 31 02") == TransportOam(id=7, priority=Priority.INTERACTIVE_HIGH)
    assert accepted("00 07") == TransportOam(id=7, priority=Priority.DATA)
    assert exact("80 07 21 02") == TransportOam(id=7, exts=(Extension(0x21, 2),))


# -- INIT --------------------------------------------------------------------------------------------------------

ZID4 = ZenohId(0xC0C1C2C3)


def test_init_syn_as_drawn() -> None:
    """MR-27, MR-36, MR-38: version, role and id length in one byte, the id, and with S the resolution and the
    batch size.
    """
    text = """
        41           # S
        09           # version
        32           # zid_len 3, client
        c3 c2 c1 c0  # ZID
        0a           # resolution
        34 12        # batch size, the lower byte first
    """
    assert exact(text) == InitSyn(version=9, whatami=WhatAmI.CLIENT, zid=ZID4, resolution=0x0A, batch_size=0x1234)


def test_init_ack_as_drawn() -> None:
    """MR-27, MR-39: with A it is an InitAck, which has a cookie behind the sizes."""
    text = """
        61           # S A
        09 30 c3 c2 c1 c0
        0a 34 12
        04 de ad be ef
    """
    assert exact(text) == InitAck(
        version=9,
        whatami=WhatAmI.ROUTER,
        zid=ZID4,
        resolution=0x0A,
        batch_size=0x1234,
        cookie=b"\xde\xad\xbe\xef",
    )


def test_init_cookie_only_with_a() -> None:
    """MR-40: an InitSyn ends without a cookie, an InitAck does not."""
    assert exact("01 09 00 01") == InitSyn(version=9, whatami=WhatAmI.ROUTER, zid=ZenohId(1))
    refused("01 09 00 01 00", "the end of the message")
    assert exact("21 09 00 01 00") == InitAck(version=9, whatami=WhatAmI.ROUTER, zid=ZenohId(1), cookie=b"")
    refused("21 09 00 01", "an integer")


def test_init_cookie_length_has_16_bits() -> None:
    """MR-39: a cookie has at most 65535 bytes."""
    longest = exact("21 09 00 01 ff ff 03" + "5a" * 0xFFFF)
    assert longest.cookie == b"\x5a" * 0xFFFF
    refused("21 09 00 01 80 80 04" + "5a" * 0x10000, "at most 16 bits")


@pytest.mark.parametrize("head", ["01", "21"])
def test_init_sizes_only_with_s(head: str) -> None:
    """MR-28, MR-36, MR-38: without S neither resolution nor batch size is there; with S both are."""
    cookie = "00" if head == "21" else ""
    without = exact(f"{head} 09 00 01 {cookie}")
    both = exact(f"{int(head, 16) | 0x40:02x} 09 00 01 05 ff 7f {cookie}")
    assert (without.resolution, without.batch_size) == (None, None)
    assert (both.resolution, both.batch_size) == (0x05, 0x7FFF)


@pytest.mark.parametrize("flags", [0x80, 0xC0, 0xA0, 0xE0])
def test_init_extensions_come_last(flags: int) -> None:
    """MR-29, MR-41: with Z the extensions stand at the end, behind sizes and cookie."""
    sizes = "0a 00 c0 " if flags & 0x40 else ""
    cookie = "02 aa bb " if flags & 0x20 else ""
    init = exact(f"{flags | 1:02x} 09 00 01 {sizes}{cookie} 81 27 01")
    assert (init.qos, init.patch, init.exts) == (True, 1, ())


@pytest.mark.parametrize("text", ["01 {v:02x} 00 01", "21 {v:02x} 00 01 00", "07 {v:02x} 00 01 00 00 00"])
def test_version_is_one_byte(text: str) -> None:
    """MR-30, MR-31, MR-88: the version is one plain byte, 9 today."""
    assert PROTOCOL_VERSION == 0x09
    for version in (9, 8, 0xFF):
        assert exact(text.format(v=version)).version == version


PACKED = {"INIT": ("01 09 {} {}", ""), "JOIN": ("07 09 {} {}", "00 00 00")}


@pytest.mark.parametrize("head", PACKED)
@pytest.mark.parametrize("size", range(1, 17))
def test_packed_zid_length(head: str, size: int) -> None:
    """MR-32, MR-35, MR-89, MR-90: bits 7:4 of the packed byte are the length of the id less one, and so many
    bytes follow.
    """
    text, tail = PACKED[head]
    raw = bytes(range(1, size + 1))
    message = exact(text.format(f"{(size - 1) << 4:02x}", raw.hex()) + tail)
    assert message.zid == ZenohId(int.from_bytes(raw, "little"))


@pytest.mark.parametrize("head", PACKED)
@pytest.mark.parametrize("role", WhatAmI)
def test_packed_whatami(head: str, role: WhatAmI) -> None:
    """MR-33, MR-34, MR-89: bits 1:0 of the packed byte are the role, bits 3:2 mean nothing."""
    text, tail = PACKED[head]
    assert exact(text.format(f"{role:02x}", "01") + tail).whatami is role
    assert accepted(text.format(f"{role | 0x0C:02x}", "01") + tail).whatami is role


@pytest.mark.parametrize("head", PACKED)
def test_there_is_no_fourth_role(head: str) -> None:
    """MR-34, MR-89: two bits hold four values, three of which are roles."""
    text, tail = PACKED[head]
    refused(text.format("03", "01") + tail, "one of 0 router, 1 peer, 2 client")


# -- OPEN --------------------------------------------------------------------------------------------------------


def test_open_syn_as_drawn() -> None:
    """MR-43, MR-46 to MR-48: lease, first sequence number, and the cookie as a length and bytes."""
    text = """
        02
        dc 0b        # lease 1500
        b3 ab 80 31  # initial_sn
        03 aa bb cc  # cookie
    """
    assert exact(text) == OpenSyn(unit=TimeUnit.MS, lease=1500, initial_sn=102766003, cookie=b"\xaa\xbb\xcc")


def test_open_ack_as_drawn() -> None:
    """MR-43, MR-48: with A it is an OpenAck, which has no cookie."""
    assert exact("22 dc 0b b3 ab 80 31") == OpenAck(unit=TimeUnit.MS, lease=1500, initial_sn=102766003)
    refused("22 dc 0b b3 ab 80 31 00", "the end of the message")
    refused("02 dc 0b b3 ab 80 31", "an integer")


@pytest.mark.parametrize(("header", "unit"), [("02", TimeUnit.MS), ("42", TimeUnit.S)])
def test_open_lease_unit(header: str, unit: TimeUnit) -> None:
    """MR-44: T says that the lease is in seconds, else it is in milliseconds."""
    assert exact(f"{header} 0a 00 00") == OpenSyn(unit=unit, lease=10, initial_sn=0, cookie=b"")


@pytest.mark.parametrize(("header", "cookie"), [("82", "01 aa"), ("a2", "")])
def test_open_extensions_come_last(header: str, cookie: str) -> None:
    """MR-45, MR-50: with Z the extensions stand at the end, behind the cookie if there is one."""
    message = exact(f"{header} 0a 05 {cookie} 0d")
    assert message.exts == (Extension(0x0D),)


# -- CLOSE and KEEP_ALIVE ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("header", "session"), [("03", False), ("23", True)])
@pytest.mark.parametrize("reason", [0, 2, 7, 0x80, 0xFF])
def test_close_as_drawn(header: str, session: bool, reason: int) -> None:
    """MR-52, MR-56: S tells the session from the link; the reason is one plain byte."""
    assert exact(f"{header} {reason:02x}") == Close(session=session, reason=reason)


def test_close_extensions() -> None:
    """MR-55, MR-58: with Z the extensions stand behind the reason."""
    assert exact("83 02 2e 07") == Close(session=False, reason=2, exts=(Extension(0x2E, 7),))


def test_keep_alive_as_drawn() -> None:
    """MR-60 to MR-62: it is its header alone, and with Z extensions."""
    assert exact("04") == KeepAlive()
    assert exact("84 0e") == KeepAlive(exts=(Extension(0x0E),))
    refused("04 00 00", "the end of the message")


# -- FRAME and FRAGMENT ------------------------------------------------------------------------------------------

DELETION = push(Del())


def test_frame_as_drawn() -> None:
    """MR-63, MR-67, MR-70: a sequence number, then network messages back to back, each of which ends by itself."""
    text = """
        25           # R
        b3 ab 80 31  # seq_num
        1d 00 02     # PUSH, DEL
        1a 05        # RESPONSE_FINAL
        1d 00 01 02 02 02  # PUSH, PUT of two bytes that look like DELs
    """
    put = push(Put(payload=b"\x02\x02"))
    assert exact(text) == Frame(reliable=True, sn=102766003, msgs=(DELETION, ResponseFinal(request_id=5), put))


@pytest.mark.parametrize(("header", "reliable"), [("05", False), ("25", True)])
def test_frame_reliable_flag(header: str, reliable: bool) -> None:
    """MR-64: R says that the frame belongs to the reliable channel."""
    assert exact(f"{header} 00 1d 00 02") == Frame(reliable=reliable, sn=0, msgs=(DELETION,))


def test_frame_extensions_stand_before_the_messages() -> None:
    """MR-66, MR-69: with Z the extensions stand between the sequence number and the messages."""
    assert exact("85 07 0e 1d 00 02") == Frame(reliable=False, sn=7, exts=(Extension(0x0E),), msgs=(DELETION,))


@pytest.mark.parametrize("priority", [priority for priority in Priority if priority is not Priority.DATA])
@pytest.mark.parametrize("header", ["85", "86"])
def test_frame_priority(header: str, priority: Priority) -> None:
    """MR-72, MR-74: extension 1, an integer, mandatory: bits 2:0 are the priority."""
    assert exact(f"{header} 07 31 {priority:02x}").priority is priority


@pytest.mark.parametrize("header", ["85", "86"])
def test_frame_priority_reserved_bits(header: str) -> None:
    """MR-73: bits 7:3 of the priority extension are written as zero and mean nothing."""
    message = accepted(f"{header} 07 31 {vle(0xF8 | Priority.BACKGROUND)}")
    assert message.priority is Priority.BACKGROUND
    assert encode(message) == drawn(f"{header} 07 31 07")


@pytest.mark.parametrize("header", ["85", "86"])
def test_frame_priority_is_mandatory(header: str) -> None:
    """MR-72: with M clear, or with another kind, it is another extension; without it the priority is Data."""
    assert exact(f"{header} 07 21 02").exts == (Extension(0x21, 2),)
    assert isinstance(refused(f"{header} 07 51 01 02"), UnknownExtension)
    assert exact(f"{int(header, 16) & 0x7F:02x} 07").priority is Priority.DATA


@pytest.mark.parametrize(("header", "more", "reliable"), [(0x06, 0, 0), (0x26, 0, 1), (0x46, 1, 0), (0x66, 1, 1)])
def test_fragment_as_drawn(header: int, more: int, reliable: int) -> None:
    """MR-75, MR-76, MR-79, MR-82: R and M, a sequence number, then bytes to the end of the batch, whatever they
    look like.
    """
    slice_ = "1d 00 02 05 00 04"
    fragment = f"{header:02x} b3 ab 80 31 {slice_}"
    assert exact(fragment) == Fragment(more=bool(more), reliable=bool(reliable), sn=102766003, payload=drawn(slice_))
    assert len(decode_batch(drawn(fragment))) == 1


def test_fragment_extensions_stand_before_the_bytes() -> None:
    """MR-78, MR-81: with Z the extensions stand between the sequence number and the bytes."""
    fragment = Fragment(more=True, reliable=True, sn=7, exts=(Extension(0x0E),), payload=b"\xaa\xbb")
    assert exact("e6 07 0e aa bb") == fragment


# -- JOIN --------------------------------------------------------------------------------------------------------


def test_join_as_drawn() -> None:
    """MR-86, MR-91 to MR-95: as INIT, then the lease and the next reliable and best-effort numbers."""
    text = """
        47           # S
        09 31 c3 c2 c1 c0
        0a 00 20     # resolution, batch size 8192
        dc 0b        # lease 1500
        b3 ab 80 31  # next_sn_re
        a5 98 85 03  # next_sn_be
    """
    assert exact(text) == Join(
        version=9,
        whatami=WhatAmI.PEER,
        zid=ZID4,
        resolution=0x0A,
        batch_size=8192,
        unit=TimeUnit.MS,
        lease=1500,
        sn_re=102766003,
        sn_be=6376485,
    )


@pytest.mark.parametrize(("header", "unit"), [("07", TimeUnit.MS), ("27", TimeUnit.S)])
def test_join_lease_unit(header: str, unit: TimeUnit) -> None:
    """MR-85, MR-86: T is bit 5 here, and S is bit 6."""
    plain = Join(version=9, whatami=WhatAmI.ROUTER, zid=ZenohId(1), unit=unit, lease=10, sn_re=1, sn_be=2)
    assert exact(f"{header} 09 00 01 0a 01 02") == plain


def test_join_extensions_come_last() -> None:
    """MR-87, MR-96: with Z the extensions stand at the end; the one for QoS has two numbers for each priority."""
    numbers = "".join(vle(100 + number) for number in range(16))
    join = exact(f"a7 09 00 01 0a 00 00 d1 10 {numbers} 27 01")
    assert join.qos == NextSns(tuple((100 + 2 * priority, 101 + 2 * priority) for priority in range(8)))
    assert join.patch == 1


# -- extensions common to network messages -----------------------------------------------------------------------

QOS_PLACES = {
    "PUSH": ("1d 00", "02"),
    "REQUEST": ("1c 00 00", "03"),
    "RESPONSE": ("1b 00 00", "05 00"),
    "RESPONSE_FINAL": ("1a 00", ""),
    "DECLARE": ("1e", "1a"),
    "INTEREST": ("19 00", ""),
    "OAM": ("1f 00", ""),
}
every_network_message = pytest.mark.parametrize("name", QOS_PLACES)


def with_extension(name: str, extension: str) -> str:
    head, tail = QOS_PLACES[name]
    first, *others = head.split()
    return f"{int(first, 16) | 0x80:02x} {' '.join(others)} {extension} {tail}"


@every_network_message
@pytest.mark.parametrize("priority", Priority)
def test_qos_priority(name: str, priority: Priority) -> None:
    """MR-112, MR-114 to MR-117, MR-127 to MR-134, PU-17, QU-20, RE-26, RE-43: extension 1, an integer, not
    mandatory: bits 2:0 are the priority.
    """
    expected = QoS(priority, Congestion.BLOCK)
    assert exact(with_extension(name, f"21 {0x08 | priority:02x}")).qos == expected


def test_priority_names() -> None:
    """MR-127 to MR-134: eight classes, from Control to Background, with Data in the default place."""
    names = "CONTROL REAL_TIME INTERACTIVE_HIGH INTERACTIVE_LOW DATA_HIGH DATA DATA_LOW BACKGROUND"
    assert [priority.name for priority in map(Priority, range(8))] == names.split()
    assert QoS().priority is Priority(5)


CONGESTION = {0x00: Congestion.DROP, 0x08: Congestion.BLOCK, 0x20: Congestion.BLOCK_FIRST}


@every_network_message
@pytest.mark.parametrize(("bits", "express"), [*product(CONGESTION, [0, 0x10])])
def test_qos_congestion_and_express(name: str, bits: int, express: int) -> None:
    """MR-116, MR-120, MR-121, MR-123, MR-135, MR-138, MR-141: bit 3 says Block, bit 5 without it BlockFirst,
    neither Drop; bit 4 says express.
    """
    value = Priority.DATA_LOW | bits | express
    expected = QoS(Priority.DATA_LOW, CONGESTION[bits], bool(express))
    assert exact(with_extension(name, f"21 {value:02x}")).qos == expected


@every_network_message
@pytest.mark.parametrize("bit", [0x40, 0x80])
def test_qos_reserved_bits(name: str, bit: int) -> None:
    """MR-125, MR-126: bits 6 and 7 are written as zero and mean nothing."""
    message = accepted(with_extension(name, f"21 {vle(0x0E | bit)}"))
    assert message.qos == QoS(Priority.DATA_LOW, Congestion.BLOCK)
    assert encode(message) == drawn(with_extension(name, "21 0e"))


@every_network_message
def test_qos_is_known_by_number_kind_and_m(name: str) -> None:
    """MR-112, MR-115, PU-17, QU-20, RE-26, RE-43: with M set it is unknown and mandatory; as bytes it is
    another extension.
    """
    error = refused(with_extension(name, "31 08"))
    assert isinstance(error, UnknownExtension)
    assert error.extension == 1
    other = accepted(with_extension(name, "41 01 08"))
    assert (other.qos or QoS(), other.exts) == (QoS(), (Extension(0x41, b"\x08"),))


@every_network_message
def test_absent_qos_is_data_and_drop(name: str) -> None:
    """MR-118, MR-136, MR-139: without the extension every message is of priority Data and may be dropped,
    requests and declarations too. A RESPONSE differs from one that says so: without, it is treated like its REQUEST.
    """
    head, tail = QOS_PLACES[name]
    message = exact(f"{head} {tail}")
    is_response = name == "RESPONSE"
    assert message.qos == (None if is_response else QoS(Priority.DATA, Congestion.DROP, express=False))
    explicit = with_extension(name, "21 05")
    assert accepted(explicit).qos == QoS(Priority.DATA, Congestion.DROP, express=False)
    assert encode(accepted(explicit)) == drawn(explicit if is_response else f"{head} {tail}")


@pytest.mark.parametrize(
    ("text", "qos"),
    [
        ("fc 01 00 07 712f7372762f61 a1 0d 26 90 4e 23 03", QoS.REQUEST),
        ("9e 21 08 20 01 00 08 726f6f6d2f312f73", QoS.DECLARE),
        ("f9 08 53 05 21 08", QoS.DECLARE),
    ],
)
def test_block_is_always_written(text: str, qos: QoS) -> None:
    """MR-139: captured messages that block say so in the extension, and so do ours."""
    assert qos.congestion is Congestion.BLOCK
    assert exact(text).qos == qos


def test_block_first_without_patch() -> None:
    """MR-124: captured on a session where no patch was agreed; the bit changes nothing about decoding."""
    frame = exact("25 b3ab8031 fd 00 03 612f62 21 25 01 01 78")
    assert frame.msgs[0].qos == QoS(Priority.DATA, Congestion.BLOCK_FIRST)


def test_control_priority_of_declarations() -> None:
    """MR-119: a captured declaration has priority Control, and so has the frame it came in."""
    frame = exact("a5 b3ab8031 31 00 9e 21 08 20 01 00 06 7a7a2f792f78")
    assert (frame.priority, frame.msgs[0].qos) == (Priority.CONTROL, QoS.DECLARE)


@every_network_message
def test_timestamp_extension(name: str) -> None:
    """MR-113, MR-114, MR-143, MR-144, PU-18, QU-21, RE-27, RE-44: extension 2, bytes, not mandatory: a clock
    reading and the id of the clock.
    """
    message = exact(with_extension(name, f"42 0b {STAMP_BYTES}"))
    assert message.timestamp == STAMP
    assert isinstance(refused(with_extension(name, f"52 0b {STAMP_BYTES}")), UnknownExtension)
    refused(with_extension(name, f"42 0c {STAMP_BYTES} 00"), "the end of the extension")


@every_network_message
def test_node_id_extension(name: str) -> None:
    """MR-114, MR-150, MR-185, MR-203, PU-19, QU-22, RO-7: extension 3, an integer, mandatory, in the four
    messages that have it, and in no other.
    """
    text = with_extension(name, "33 80 01")
    if name in ("PUSH", "REQUEST", "DECLARE", "INTEREST"):
        assert exact(text).node_id == 128
        optional = accepted(with_extension(name, "23 80 01"))
        assert (optional.node_id, optional.exts) == (0, (Extension(0x23, 128),))
    else:
        assert isinstance(refused(text), UnknownExtension)


def test_network_messages_travel_in_frames_of_several_kinds() -> None:
    """MR-63, MR-98: each network message may stand in a FRAME, next to any other."""
    inside = [text for text, _ in NETWORK_IDS.values()]
    frame = exact(f"25 00 {' '.join(inside)}")
    assert [type(message) for message in frame.msgs] == [cls for _, cls in NETWORK_IDS.values()]


RESERVED = {
    "CLOSE": ("43 02", "03 02"),
    "KEEP_ALIVE": ("64", "04"),
    "FRAME": ("65 07", "25 07"),
    "RESPONSE_FINAL": ("7a 05", "1a 05"),
    "DECLARE": ("5e 1a", "1e 1a"),
    "DEL": (IN_PUSH + "42", IN_PUSH + "02"),
    "REPLY": (IN_RESPONSE + "44 02", IN_RESPONSE + "04 02"),
    "ERR": (IN_RESPONSE + "25 00", IN_RESPONSE + "05 00"),
}


@pytest.mark.parametrize("name", RESERVED)
def test_header_bits_without_a_name(name: str) -> None:
    """MR-54, MR-60, MR-65, MR-175, MR-181, MR-219, MR-232, PU-42, RE-39, RE-48, RE-58: header bits drawn as X
    are written as zero and mean nothing.
    """
    crossed, plain = RESERVED[name]
    assert accepted(crossed) == exact(plain)


# -- DECLARE -----------------------------------------------------------------------------------------------------


def test_declare_interest_id_only_with_i() -> None:
    """MR-180, MR-183: with I an interest id of at most 32 bits stands behind the header, else none."""
    assert exact("1e 1a") == Declare(body=DeclareFinal())
    assert exact("3e 07 1a") == Declare(interest_id=7, body=DeclareFinal())
    assert exact("3e 00 1a") == Declare(interest_id=0, body=DeclareFinal())
    assert exact("3e ff ff ff ff 0f 1a") == Declare(interest_id=0xFFFFFFFF, body=DeclareFinal())
    refused("3e 80 80 80 80 10 1a", "at most 32 bits")


def test_declare_extensions_stand_before_the_declaration() -> None:
    """MR-182, MR-185: with Z the extensions stand between the interest id and the declaration."""
    assert exact(f"be 07 a1 08 c2 0b {STAMP_BYTES} 33 02 1a") == Declare(
        interest_id=7, qos=QoS.DECLARE, timestamp=STAMP, node_id=2, body=DeclareFinal()
    )


def test_declare_carries_one_declaration() -> None:
    """MR-179, MR-186: exactly one declaration, chosen by its own header; a second one is too much."""
    expr = WireExpr(1, "/**", Mapping.SENDER)
    assert exact("1e 62 02 01 03 2f 2a 2a") == Declare(body=DeclareSubscriber(id=2, wire_expr=expr))
    refused("1e 1a 1a", "the end of the message")
    refused("1e", "a byte")
    assert refused("1e 08").found == "id 0x08"


# -- INTEREST ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", InterestMode)
def test_interest_mode(mode: InterestMode) -> None:
    """MR-188, MR-189, MR-192: bits 6:5 are the mode; a Final has no options byte, the others have one."""
    options = "" if mode is InterestMode.FINAL else "0f"
    every = mode is not InterestMode.FINAL
    assert exact(f"{0x19 | mode << 5:02x} 05 {options}") == Interest(
        mode=mode, id=5, keyexprs=every, subscribers=every, queryables=every, tokens=every
    )
    refused(f"{0x19 | mode << 5:02x} 05 {options} 00", "the end of the message")


def test_interest_mode_numbers() -> None:
    """MR-188, MR-189: Final is 0; Current, Future and both are 1, 2 and 3."""
    assert [mode.name for mode in map(InterestMode, range(4))] == ["FINAL", "CURRENT", "FUTURE", "CURRENT_FUTURE"]


def test_interest_id_has_32_bits() -> None:
    """MR-191: the identifier is a variable-length integer of at most 32 bits."""
    assert exact("19 ff ff ff ff 0f") == Interest(mode=InterestMode.FINAL, id=0xFFFFFFFF)
    refused("19 80 80 80 80 10", "at most 32 bits")


OPTIONS: dict[int, str] = {0x01: "keyexprs", 0x02: "subscribers", 0x04: "queryables", 0x08: "tokens", 0x80: "aggregate"}


@pytest.mark.parametrize("bit", OPTIONS)
def test_interest_options(bit: int) -> None:
    """MR-193, MR-197 to MR-200: each of K, S, Q, T and A is one bit of the options byte."""
    asked = exact(f"39 05 {bit:02x}")
    assert asked == replace(Interest(mode=InterestMode.CURRENT, id=5), **{OPTIONS[bit]: True})


def test_interest_key_only_with_r() -> None:
    """MR-194 to MR-196, MR-201, MR-202: with R a scope follows, with N a suffix, and M says whose numbers the
    scope uses.
    """
    current = InterestMode.CURRENT
    assert exact("39 05 00") == Interest(mode=current, id=5)
    assert exact("39 05 10 07") == Interest(mode=current, id=5, wire_expr=WireExpr(7, "", Mapping.RECEIVER))
    assert exact("39 05 50 07") == Interest(mode=current, id=5, wire_expr=WireExpr(7, "", Mapping.SENDER))
    suffixed = WireExpr(7, "/a", Mapping.RECEIVER)
    assert exact("39 05 30 07 02 2f 61") == Interest(mode=current, id=5, wire_expr=suffixed)
    assert accepted("39 05 60") == Interest(mode=current, id=5)  # N and M without R: there is no key to name
    refused("39 05 10", "an integer")
    refused("39 05 10 80 80 04", "at most 16 bits")
    refused(f"39 05 30 07 80 80 04 {'61' * 0x10000}", "at most 16 bits")


@pytest.mark.parametrize("head", ["99 05", "b9 05 01", "b9 05 11 07", "b9 05 31 07 01 61"])
def test_interest_extensions_come_last(head: str) -> None:
    """MR-190, MR-203: with Z the extensions stand at the end, behind the key if there is one."""
    interest = exact(f"{head} a1 08 c2 0b {STAMP_BYTES} 33 02")
    assert (interest.qos, interest.timestamp, interest.node_id) == (QoS.DECLARE, STAMP, 2)


# -- key expressions of PUSH, REQUEST and RESPONSE ---------------------------------------------------------------

KEYED = {"PUSH": (0x1D, "", "02"), "REQUEST": (0x1C, "00", "03"), "RESPONSE": (0x1B, "00", "05 00")}
every_keyed_message = pytest.mark.parametrize("name", KEYED)


@every_keyed_message
@pytest.mark.parametrize("flags", [0x00, 0x20, 0x40, 0x60])
def test_key_flags(name: str, flags: int) -> None:
    """MR-145, MR-146, MR-149, MR-152, MR-153, MR-157, MR-160, MR-161, MR-166, PU-6, PU-7, PU-11, PU-14, PU-15,
    QU-6, QU-7, QU-12, QU-17, QU-18, RE-13, RE-14, RE-20, RE-23, RE-24: N, bit 5, announces a suffix; M, bit 6,
    says that the scope is the sender's number.
    """
    header, before, tail = KEYED[name]
    suffix = "02 2f 61" if flags & 0x20 else ""
    expr = exact(f"{header | flags:02x} {before} 07 {suffix} {tail}").wire_expr
    mapping = Mapping.SENDER if flags & 0x40 else Mapping.RECEIVER
    assert expr == WireExpr(7, "/a" if flags & 0x20 else "", mapping)


@every_keyed_message
def test_key_scope(name: str) -> None:
    """MR-148, MR-156, MR-165, PU-9, PU-10, QU-11, RE-18: the scope is a variable-length integer of at most 16
    bits; 0 means that the suffix is the whole key.
    """
    header, before, tail = KEYED[name]
    assert exact(f"{header:02x} {before} 00 {tail}").wire_expr == NO_KEY
    assert exact(f"{header:02x} {before} ff ff 03 {tail}").wire_expr.scope == 0xFFFF
    refused(f"{header:02x} {before} 80 80 04 {tail}", "at most 16 bits")
    assert exact(f"{header | 0x60:02x} {before} 00 03 61 2f 62 {tail}").wire_expr == WireExpr(0, "a/b", Mapping.SENDER)


@every_keyed_message
def test_key_suffix_length(name: str) -> None:
    """MR-149, MR-157, MR-166, PU-11, QU-12, RE-20: the suffix is text behind a length of at most 16 bits."""
    header, before, tail = KEYED[name]
    longest = exact(f"{header | 0x20:02x} {before} 00 ff ff 03 {'61' * 0xFFFF} {tail}").wire_expr
    assert longest.suffix == "a" * 0xFFFF
    refused(f"{header | 0x20:02x} {before} 00 80 80 04 {'61' * 0x10000} {tail}", "at most 16 bits")
    refused(f"{header | 0x20:02x} {before} 00 01 ff {tail}", "UTF-8")


@every_keyed_message
def test_z_announces_extensions(name: str) -> None:
    """MR-147, MR-154, MR-162, PU-8, PU-12, PU-16, QU-8, QU-13, QU-19, RE-15, RE-21, RE-25: bit 7 says that
    extensions stand behind the key, and nothing else does.
    """
    header, before, tail = KEYED[name]
    message = exact(f"{header | 0xA0:02x} {before} 00 01 61 2e 05 {tail}")
    assert message.exts == (Extension(0x2E, 5),)
    assert message.wire_expr.suffix == "a"
