from typing import Annotated, Any, ClassVar

import msgspec
import pytest

from zenspark.wire.message_schema import (
    Bits,
    Blob,
    EnumCodec,
    Ext,
    FieldCodec,
    Flags,
    FunctionCodec,
    IntCodec,
    ListCodec,
    LongText,
    Message,
    RemainderCodec,
    Rest,
    RestText,
    ShortBlob,
    Size,
    Text,
    Value,
    ValueCodec,
    When,
    WireField,
    fields_of,
    replace,
    u8,
    u16,
    z16,
    z32,
    z64,
)


class Level:
    """A value carried by an integer."""

    @classmethod
    def from_wire(cls, position: int, value: int) -> "Level":
        return cls()


class Name(Value, frozen=True):
    """A value that needs to know flags of the header to read itself."""

    text: str = ""

    FLAGS: ClassVar = {"N": "named"}


class Inner(Message, header="Z|_:2|0x01"):
    """A body."""


class Other(Message, header="Z|_:2|0x02"):
    """Another body."""


class Sample(Message, header="Z|M|N|0x1D"):
    """A declaration with every word and every mark."""

    NUMBERS: ClassVar = 7
    untyped: ClassVar = Flags("A:4|B:4")
    flags: ClassVar[Flags] = Flags("LEN:4|_:2|WAI:2", when="M")
    level: Annotated[Level, Bits("WAI")]
    name: Name
    id: z32
    extra: Annotated[u8 | None, When("M")] = None
    body: Annotated[Blob | None, When("WAI", 2)] = None
    zid: Annotated[Name, ValueCodec(Name, "sized"), Size("LEN")] = Name()
    levels: tuple[Level, ...] = ()
    narrow: Annotated[Annotated[Level, IntCodec("u", 8)] | None, When("M")] = None
    known: Annotated[bool, Ext(0x1)] = False
    number: Annotated[z16, Ext(0x2, mandatory=True)] = 0
    carried: Annotated[Level | None, Ext(0x3)] = None
    content: Annotated[Rest | None, Ext(0x3)] = None
    payload: Annotated[bytes, FunctionCodec("payload", "known")] = b""
    choice: Inner | Other


def field(name: str) -> WireField:
    return next(field for field in fields_of(Sample) if field.name == name)


def word_of(hint: Any) -> FieldCodec:  # noqa: ANN401 - an annotated type is not a type
    return next(word for word in hint.__metadata__ if isinstance(word, FieldCodec))


# -- words ---


@pytest.mark.parametrize(
    ("hint", "read", "write"),
    [
        (u8, "reader.u8()", "out.u8(m.x, 'x')"),
        (u16, "reader.u16()", "out.u16(m.x, 'x')"),
        (z64, "reader.z(64)", "out.z(m.x, 64, 'x')"),
        (Blob, "reader.blob(32)", "out.blob(m.x, 32, 'x')"),
        (ShortBlob, "reader.blob(16)", "out.blob(m.x, 16, 'x')"),
        (Text, "reader.text(16)", "out.text(m.x, 16, 'x')"),
        (LongText, "reader.text(64)", "out.text(m.x, 64, 'x')"),
        (Rest, "reader.rest()", "out.raw(m.x, 'x')"),
        (RestText, "reader.rest_text()", "out.rest_text(m.x, 'x')"),
    ],
)
def test_field_codecs_generate_source_text(hint: Any, read: str, write: str) -> None:  # noqa: ANN401 - as above
    assert word_of(hint).read() == read
    assert word_of(hint).write("m.x", "x") == write


@pytest.mark.parametrize(
    ("word", "read", "write"),
    [
        (EnumCodec(IntCodec("u", 8), Level), "Level.from_wire(reader.pos, reader.u8())", "out.u8(m.x.to_wire(), 'x')"),
        (ValueCodec(Name), "Name.read(reader)", "m.x.write(out)"),
        (ValueCodec(Name, "sized"), "Name.read_sized(reader)", "m.x.write_sized(out)"),
        (FunctionCodec("payload", "shm"), "read_payload(reader, shm)", "write_payload(out, m.x, m.shm)"),
        (FunctionCodec("messages"), "read_messages(reader)", "write_messages(out, m.x)"),
    ],
)
def test_composite_field_codecs_generate_source_text(word: FieldCodec, read: str, write: str) -> None:
    assert word.read() == read
    assert word.write("m.x", "x") == write


def test_a_list_is_a_count_and_its_items() -> None:
    word = ListCodec(IntCodec("z", 16))
    assert word.read() == "tuple([reader.z(16) for _ in range(reader.z(64))])"
    assert word.write("m.x", "x").split("\n") == [
        "out.z(len(m.x), 64, 'x')",
        "for each_x in m.x:",
        "    out.z(each_x, 16, 'x')",
    ]


def test_abstract_field_codec_cannot_be_instantiated() -> None:
    with pytest.raises(TypeError, match="abstract"):
        FieldCodec()  # type: ignore[abstract]


# -- flag bytes ---


def test_flags_from_bit_7_to_bit_0() -> None:
    flags = Flags("Z|MODE:2|0x19")
    assert flags.shift == {"Z": 7, "MODE": 5}
    assert flags.mask("Z") == 0x80
    assert flags.mask("MODE") == 0x60
    assert (flags.constant, flags.constant_mask) == (0x19, 0x1F)


def test_flags_that_are_reserved_or_constant() -> None:
    flags = Flags("Z|_|A=1|0x01")
    assert flags.shift == {"Z": 7}
    assert (flags.constant, flags.constant_mask) == (0x21, 0x3F)
    assert (Flags("A=0|_:7").constant, Flags("A=0|_:7").constant_mask) == (0, 0x80)


@pytest.mark.parametrize("text", ["Z|M", "Z|_:8", "A:3|B:4"])
def test_flags_fill_a_byte(text: str) -> None:
    with pytest.raises(TypeError, match="bits instead of 8"):
        Flags(text)


# -- declarations ---


def test_fields_are_in_wire_order() -> None:
    names = [name for name in Sample.__annotations__ if name not in ("NUMBERS", "untyped")]
    assert [field.name for field in fields_of(Sample)] == ["untyped", *names]
    assert fields_of(Sample) is fields_of(Sample)


def test_fields_have_their_codec() -> None:
    expected = {
        "name": ValueCodec,
        "id": IntCodec,
        "zid": ValueCodec,
        "levels": ListCodec,
        "narrow": EnumCodec,
        "carried": EnumCodec,
        "content": RemainderCodec,
        "payload": FunctionCodec,
    }
    assert {name: type(field(name).codec) for name in expected} == expected
    assert field("choice").codec is None
    assert field("choice").bodies == (Inner, Other)
    assert field("id").type is int


def test_required_and_optional_fields_are_distinguished() -> None:
    assert field("id").required
    assert not field("id").optional
    assert field("extra").optional
    assert field("extra").default is None
    assert not field("zid").required


def test_fields_have_their_when_bits_size_and_flags() -> None:
    extra, body, level, zid = (field(name) for name in ("extra", "body", "level", "zid"))
    assert extra.when is not None
    assert (extra.when.flag, extra.when.equals) == ("M", None)
    assert body.when is not None
    assert (body.when.flag, body.when.equals) == ("WAI", 2)
    assert level.bits is not None
    assert level.bits.flag == "WAI"
    assert zid.size is not None
    assert zid.size.flag == "LEN"
    assert field("flags").flags is Sample.flags
    assert Sample.flags.when == "M"


def test_values_decide_flags_unless_they_have_another_form() -> None:
    assert field("name").value_flags == {"N": "named"}
    assert field("zid").value_flags == {}
    assert field("id").value_flags == {}


@pytest.mark.parametrize(("name", "header"), [("known", 0x01), ("number", 0x32), ("carried", 0x23), ("content", 0x43)])
def test_extension_fields_have_their_header(name: str, header: int) -> None:
    assert field(name).ext_header == header


def test_messages_have_a_name_on_the_wire() -> None:
    class OpenSyn(Message, header="_:3|0x02"): ...

    class DeclareToken(Message, header="_:3|0x06"): ...

    class UndeclareToken(Message, header="_:3|0x07"): ...

    class Hidden(Message, header="_:3|0x00", name="OAM", listed=True): ...

    assert [cls.NAME for cls in (OpenSyn, DeclareToken, UndeclareToken, Hidden)] == [
        "OPEN_SYN",
        "D_TOKEN",
        "U_TOKEN",
        "OAM",
    ]
    assert (Hidden.LISTED, OpenSyn.LISTED) == (True, False)
    assert Message.HEADER is None


def test_messages_are_values() -> None:
    class Close(Message, header="_:3|0x03"):
        reason: u8
        session: bool = False

    close = Close(reason=1)
    assert close == Close(reason=1, session=False)
    assert hash(close) == hash(Close(reason=1))
    assert replace(close, reason=2) == Close(reason=2)
    with pytest.raises(AttributeError):
        close.reason = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        Close(1)  # type: ignore[call-arg]
    assert msgspec.structs.asdict(close) == {"reason": 1, "session": False}  # type: ignore[arg-type]
