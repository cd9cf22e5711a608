"""Schema of messages: field codecs, field positions, and the base classes.

A message is a class whose annotations, read top to bottom, are its bytes. This module defines the annotations
(`IntCodec`, `PrefixedCodec`, `RemainderCodec`, `ListCodec`; `When`, `Bits`, `Size`, `Ext`), the base classes that
collect them, and `WireField`, which the code generator, the JSON field view and the tests read.
"""

from __future__ import annotations

import re
import types
from abc import ABC, abstractmethod
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    TypeAlias,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

TypeHint: TypeAlias = Any
"""A type hint, or a default value."""

# -- codecs of values ------------------------------------------------------------------------------


class FieldCodec(ABC):
    """Generates the source text that reads and writes one value."""

    @abstractmethod
    def read(self) -> str:
        """Expression that reads the value from `reader`."""

    @abstractmethod
    def write(self, value: str, field: str) -> str:
        """Statement that writes the value of an expression to `out`."""


class IntCodec(FieldCodec):
    """Unsigned integer of at most `bits` bits: fixed width (`u`) or variable length (`z`)."""

    def __init__(self, form: str, bits: int) -> None:
        self.form = form
        self.bits = bits

    def read(self) -> str:
        return f"reader.z({self.bits})" if self.form == "z" else f"reader.u{self.bits}()"

    def write(self, value: str, field: str) -> str:
        if self.form == "z":
            return f"out.z({value}, {self.bits}, {field!r})"
        return f"out.u{self.bits}({value}, {field!r})"


class PrefixedCodec(FieldCodec):
    """Length of at most `bits` bits, then bytes (`blob`) or UTF-8 (`text`)."""

    def __init__(self, form: str, bits: int) -> None:
        self.form = form
        self.bits = bits

    def read(self) -> str:
        return f"reader.{self.form}({self.bits})"

    def write(self, value: str, field: str) -> str:
        return f"out.{self.form}({value}, {self.bits}, {field!r})"


class RemainderCodec(FieldCodec):
    """All remaining bytes: raw (`raw`), or UTF-8 (`rest_text`)."""

    def __init__(self, form: str) -> None:
        self.form = form

    def read(self) -> str:
        return "reader.rest()" if self.form == "raw" else "reader.rest_text()"

    def write(self, value: str, field: str) -> str:
        return f"out.{self.form}({value}, {field!r})"


class EnumCodec(FieldCodec):
    """Value class encoded as an integer: an enumeration, or bit flags."""

    def __init__(self, carrier: IntCodec, cls: type) -> None:
        self.carrier = carrier
        self.cls = cls

    def read(self) -> str:
        return f"{self.cls.__name__}.from_wire(reader.pos, {self.carrier.read()})"

    def write(self, value: str, field: str) -> str:
        return self.carrier.write(f"{value}.to_wire()", field)


class ValueCodec(FieldCodec):
    """Value class with its own `read` and `write`; header flags it needs are passed to `read`."""

    def __init__(self, cls: type[Value], form: str = "") -> None:
        self.cls = cls
        self.suffix = f"_{form}" if form else ""
        self.flags: dict[str, str] = {} if form else getattr(cls, "FLAGS", {})

    def read(self) -> str:
        return f"{self.cls.__name__}.read{self.suffix}(reader)"

    def write(self, value: str, field: str) -> str:
        return f"{value}.write{self.suffix}(out)"


class ListCodec(FieldCodec):
    """Count, then that many items of one codec."""

    def __init__(self, codec: FieldCodec) -> None:
        self.codec = codec

    def read(self) -> str:
        return f"tuple([{self.codec.read()} for _ in range(reader.z(64))])"

    def write(self, value: str, field: str) -> str:
        each = f"each_{field}"
        return f"out.z(len({value}), 64, {field!r})\nfor {each} in {value}:\n    {self.codec.write(each, field)}"


class FunctionCodec(FieldCodec):
    """Codec with a function of its own: network messages of a frame, slices of a shared-memory payload."""

    def __init__(self, name: str, *fields: str) -> None:
        self.name = name
        self.fields = fields

    def read(self) -> str:
        return f"read_{self.name}({', '.join(('reader', *self.fields))})"

    def write(self, value: str, field: str) -> str:
        return f"write_{self.name}({', '.join(('out', value, *(f'm.{name}' for name in self.fields)))})"


u8 = Annotated[int, IntCodec("u", 8)]
u16 = Annotated[int, IntCodec("u", 16)]
z16 = Annotated[int, IntCodec("z", 16)]
z32 = Annotated[int, IntCodec("z", 32)]
z64 = Annotated[int, IntCodec("z", 64)]
Blob = Annotated[bytes, PrefixedCodec("blob", 32)]
ShortBlob = Annotated[bytes, PrefixedCodec("blob", 16)]
Text = Annotated[str, PrefixedCodec("text", 16)]
LongText = Annotated[str, PrefixedCodec("text", 64)]
Rest = Annotated[bytes, RemainderCodec("raw")]
RestText = Annotated[str, RemainderCodec("rest_text")]

# -- position of values ----------------------------------------------------------------------------------------


class When:
    """Condition of a field: it is present only if the flag is set (or the flag bits have this value)."""

    def __init__(self, flag: str, equals: int | None = None) -> None:
        self.flag = flag
        self.equals = equals


class Bits:
    """The value is encoded in these bits of a flag byte."""

    def __init__(self, flag: str) -> None:
        self.flag = flag


class Size:
    """The length of the value, minus one, is encoded in these bits of a flag byte."""

    def __init__(self, flag: str) -> None:
        self.flag = flag


class Ext:
    """Extension, identified by its number, its mandatory bit and its encoding together."""

    def __init__(self, number: int, *, mandatory: bool = False) -> None:
        self.number = number
        self.mandatory = mandatory


class Flags:
    """Flag byte from bit 7 to bit 0, as in "Z|M|N|0x1D": names, `NAME:width`, `_` reserved, `A=1` constant."""

    def __init__(self, text: str, when: str | None = None) -> None:
        self.text = text
        self.when = when
        self.shift: dict[str, int] = {}
        self.width: dict[str, int] = {}
        self.constant = 0
        self.constant_mask = 0
        bit = 8
        for part in text.split("|"):
            bit -= self._parse(part, bit)
        if bit:
            raise TypeError(f"{text!r} describes {8 - bit} bits instead of 8")

    def _parse(self, part: str, bit: int) -> int:
        name, _, width_text = part.partition(":")
        name, _, constant = name.partition("=")
        width = int(width_text or 1)
        if name.startswith("0x"):
            width, constant = bit, name
        if constant:
            self.constant |= int(constant, 0) << (bit - width)
            self.constant_mask |= ((1 << width) - 1) << (bit - width)
        elif name != "_":
            self.shift[name] = bit - width
            self.width[name] = width
        return width

    def mask(self, name: str) -> int:
        """Bit mask of a flag."""
        return ((1 << self.width[name]) - 1) << self.shift[name]


# -- fields, and the classes that have them ----------------------------------------------------------------------

REQUIRED: TypeHint = msgspec.NODEFAULT


class WireField(msgspec.Struct, frozen=True):
    """One field of a message declaration."""

    name: str
    type: TypeHint
    codec: FieldCodec | None
    default: TypeHint
    optional: bool
    bodies: tuple[type[Message], ...] = ()
    when: When | None = None
    bits: Bits | None = None
    size: Size | None = None
    ext: Ext | None = None
    flags: Flags | None = None

    @property
    def required(self) -> bool:
        """Whether the field has no default."""
        return self.default is REQUIRED

    @property
    def value_flags(self) -> dict[str, str]:
        """Header flags determined by the value: their names, and the attributes that give them."""
        return self.codec.flags if isinstance(self.codec, ValueCodec) else {}

    @property
    def ext_header(self) -> int:
        """Header byte of the extension, without the bit that another follows."""
        assert self.ext is not None
        return self.ext.number | (0x10 if self.ext.mandatory else 0) | self.ext_kind << 5

    @property
    def ext_kind(self) -> int:
        """Encoding of the extension: 0 unit, 1 integer, 2 bytes."""
        if self.type is bool:
            return 0
        return 1 if isinstance(self.codec, (IntCodec, EnumCodec)) else 2


def origin(hint: TypeHint) -> object:
    """Generic origin of a hint: Annotated, tuple, a union, or None for a plain class."""
    return get_origin(hint)


def _codec_of(hint: TypeHint) -> FieldCodec | None:
    if origin(hint) is Annotated:
        inner, *annotations = get_args(hint)
        codec = next((item for item in annotations if isinstance(item, FieldCodec)), None)
        if isinstance(codec, IntCodec) and hasattr(inner, "from_wire"):
            return EnumCodec(codec, inner)
        return codec or _codec_of(inner)
    if origin(hint) is tuple:
        item = _codec_of(get_args(hint)[0])
        return ListCodec(item) if item else None
    if isinstance(hint, type) and hasattr(hint, "from_wire"):
        return EnumCodec(IntCodec("z", 64), hint)
    if isinstance(hint, type) and issubclass(hint, Value):
        return ValueCodec(hint)
    return None


def _plain(hint: TypeHint) -> TypeHint:
    return get_args(hint)[0] if origin(hint) is Annotated else hint


def _field(name: str, hint: TypeHint, default: TypeHint) -> WireField:
    marks: dict[str, TypeHint] = {}
    codecs = []
    if origin(hint) is Annotated:
        hint, *metadata = get_args(hint)
        marks = {type(mark).__name__.lower(): mark for mark in metadata if isinstance(mark, (When, Bits, Size, Ext))}
        codecs = [mark for mark in metadata if isinstance(mark, FieldCodec)]
    choices = get_args(hint) if origin(hint) in (Union, types.UnionType) else (hint,)
    kinds = [choice for choice in choices if choice is not type(None)]
    bodies = tuple(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Message))
    codec = codecs[0] if codecs else None if bodies else _codec_of(kinds[0])
    return WireField(name, _plain(kinds[0]), codec, default, len(kinds) < len(choices), bodies, **marks)


if TYPE_CHECKING:  # so that type checkers take the rule below instead of msgspec's own, which is not keyword-only
    _StructMeta = type
    _Struct = object
else:
    _StructMeta = msgspec.StructMeta
    _Struct = msgspec.Struct


@dataclass_transform(kw_only_default=True, frozen_default=True)
class DeclarationMeta(_StructMeta):
    """Makes every declaration an immutable struct built by keywords, and stores its header."""

    def __new__(
        mcls,
        class_name: str,
        bases: tuple[type, ...],
        namespace: dict[str, TypeHint],
        *,
        header: str = "",
        **options: TypeHint,
    ) -> DeclarationMeta:
        namespace["HEADER"] = Flags(header) if header else None
        namespace["NAME"] = options.pop("name", _wire_name(class_name))
        if "listed" in options:
            namespace["LISTED"] = options.pop("listed")
        return super().__new__(mcls, class_name, bases, namespace, frozen=True, kw_only=True, **options)


def _wire_name(class_name: str) -> str:
    """InitSyn → INIT_SYN, DeclareToken → D_TOKEN, UndeclareToken → U_TOKEN."""
    words = re.sub(r"(?<!^)([A-Z])", r"_\1", class_name).upper()
    return words.replace("UNDECLARE_", "U_").replace("DECLARE_", "D_")


class Value(msgspec.Struct, frozen=True):
    """Part of messages with its own `read` and `write`, because field codecs cannot express it."""


class Message(_Struct, metaclass=DeclarationMeta):
    """Base of everything with a header byte; the codec is generated from its annotations."""

    HEADER: ClassVar[Flags | None]
    NAME: ClassVar[str]
    LISTED: ClassVar[bool] = False
    """Whether its extensions are shown as a list, in wire order, instead of by name."""
    TAG: ClassVar[str] = "msg"
    LENIENT: ClassVar[bool] = False
    """Whether unknown mandatory extensions are skipped instead of rejected."""


AnyMessage = TypeVar("AnyMessage", bound=Message)


def replace(message: AnyMessage, **changes: TypeHint) -> AnyMessage:
    """Copy of a message with some fields replaced."""
    return msgspec.structs.replace(message, **changes)  # type: ignore[type-var]


_FIELDS: dict[type, tuple[WireField, ...]] = {}


def fields_of(cls: type[Message]) -> tuple[WireField, ...]:
    """Fields of a declaration in wire order."""
    fields = _FIELDS.get(cls)
    if fields is None:
        fields = _FIELDS[cls] = _collect(cls)
    return fields


def _collect(cls: type[Message]) -> tuple[WireField, ...]:
    hints = get_type_hints(cls, include_extras=True)
    defaults = {info.name: info.default for info in msgspec.structs.fields(cls)}  # type: ignore[arg-type]
    collected = []
    for name in cls.__annotations__:
        hint = hints[name]
        if hint is ClassVar or origin(hint) is ClassVar:
            flags = getattr(cls, name, None)
            if isinstance(flags, Flags):
                collected.append(WireField(name, Flags, None, REQUIRED, False, flags=flags))
            continue
        collected.append(_field(name, hint, defaults[name]))
    return tuple(collected)
