"""Conversion between messages and JSON fields, for `zenspark decode --json` and `zenspark encode`.

Everything follows from the declarations. Bytes are hexadecimal text, ids and enumerations are text, defaults are
omitted. A few derived fields for human readers (the effective priority of a frame, the entries of a link-state body)
are added in `DERIVED`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from enum import Enum
from functools import cache
from typing import Any, TypeAlias, get_args, get_type_hints

import msgspec

from zenspark.errors import DecodeError, UsageError
from zenspark.wire import messages
from zenspark.wire.buffer import Reader, Writer
from zenspark.wire.codec import decode_link_states, decode_network, decode_scouting, decode_transport
from zenspark.wire.message_schema import Message, Value, WireField, fields_of, origin
from zenspark.wire.values import Extension, Locator, WireEnum, ZenohId

Plain: TypeAlias = Any
"""JSON values: text, numbers, booleans, lists and dictionaries."""
Fields = dict[str, Plain]

# -- to fields ---------------------------------------------------------------------------------------------------


def to_json_fields(message: Message) -> Fields:
    """Fields of a message that are on the wire, by name."""
    cls = type(message)
    shown: Fields = {cls.TAG: cls.NAME} if cls.NAME != "LINK_STATE" else {}
    for field in _shown_fields(cls):
        value = getattr(message, field.name)
        if field.required or value != field.default:
            shown[field.name] = to_plain(value)
    if cls.LISTED:
        shown["exts"] = [_list_extension(field, getattr(message, field.name)) for field in _present(message)]
        shown["exts"] += to_plain(message.exts)  # type: ignore[attr-defined]
    if cls in DERIVED:
        DERIVED[cls](message, shown)
    return shown


@cache
def _shown_fields(cls: type[Message]) -> tuple[WireField, ...]:
    hidden = {"exts"} if cls.LISTED else set()
    named = [field for field in fields_of(cls) if not field.flags and not (cls.LISTED and field.ext)]
    return tuple(field for field in named if field.name not in hidden)


def _present(message: Message) -> list[WireField]:
    return [field for field in fields_of(type(message)) if field.ext and getattr(message, field.name) != field.default]


def _list_extension(field: WireField, value: Plain) -> Fields:
    listed = to_plain(Extension(field.ext_header))
    if field.ext_kind == 1:
        listed["value"] = value if isinstance(value, int) else value.to_wire()
    elif field.ext_kind == 2:
        listed["value"] = _content(field, value).hex()
    return listed  # type: ignore[no-any-return]


def _content(field: WireField, value: Plain) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    out = Writer()
    value.write(out)
    return bytes(out.data)


def to_plain(value: Plain) -> Plain:
    """Convert any part of a message to JSON values."""
    shown = _PLAIN.get(type(value))
    if shown is not None:
        return shown(value)
    if isinstance(value, Message):
        return to_json_fields(value)
    if isinstance(value, Value):
        return {
            name: to_plain(part)
            for name, part in zip(value.__struct_fields__, msgspec.structs.astuple(value), strict=True)
            if part is not None
        }
    if isinstance(value, WireEnum):
        return int(value) if type(value).__name__ == "Priority" else value.text
    return int(value)


def _plain_extension(extension: Extension) -> Fields:
    shown: Fields = {"id": extension.id, "enc": extension.enc, "mandatory": extension.mandatory}
    if extension.value is not None:
        shown["value"] = to_plain(extension.value)
    return shown


_PLAIN: dict[type, Callable[[Plain], Plain]] = {
    int: lambda value: value,
    bool: lambda value: value,
    str: lambda value: value,
    type(None): lambda value: value,
    bytes: bytes.hex,
    tuple: lambda value: [to_plain(item) for item in value],
    ZenohId: str,
    Locator: str,
    Extension: _plain_extension,
}


# -- derived fields ---------------------------------------------------------------------------------------

INTEREST_LETTERS = "KSQTRNMA"


def _derive_frame(frame: messages.Frame, shown: Fields) -> None:
    if "priority" in shown:
        shown["qos_raw"] = shown["priority"]
    shown["priority"] = int(frame.priority)
    shown["msgs"] = to_plain(frame.msgs)


def _derive_fragment(fragment: messages.Fragment, shown: Fields) -> None:
    shown["priority"] = int(fragment.priority)
    shown["payload_len"] = len(fragment.payload)


def _derive_interest(interest: messages.Interest, shown: Fields) -> None:
    expr = interest.wire_expr
    bits = {
        "K": shown.pop("keyexprs", False),
        "S": shown.pop("subscribers", False),
        "Q": shown.pop("queryables", False),
        "T": shown.pop("tokens", False),
        "R": expr is not None,
        "N": expr is not None and expr.has_suffix,
        "M": expr is not None and expr.by_sender,
        "A": shown.pop("aggregate", False),
    }
    if interest.mode:
        shown["options"] = "".join(letter for letter in INTEREST_LETTERS if bits[letter])


def _derive_oam(oam: messages.NetworkOam, shown: Fields) -> None:
    if oam.id != oam.LINK_STATE or oam.zbuf is None:
        return
    try:
        shown["linkstate"] = [to_plain(entry) for entry in decode_link_states(oam.zbuf)]
    except DecodeError as error:
        shown["linkstate_error"] = str(error)  # the body is opaque to the codec; it is shown whole in zbuf


def _derive_link_state(entry: messages.LinkState, shown: Fields) -> None:
    given = {1: entry.zid, 2: entry.whatami, 4: entry.locators, 8: entry.weights}
    options = sum(bit for bit, value in given.items() if value is not None) | entry.gateway << 4
    shown["options"] = options
    shown["links"] = list(entry.links)
    shown.pop("gateway", None)


DERIVED: dict[type[Message], Callable[[Plain, Fields], None]] = {
    messages.Frame: _derive_frame,
    messages.Fragment: _derive_fragment,
    messages.Interest: _derive_interest,
    messages.NetworkOam: _derive_oam,
    messages.LinkState: _derive_link_state,
}

# -- from fields -------------------------------------------------------------------------------------------------

LAYERS: dict[str, type[Message]] = {
    "scouting": messages.ScoutingMessage,
    "transport": messages.TransportMessage,
    "network": messages.NetworkMessage,
}
DECODERS: dict[str, Callable[[bytes], Message]] = {
    "scouting": decode_scouting,
    "transport": decode_transport,
    "network": decode_network,
}
REDUNDANT = {"qos_raw", "payload_len", "linkstate", "linkstate_error"}
"""Derived fields that carry no information of their own: ignored on input."""


def from_json_fields(family: type[Message], fields: Plain, path: str = "fields") -> Message:
    """Build the message of one family from its fields; an error names the wrong field."""
    cls = _find_message_class(family, fields, path)
    if cls is messages.Interest:
        fields = _interest_fields(fields, path)
    known = {field.name: field for field in _shown_fields(cls)}
    extra = set(fields) - set(known) - REDUNDANT - {cls.TAG} - ({"exts"} if cls.LISTED else set())
    if extra:
        _reject_unknown_field(sorted(extra)[0], [*known, cls.TAG], f"{path} ({cls.NAME})")
    values = {name: _value(field, fields, f"{path}.{name}") for name, field in known.items()}
    if cls.LISTED:
        values |= _listed_values(cls, fields.get("exts", []), f"{path}.exts")
    return cls(**values)


def _reject_unknown_field(name: str, known: list[str], path: str) -> None:
    close = get_close_matches(name, known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"
    raise UsageError(f"{path} has no field {name!r}{hint}")


def _find_message_class(family: type[Message], fields: Plain, path: str) -> type[Message]:
    _expect(isinstance(fields, dict), path, "an object", fields)
    names = _names(family)
    name = fields.get(family.TAG)
    _expect(isinstance(name, str) and name in names, f"{path}.{family.TAG}", f"one of {', '.join(names)}", name)
    return names[name]


@cache
def _names(family: type[Message]) -> dict[str, type[Message]]:
    return {cls.NAME: cls for cls in family.__subclasses__()}


def _expect(holds: bool, path: str, expected: str, value: Plain) -> None:
    if not holds:
        raise UsageError(f"{path}: expected {expected}, got {_shorten(value)}")


def _shorten(value: Plain) -> str:
    """First characters of a value as JSON, or as Python's repr if JSON cannot represent it."""
    try:
        return msgspec.json.encode(value).decode()[:80]
    except (UnicodeEncodeError, RecursionError):
        return reprlib.repr(value)


def _interest_fields(fields: Fields, path: str) -> Fields:
    letters = fields.get("options", "")
    known = isinstance(letters, str) and set(letters) <= set(INTEREST_LETTERS)
    _expect(known, f"{path}.options", f"letters out of {INTEREST_LETTERS}", letters)
    _expect(
        ("R" in letters) == ("wire_expr" in fields),
        f"{path}.options",
        "R exactly if there is a wire_expr",
        letters,
    )
    bits = {"keyexprs": "K", "subscribers": "S", "queryables": "Q", "tokens": "T", "aggregate": "A"}
    for name in sorted(bits.keys() & fields.keys()):
        raise UsageError(f"{path}.{name}: is the letter {bits[name]} in options")
    rest = {name: value for name, value in fields.items() if name != "options"}
    return rest | {name: letter in letters for name, letter in bits.items()}


def _value(field: WireField, fields: Fields, path: str) -> Plain:
    if field.name not in fields:
        if field.required:
            raise UsageError(f"{path} is missing")
        return field.default
    value = fields[field.name]
    if value is None and field.optional:
        return None
    if field.bodies:
        return from_json_fields(_family(field.bodies), value, path)
    if field.name == "msgs":
        _expect(isinstance(value, list), path, "a list", value)
        return tuple(from_json_fields(messages.NetworkMessage, item, f"{path}[{i}]") for i, item in enumerate(value))
    return _part(field.type, value, path)


def _family(bodies: tuple[type[Message], ...]) -> type[Message]:
    return bodies[0].__mro__[1]


def _part(kind: Plain, value: Plain, path: str) -> Plain:
    """Value of a type from its JSON form."""
    reader = _READ.get(kind)
    if reader is not None:
        return reader(value, path)
    if origin(kind) is tuple:
        _expect(isinstance(value, list), path, "a list", value)
        return tuple(_part(_bare(get_args(kind)[0]), item, f"{path}[{i}]") for i, item in enumerate(value))
    if issubclass(kind, Enum):
        return _enum(kind, value, path)
    if issubclass(kind, int):
        return kind(_integer(value, path))
    return _struct(kind, value, path)


def _bare(hint: Plain) -> Plain:
    """Type without annotations and without None."""
    while hasattr(hint, "__metadata__"):
        hint = get_args(hint)[0]
    choices = [choice for choice in get_args(hint) if choice is not type(None)]
    return choices[0] if choices and origin(hint) is not tuple else hint


@cache
def _members(kind: Plain) -> dict[str | int, Plain]:
    return {int(member) if kind.__name__ == "Priority" else member.text: member for member in kind}


def _enum(kind: Plain, value: Plain, path: str) -> Plain:
    by_text = _members(kind)
    _expect(
        isinstance(value, (str, int)) and not isinstance(value, bool) and value in by_text,
        path,
        f"one of {', '.join(map(str, by_text))}",
        value,
    )
    return by_text[value]


@cache
def _hints(kind: type) -> Mapping[str, Plain]:
    hints = get_type_hints(kind)
    return {info.name: _bare(hints[info.name]) for info in msgspec.structs.fields(kind)}


@cache
def _required_fields(kind: Plain) -> tuple[str, ...]:
    return tuple(info.name for info in msgspec.structs.fields(kind) if info.required)


def _struct(kind: Plain, value: Plain, path: str) -> Plain:
    _expect(isinstance(value, dict), path, "an object", value)
    hints = _hints(kind)
    for name in set(value) - set(hints):
        _reject_unknown_field(name, list(hints), path)
    parts = {name: _part(hints[name], part, f"{path}.{name}") for name, part in value.items() if part is not None}
    for name in _required_fields(kind):
        if name not in parts:
            raise UsageError(f"{path}.{name} is missing")
    return kind(**parts)


def _integer(value: Plain, path: str) -> int:
    _expect(isinstance(value, int) and not isinstance(value, bool), path, "an integer", value)
    return value  # type: ignore[no-any-return]


def _boolean(value: Plain, path: str) -> bool:
    _expect(isinstance(value, bool), path, "true or false", value)
    return value  # type: ignore[no-any-return]


def _text(value: Plain, path: str) -> str:
    _expect(isinstance(value, str), path, "text", value)
    return value  # type: ignore[no-any-return]


def _hex(value: Plain, path: str) -> bytes:
    try:
        return bytes.fromhex(_text(value, path))
    except ValueError:
        raise UsageError(f"{path}: expected hexadecimal text with two digits a byte, got {value[:80]!r}") from None


def _zid(value: Plain, path: str) -> ZenohId:
    try:
        return ZenohId.parse(_text(value, path))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _extension(value: Plain, path: str) -> Extension:
    _expect(isinstance(value, dict), path, "an object", value)
    for name in set(value) - {"id", "enc", "mandatory", "value"}:
        _reject_unknown_field(name, ["id", "enc", "mandatory", "value"], path)
    number = _integer(value.get("id"), f"{path}.id")
    _expect(0 <= number < 16, f"{path}.id", "0 to 15", number)
    enc = value.get("enc")
    _expect(enc in Extension.ENCODINGS, f"{path}.enc", "unit, z64 or zbuf", enc)
    mandatory = _boolean(value.get("mandatory", False), f"{path}.mandatory")
    header = Extension.ENCODINGS.index(enc) << 5 | mandatory << 4 | number
    if enc == "unit":
        _expect(value.get("value") is None, f"{path}.value", "nothing", value.get("value"))
        return Extension(header)
    return Extension(header, (_integer if enc == "z64" else _hex)(value.get("value"), f"{path}.value"))


_READ: dict[Plain, Callable[[Plain, str], Plain]] = {
    int: _integer,
    bool: _boolean,
    str: _text,
    bytes: _hex,
    ZenohId: _zid,
    Locator: lambda value, path: Locator(_text(value, path)),
    Extension: _extension,
}


def _listed_values(cls: type[Message], value: Plain, path: str) -> Fields:
    """Field values of extensions given as a list: known ones by name, the others as they are."""
    _expect(isinstance(value, list), path, "a list", value)
    by_header = {field.ext_header: field for field in fields_of(cls) if field.ext}
    values: Fields = {}
    unknown = []
    for index, item in enumerate(value):
        extension = _extension(item, f"{path}[{index}]")
        field = by_header.get(extension.header)
        if field is None:
            unknown.append(extension)
        else:
            values[field.name] = _known_value(field, extension, f"{path}[{index}].value")
    return values | {"exts": tuple(unknown)}


def _known_value(field: WireField, extension: Extension, path: str) -> Plain:
    if field.ext_kind == 0:
        return True
    if field.type in (int, bytes):
        return extension.value
    assert isinstance(extension.value, bytes)
    reader = Reader(extension.value)
    try:
        value = reader.rest_text() if field.type is str else field.type.read(reader)
    except DecodeError as error:
        raise UsageError(f"{path}: {error}") from None
    _expect(not reader.left(), path, "nothing after the value", f"{reader.left()} bytes more")
    return value
