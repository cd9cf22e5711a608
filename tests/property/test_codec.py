"""What holds for every message, whatever is in it: derived from the declarations, so new ones are tested, too."""

from __future__ import annotations

import pickle
import tracemalloc
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, assume, find, given, settings
from hypothesis import strategies as st

from tests import strategies
from tests.strategies import examples
from zenspark.errors import DecodeError, EncodeError, UnknownExtension, UsageError
from zenspark.wire import codec, messages
from zenspark.wire.buffer import Reader, Writer
from zenspark.wire.codec_generator import MESSAGE_FAMILIES, MessageSource, collect_messages
from zenspark.wire.json_fields import from_json_fields, to_json_fields
from zenspark.wire.message_schema import (
    Flags,
    FunctionCodec,
    IntCodec,
    ListCodec,
    Message,
    PrefixedCodec,
    RemainderCodec,
    WireField,
    fields_of,
    replace,
)
from zenspark.wire.values import Extension

every_message = pytest.mark.parametrize("cls", collect_messages(), ids=lambda cls: cls.__name__)

# -- to decode any class, not only those that stand alone --------------------------------------------------------


def readers() -> Iterator[tuple[type[Message], Callable[[Reader], Any]]]:
    """What takes a message of each class from a Reader, its header first."""
    for outer in collect_messages():
        for field in fields_of(outer):
            read_body = getattr(codec, f"read_{MessageSource(outer, False).choice(field)}") if field.bodies else None
            yield from ((body, read_body) for body in field.bodies if read_body)
    yield from ((cls, codec.read_scouting_message) for cls in strategies.members(messages.ScoutingMessage))
    yield from ((cls, codec.read_transport_message) for cls in strategies.members(messages.TransportMessage))
    yield from ((cls, codec.read_network_message) for cls in strategies.members(messages.NetworkMessage))
    yield messages.LinkState, lambda reader: codec.read_link_state(reader, reader.u8())


READERS = dict(readers())
DECODERS: dict[Callable[[Reader], Any], Callable[[bytes], Any]] = {
    codec.read_scouting_message: codec.decode_scouting,
    codec.read_transport_message: codec.decode_transport,
    codec.read_network_message: codec.decode_network,
}


def exact(data: bytes) -> memoryview:
    """The same in memory of just that size: behind bytes there is one more, and AddressSanitizer would see no harm."""
    return memoryview(array("B", list(data)))


def decode(cls: type[Message], data: bytes | bytearray | memoryview) -> Any:  # noqa: ANN401 - a message with whatever fields
    """The one message in these bytes, by the decoder for this class."""
    decoder = DECODERS.get(READERS[cls])
    if decoder is not None:
        return decoder(data)  # type: ignore[arg-type]
    reader = Reader(data)
    message = READERS[cls](reader)
    if reader.left():
        raise DecodeError("the end", reader.pos)
    return message


def is_open_ended(cls: type[Message]) -> bool:
    """Whether it ends where its bytes end, as fragments and frames do."""
    word = fields_of(cls)[-1].codec
    return isinstance(word, RemainderCodec) or (isinstance(word, FunctionCodec) and word.name == "network_messages")


def fields_with_extension(cls: type[Message]) -> list[WireField]:
    return [field for field in fields_of(cls) if field.ext]


def has_block(cls: type[Message]) -> bool:
    return any(field.name == "exts" for field in fields_of(cls))


@cache
def simplest(cls: type[Message]) -> Message:
    """The first message of a class that the strategies think of."""
    at_once = settings(phases=[Phase.generate], max_examples=1, database=None)
    return find(strategies.messages(cls), lambda message: True, settings=at_once)


with_block = pytest.mark.parametrize("cls", [*filter(has_block, collect_messages())], ids=lambda cls: cls.__name__)

# -- there and back ----------------------------------------------------------------------------------------------


@every_message
@examples(30)
@given(data=st.data())
def test_encode_decode_round_trip(cls: type[Message], data: st.DataObject) -> None:
    message = data.draw(strategies.messages(cls))
    wire = codec.encode(message)
    assert decode(cls, wire) == message
    assert hash(decode(cls, wire)) == hash(message)
    assert decode(cls, bytearray(wire)) == decode(cls, exact(wire)) == message
    assert pickle.loads(pickle.dumps(message)) == message


@pytest.mark.parametrize(
    "cls", [cls for cls in collect_messages() if issubclass(cls, MESSAGE_FAMILIES)], ids=lambda cls: cls.__name__
)
@examples(20)
@given(data=st.data())
def test_json_fields_round_trip(cls: type[Message], data: st.DataObject) -> None:
    message = data.draw(strategies.messages(cls))
    shown = msgspec.json.decode(msgspec.json.encode(to_json_fields(message)))
    assert from_json_fields(cls.__mro__[1], shown) == message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)


def places(shown: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - anything JSON has
    """Every list and object with every index or name in it."""
    names = range(len(shown)) if isinstance(shown, list) else list(shown) if isinstance(shown, dict) else []
    for name in names:
        yield shown, name
        yield from places(shown[name])


@examples(150)
@given(data=st.data(), family=st.sampled_from(MESSAGE_FAMILIES[:3]))
def test_any_fields_describe_a_message_or_are_rejected(data: st.DataObject, family: type[Message]) -> None:
    message = data.draw(st.one_of(*map(strategies.messages, strategies.members(family))))
    shown = msgspec.json.decode(msgspec.json.encode(to_json_fields(message)))
    container, name = data.draw(st.sampled_from(list(places(shown))))
    container[name] = data.draw(json_values)
    with suppress(UsageError):
        codec.encode(from_json_fields(family, shown))


@examples(20)
@given(entries=strategies.link_states())
def test_link_states_decode_to_the_same(entries: tuple[messages.LinkState, ...]) -> None:
    body = codec.encode_link_states(entries)
    assert codec.decode_link_states(body) == entries
    oam = messages.NetworkOam(id=messages.NetworkOam.LINK_STATE, zbuf=body)
    assert len(to_json_fields(oam)["linkstate"]) == len(entries)


@examples(40)
@given(batch=st.lists(strategies.transport(), max_size=4))
def test_a_batch_decodes_to_its_messages(batch: list[Message]) -> None:
    batch = [m for m in batch[:-1] if not isinstance(m, messages.Fragment)] + batch[-1:]
    assert list(codec.decode_batch(b"".join(map(codec.encode, batch)))) == batch


@examples(40)
@given(batch=st.lists(strategies.network() | strategies.messages(messages.KeepAlive), max_size=4))
def test_a_bare_batch_decodes_to_its_messages(batch: list[Message]) -> None:
    assert list(codec.decode_bare_batch(b"".join(map(codec.encode, batch)))) == batch


# -- too short, too long, damaged --------------------------------------------------------------------------------


@every_message
@examples(10)
@given(data=st.data())
def test_no_strict_prefix_is_a_message(cls: type[Message], data: st.DataObject) -> None:
    message = data.draw(strategies.messages(cls))
    wire = codec.encode(message)
    for length in range(len(wire)):
        if is_open_ended(cls):
            shorter = decoded_or_refused(lambda data: decode(cls, data), exact(wire[:length]))
            assert shorter is None or (type(shorter) is cls and shorter != message)
        else:
            with pytest.raises(DecodeError):
                decode(cls, exact(wire[:length]))


@pytest.mark.parametrize(
    "cls", [cls for cls in collect_messages() if not is_open_ended(cls)], ids=lambda cls: cls.__name__
)
@examples(5)
@given(data=st.data(), more=st.binary(min_size=1, max_size=9))
def test_nothing_may_follow_a_message(cls: type[Message], data: st.DataObject, more: bytes) -> None:
    wire = codec.encode(data.draw(strategies.messages(cls)))
    with pytest.raises(DecodeError) as caught:
        decode(cls, wire + more)
    assert caught.value.position == len(wire)


def decoded_or_refused(decoder: Callable[[Any], Any], data: bytes | memoryview) -> Any:  # noqa: ANN401 - any message, or several
    try:
        return decoder(data)
    except DecodeError as error:
        refusal = error
    assert 0 <= refusal.position <= len(data)
    assert str(refusal)
    return None


@st.composite
def damaged(draw: st.DrawFn, whole_bytes: bytes) -> bytes:
    """The same bytes with a few replaced, inserted or deleted."""
    changed = bytearray(whole_bytes)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(changed)))
        removed = draw(st.integers(0, 2))
        changed[at : at + removed] = draw(st.binary(max_size=2))
    return bytes(changed)


@every_message
@examples(20)
@given(data=st.data())
def test_damage_is_rejected_or_decodes_to_something_stable(cls: type[Message], data: st.DataObject) -> None:
    wire = data.draw(damaged(codec.encode(data.draw(strategies.messages(cls)))))
    message = decoded_or_refused(lambda data: decode(cls, data), exact(wire))
    if message is not None:
        assert decode(type(message), codec.encode(message)) == message


@pytest.mark.parametrize(
    "decoder",
    [
        codec.decode_scouting,
        codec.decode_transport,
        codec.decode_network,
        codec.decode_batch,
        codec.decode_bare_batch,
        codec.decode_link_states,
    ],
)
@examples(100)
@given(data=st.binary(max_size=60))
def test_any_bytes_decode_or_are_rejected(decoder: Callable[[Any], Any], data: bytes) -> None:
    decoded_or_refused(decoder, exact(data))


# -- bounded work ------------------------------------------------------------------------------------------------

BYTES_PER_BYTE = 96
"""What one byte of input may cost at the peak. The dearest are a DECLARE of two bytes and an extension of one: each
byte becomes an object and an entry each in a list and a tuple, 68 bytes when this was written."""
OVERHEAD = 16_384
"""What any decoding may cost besides: its reader, its error, a traceback."""

BATCH = 65_535
FULL_UNITS = bytes([0x8F]) * (BATCH - 3) + bytes([0x0F])
HOSTILE = {
    "extensions of one byte": (codec.decode_transport, b"\x84" + FULL_UNITS),
    "extensions of one byte, cut short": (codec.decode_transport, b"\x84" + FULL_UNITS[:-1]),
    "keep-alives": (codec.decode_batch, b"\x04" * BATCH),
    "empty frames": (codec.decode_batch, b"\x05\x00" * (BATCH // 2)),
    "finals in a frame": (codec.decode_batch, b"\x05\x00" + b"\x1e\x1a" * (BATCH // 2)),
    "bare finals": (codec.decode_bare_batch, b"\x1e\x1a" * (BATCH // 2)),
    "2^64-1 locators": (codec.decode_scouting, b"\x22\x09\x00\x01" + b"\xff" * 9 + b"\x03a/b" * 16_000),
    "2^64-1 link states": (codec.decode_link_states, b"\xff" * 9 + b"\x00\x00\x00\x00" * 16_000),
    "2^64-1 links": (codec.decode_link_states, b"\x01\x00\x00\x00" + b"\xff" * 9 + b"\xff\x7f" * 32_000),
    "2^64-1 timestamp records": (codec.decode_network, b"\x9d\x00\x47\x0a\x01" + b"\xff" * 9),
    "2^32-1 bytes of payload": (codec.decode_network, b"\x1d\x00\x01\xff\xff\xff\xff\x0f" + bytes(BATCH)),
    "2^32-1 slices of payload": (codec.decode_network, b"\x1d\x00\x81\x12\xff\xff\xff\xff\x0f" + bytes(BATCH)),
    "2^32-1 bytes of extension": (codec.decode_network, b"\x9d\x00\x4f\xff\xff\xff\xff\x0f" + bytes(BATCH)),
    "2^64-1 bytes of parameters": (codec.decode_network, b"\x1c\x00\x00\x43" + b"\xff" * 9 + bytes(BATCH)),
    "text of wide characters": (
        codec.decode_network,
        b"\x3d\x00\xfc\xff\x03" + "\U0001f600".encode() * 16_383 + b"\x02",
    ),
    "one known extension again and again": (codec.decode_network, b"\x9d\x00" + b"\xa1\x08" * 32_000 + b"\x21\x08\x02"),
    "a chain of large extensions": (codec.decode_network, b"\x9d\x00" + (b"\xcf\xff\x1f" + bytes(4095)) * 16),
}


MEASUREMENTS = 3
"""How often an input may be measured: other threads of the test process and coverage allocate memory, too."""


def check_memory(decoder: Callable[[Any], Any], inputs: Iterable[bytes]) -> None:
    """Check that decoding each input takes memory in proportion to it; what decoding takes it takes each time."""
    tracemalloc.start()
    try:
        for data in inputs:
            limit = BYTES_PER_BYTE * len(data) + OVERHEAD
            peaks: list[int] = []
            while not peaks or (peaks[-1] > limit and len(peaks) < MEASUREMENTS):
                before, _ = tracemalloc.get_traced_memory()
                tracemalloc.reset_peak()
                decoded_or_refused(decoder, data)
                peaks.append(tracemalloc.get_traced_memory()[1] - before)
            assert peaks[-1] <= limit, f"{peaks} bytes for {data!r}"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("decoder", "data"), HOSTILE.values(), ids=HOSTILE)
def test_memory_is_bounded_by_the_input(decoder: Callable[[Any], Any], data: bytes) -> None:
    check_memory(decoder, [data])


@every_message
@examples(3)
@given(data=st.data())
def test_memory_is_bounded_whichever_byte_is_flipped(cls: type[Message], data: st.DataObject) -> None:
    wire = codec.encode(data.draw(strategies.messages(cls)))
    flipped = [
        wire[:at] + bytes([wire[at] ^ bits]) + wire[at + 1 :]
        for at in range(min(len(wire), 200))
        for bits in (0x01, 0x40, 0x80, 0xFF)
    ]
    check_memory(lambda data: decode(cls, data), flipped)


class CountingReader(Reader):
    """Counts reads and copied bytes; bytes that are read again count again."""

    steps = 0
    copied = 0

    def u8(self) -> int:
        self.steps += 1
        byte: int = super().u8()
        return byte

    def z(self, bits: int) -> int:
        self.steps += 1
        number: int = super().z(bits)
        return number

    def take(self, length: int) -> bytes:
        self.steps += 1
        self.copied += length
        return super().take(length)


@with_block
@pytest.mark.parametrize("length", [100, BATCH])
def test_a_chain_of_extensions_costs_one_step_each(cls: type[Message], length: int) -> None:
    chain = Chain(simplest(cls))
    header = strategies.unknown_headers(cls, mandatory=False)[0]
    reader = CountingReader(chain.joined([bytes([header])] * length))
    assert len(READERS[cls](reader).exts) == length
    around = len(chain.head) + len(chain.tail)
    assert reader.steps <= length + 2 * around
    assert reader.copied <= around


# -- other spellings of the same message -------------------------------------------------------------------------


def long_form(value: int, size: int) -> bytes:
    """An integer in exactly so many bytes, or more if it needs them."""
    spelled = bytearray()
    while len(spelled) < 8 and (value > 0x7F or len(spelled) + 1 < size):
        spelled.append(0x80 | value & 0x7F)
        value >>= 7
    return bytes((*spelled, value))


class LongWriter(Writer):
    """Spells every integer in more bytes than it needs."""

    size = 9

    def z(self, value: Any, bits: int, field: str) -> None:  # noqa: ANN401 - as the method it replaces
        self.data.extend(long_form(value, self.size))

    def blob(self, value: Any, bits: int, field: str) -> None:  # noqa: ANN401 - as the method it replaces
        self.data.extend(long_form(len(value), self.size) + value)

    def leave(self, start: int) -> None:
        self.data[start - 1 : start] = long_form(len(self.data) - start, self.size)


@every_message
@examples(10)
@given(data=st.data(), size=st.integers(2, 9))
def test_long_integers_are_accepted_and_short_ones_written(cls: type[Message], data: st.DataObject, size: int) -> None:
    message = data.draw(strategies.messages(cls))
    out = LongWriter()
    out.size = size
    codec.write(out, message)
    decoded = decode(cls, bytes(out.data))
    assert decoded == message
    assert codec.encode(decoded) == codec.encode(message)


class RecordingWriter(Writer):
    """Remembers where extensions and flag bytes of the outermost message stand."""

    first_extension = -1

    def __init__(self) -> None:
        super().__init__()
        self.flag_bytes: dict[str, int] = {}

    def extension(self, previous: int, header: int) -> int:
        at: int = super().extension(previous, header)
        if previous == 0:
            self.first_extension = at
        return at

    def u8(self, value: Any, field: str) -> None:  # noqa: ANN401 - as the method it replaces
        self.flag_bytes.setdefault(field, len(self.data))
        super().u8(value, field)


def recorded(message: Message) -> RecordingWriter:
    out = RecordingWriter()
    codec.write(out, message)
    return out


class Chain:
    """A message cut into what stands before its extensions, each of them, and what stands behind."""

    def __init__(self, message: Message) -> None:
        marker = Extension(strategies.unknown_headers(type(message), mandatory=False)[0])
        out = recorded(replace(message, exts=(*message.exts, marker)))  # type: ignore[attr-defined]
        reader = Reader(bytes(out.data), out.first_extension)
        self.head = bytes((out.data[0] & 0x7F, *out.data[1 : reader.pos]))
        self.parts: list[bytes] = []
        follows = 0x80
        while follows:
            start = reader.pos
            header = reader.u8()
            follows = header & 0x80
            Extension.read(reader, header & 0x7F, False)
            self.parts.append(bytes((header & 0x7F, *out.data[start + 1 : reader.pos])))
        self.parts.pop()  # the marker, which was there so that there is a chain at all
        self.tail = bytes(out.data[reader.pos :])

    def joined(self, parts: list[bytes]) -> bytes:
        """The message with these extensions."""
        *before, last = [self.head, *parts]
        return b"".join([*(bytes((part[0] | 0x80, *part[1:])) for part in before), last, self.tail])


def sorted_extensions(message: Message) -> Message:
    return replace(message, exts=tuple(sorted(message.exts, key=repr)))  # type: ignore[attr-defined]


@with_block
@examples(15)
@given(data=st.data())
def test_extensions_may_come_in_any_order(cls: type[Message], data: st.DataObject) -> None:
    message = data.draw(strategies.messages(cls))
    chain = Chain(message)
    assert chain.joined(chain.parts) == codec.encode(message)
    shuffled = data.draw(st.permutations(chain.parts))
    assert sorted_extensions(decode(cls, chain.joined(shuffled))) == sorted_extensions(message)


@pytest.mark.parametrize(
    "cls", [cls for cls in collect_messages() if fields_with_extension(cls)], ids=lambda cls: cls.__name__
)
@examples(15)
@given(data=st.data())
def test_of_a_repeated_extension_the_last_one_counts(cls: type[Message], data: st.DataObject) -> None:
    first = data.draw(strategies.messages(cls))
    second = data.draw(strategies.messages(cls))
    kept = {
        field.name: getattr(first, field.name) for field in fields_of(cls) if isinstance(field.codec, FunctionCodec)
    }
    for field in fields_of(cls):  # what decides the form of another field must not change under it
        kept |= {name: getattr(first, name) for name in getattr(field.codec, "fields", ())}
    second = replace(second, exts=(), **kept)
    repeated = {
        field.name: getattr(second, field.name)
        for field in fields_with_extension(cls)
        if getattr(second, field.name) != field.default
    }
    chain = Chain(first)
    wire = chain.joined(chain.parts + Chain(second).parts)
    assert decode(cls, wire) == replace(first, **repeated)


@with_block
@examples(15)
@given(data=st.data())
def test_an_unknown_mandatory_extension_is_named(cls: type[Message], data: st.DataObject) -> None:
    chain = Chain(data.draw(strategies.messages(cls)))
    header = data.draw(st.sampled_from(strategies.unknown_headers(cls, mandatory=True)))
    extension = data.draw(strategies.extensions(header))
    out = Writer()
    out.u8(0, "header")
    extension.write(out, 0)
    index = data.draw(st.integers(0, len(chain.parts)))
    wire = chain.joined([*chain.parts[:index], bytes(out.data[1:]), *chain.parts[index:]])
    if cls.LENIENT:
        assert extension in decode(cls, wire).exts
        return
    with pytest.raises(UnknownExtension) as caught:
        decode(cls, wire)
    assert caught.value.message == cls.NAME
    assert caught.value.extension == header & 0x0F
    assert caught.value.position == len(chain.head) + sum(map(len, chain.parts[:index]))


def reserved_bits(flags: Flags) -> int:
    named = flags.constant_mask
    for name in flags.shift:
        named |= flags.mask(name)
    return ~named & 0xFF


@every_message
@examples(10)
@given(data=st.data())
def test_reserved_bits_are_ignored(cls: type[Message], data: st.DataObject) -> None:
    message = data.draw(strategies.messages(cls))
    out = recorded(message)
    places = {"header": cls.HEADER} | {field.name: field.flags for field in fields_of(cls) if field.flags}
    for name, flags in places.items():
        if flags is not None and name in out.flag_bytes:
            out.data[out.flag_bytes[name]] |= data.draw(st.integers(0, 255)) & reserved_bits(flags)
    assert decode(cls, bytes(out.data)) == message


# -- what cannot be written --------------------------------------------------------------------------------------


def places_of(kind: type) -> list[Any]:
    """Every field of every message with this kind of word, or a list of it."""
    return [
        pytest.param(cls, field, id=f"{cls.__name__}.{field.name}")
        for cls in collect_messages()
        for field in fields_of(cls)
        if isinstance(field.codec, kind) or (isinstance(field.codec, ListCodec) and isinstance(field.codec.codec, kind))
    ]


def with_value(message: Message, field: WireField, value: object) -> Message:
    """The message with one field changed, and its neighbours so that this field is on the wire."""
    changes = {field.name: (value,) if isinstance(field.codec, ListCodec) else value}
    for other in fields_of(type(message)):
        if other.when and field.when and other.when.flag == field.when.flag and other.name != field.name:
            changes[other.name] = 0 if field.when.equals is None else None
    return replace(message, **changes)


@pytest.mark.parametrize(("cls", "field"), places_of(IntCodec))
@examples(5)
@given(data=st.data())
def test_an_integer_out_of_range_is_named(cls: type[Message], field: WireField, data: st.DataObject) -> None:
    message = data.draw(strategies.messages(cls))
    word = field.codec.codec if isinstance(field.codec, ListCodec) else field.codec
    assert isinstance(word, IntCodec)
    wrong = data.draw(st.sampled_from([-1, 1 << word.bits, -(1 << 70), 1 << 70, "1", 1.0]))
    with pytest.raises(EncodeError) as caught:
        codec.encode(with_value(message, field, wrong))
    assert (caught.value.message, caught.value.field) == (cls.NAME, field.name)


@pytest.mark.parametrize(("cls", "field"), [*places_of(PrefixedCodec), *places_of(RemainderCodec)])
@examples(5)
@given(data=st.data())
def test_error_names_the_field_of_wrong_type(cls: type[Message], field: WireField, data: st.DataObject) -> None:
    message = data.draw(strategies.messages(cls))
    wrong = data.draw(st.sampled_from([7, "\ud800", b"x" if field.type is str else "x"]))
    assume(type(wrong) is not field.type or wrong == "\ud800")
    with pytest.raises(EncodeError) as caught:
        codec.encode(with_value(message, field, wrong))
    assert (caught.value.message, caught.value.field) == (cls.NAME, field.name)


def places_with_flag() -> list[Any]:
    """Fields that share a flag, or its values, with others."""
    return [
        pytest.param(cls, field, [other for other in sharing if other is not field], id=f"{cls.__name__}.{field.name}")
        for cls in collect_messages()
        for field in fields_of(cls)
        if field.when
        for sharing in [[other for other in fields_of(cls) if other.when and other.when.flag == field.when.flag]]
        if len(sharing) > 1
    ]


@pytest.mark.parametrize(("cls", "field", "others"), places_with_flag())
def test_fields_that_share_a_flag_go_together_or_exclude_each_other(
    cls: type[Message], field: WireField, others: list[WireField]
) -> None:
    together = field.when is not None and field.when.equals is None
    values = {other.name: b"" if other.type is bytes else 0 for other in [field, *others]}
    wrong = replace(simplest(cls), **(values | {field.name: None} if together else values))
    with pytest.raises(EncodeError, match="go together" if together else "exclude each other") as caught:
        codec.encode(wrong)
    assert caught.value.message == cls.NAME


@every_message
def test_a_body_in_the_wrong_place_is_rejected(cls: type[Message]) -> None:
    for outer in collect_messages():
        for field in fields_of(outer):
            if field.bodies and cls not in field.bodies:
                with pytest.raises(EncodeError, match=f"^{outer.NAME}.body: expected .*, got {cls.__name__}$"):
                    codec.encode(replace(simplest(outer), **{field.name: simplest(cls)}))
