"""The page Message Reference: flags, fields and extensions of the transport messages, drawn by hand."""

from __future__ import annotations

import pytest

from tests.conformance.drawn import accepted, drawn, exact, push, refused, vle
from zenspark.errors import UnknownExtension
from zenspark.wire.codec import decode_batch, encode
from zenspark.wire.messages import (
    Close,
    Del,
    Fragment,
    Frame,
    InitAck,
    InitSyn,
    Join,
    KeepAlive,
    OpenAck,
    OpenSyn,
    Put,
    ResponseFinal,
)
from zenspark.wire.values import PROTOCOL_VERSION, Extension, NextSns, Priority, TimeUnit, WhatAmI, ZenohId

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
def test_fourth_role_is_rejected(head: str) -> None:
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
    """MR-44: T means that the lease is in seconds, else it is in milliseconds."""
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
    """MR-52, MR-56: S distinguishes the session from the link; the reason is one plain byte."""
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
    """MR-64: R means that the frame belongs to the reliable channel."""
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
