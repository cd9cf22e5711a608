"""The page Message Reference: ids and headers of every message, batches on a link, and OAM, drawn by hand.

The other transport messages are in `test_message_reference_transport.py`, the network messages in
`test_message_reference_network.py`; what PUSH, REQUEST and RESPONSE carry is drawn in the files of their own pages.
"""

from __future__ import annotations

import pytest

from tests.conformance.drawn import IN_PUSH, IN_REPLY, IN_REQUEST, IN_RESPONSE, accepted, drawn, exact, refused
from zenspark.errors import DecodeError
from zenspark.transport.framing import Deframer, LengthPrefix
from zenspark.wire import messages
from zenspark.wire.codec import decode_bare_batch, decode_batch, decode_network, decode_transport, encode
from zenspark.wire.messages import Declare, Frame, NetworkOam, TransportOam
from zenspark.wire.values import Extension, Priority

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
    """MR-1, MR-10 to MR-17: the low five bits of the first byte specify which transport message it is."""
    text, cls = TRANSPORT_IDS[number]
    assert drawn(text)[0] & 0x1F == number
    assert type(exact(text)) is cls


@pytest.mark.parametrize("number", NETWORK_IDS)
def test_network_ids(number: int) -> None:
    """MR-2, MR-101 to MR-107, PU-5, QU-5, RE-11, RE-34: the low five bits of the first byte specify which network
    message it is.
    """
    text, cls = NETWORK_IDS[number]
    assert drawn(text)[0] & 0x1F == number
    assert type(exact(text)) is cls


@pytest.mark.parametrize("number", range(0x20))
def test_an_id_belongs_to_one_layer_at_most(number: int) -> None:
    """MR-1 to MR-3: the id alone determines the layer; an id of the other layer, or of none, is refused."""
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
def test_data_ids_are_accepted_only_in_their_carriers(carrier: str, number: int) -> None:
    """MR-4, MR-204 to MR-208, PU-22, PU-39, QU-43, RE-45, RE-55: a data id means something only in the body of
    the messages the table names.
    """
    if number not in CARRIERS[carrier]:
        assert refused(f"{carrier} {number:02x} 00 00").found == f"id 0x{number:02x}"
        return
    body = exact(carrier + DATA_IDS[number]).body
    name: str = (body.body if carrier == IN_REPLY else body).NAME
    assert name == DATA_NAMES[number]


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
def test_unnamed_header_bits_are_ignored(name: str) -> None:
    """MR-54, MR-60, MR-65, MR-175, MR-181, MR-219, MR-232, PU-42, RE-39, RE-48, RE-58: header bits drawn as X
    are written as zero and mean nothing.
    """
    crossed, plain = RESERVED[name]
    assert accepted(crossed) == exact(plain)


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


def test_batch_has_several_transport_messages() -> None:
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


def test_network_messages_travel_in_frames_of_several_kinds() -> None:
    """MR-63, MR-98: each network message may stand in a FRAME, next to any other."""
    inside = [text for text, _ in NETWORK_IDS.values()]
    frame = exact(f"25 00 {' '.join(inside)}")
    assert [type(message) for message in frame.msgs] == [cls for _, cls in NETWORK_IDS.values()]


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
