"""The schema language of the configuration, and the operations on documents of a schema.

A `Section` is a struct whose fields are keys: type and default are those of the field, and `Key` has the other
attributes. A document is a nested dictionary, as JSON has it, with only the keys that were set. Documents are validated
(`validate_document`), completed with defaults (`with_defaults`) and resolved for a mode (`resolve`); `unused_keys`
lists the keys that have no effect, and `reject_missing_protection` raises for those of them that enable protection.
"""

from __future__ import annotations

import difflib
import json
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NoReturn, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from zenspark.errors import UsageError
from zenspark.key import KeyExpr

Mode: TypeAlias = Literal["router", "peer", "client"]
MODES: tuple[Mode, ...] = get_args(Mode)
Json: TypeAlias = Any
"""Any JSON value."""
Document: TypeAlias = dict[str, Json]
Hint: TypeAlias = Any
"""A type, or an annotation such as `list[int]`."""

# The error messages of msgspec: the path of the error, and errors about field names.
_STEP = re.compile(r"\[(\d+)\]|\.(\w+)")
_MISSING = re.compile(r"missing required field `(\w+)`")
_UNKNOWN = re.compile(r"unknown field `(\w+)`")


class ConfigError(UsageError):
    """An invalid configuration: the key, the value expected there, and the value found."""

    def __init__(self, key: str, expected: str, found: str) -> None:
        super().__init__(key, expected, found)
        self.key = key
        self.expected = expected
        self.found = found

    def __str__(self) -> str:
        where = f"configuration key {self.key}" if self.key else "configuration"
        return f"{where}: expected {self.expected}, found {self.found}"


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes of a key besides its type and default."""

    unset: bool = False
    """Whether a key that is not set is shown as null, as eclipse-zenoh does."""
    hidden: bool = False
    """Whether a key that is not set is left out where the configuration is shown."""
    secret: bool = False
    """Whether the value is never shown."""
    per_mode: bool = False
    """Whether a value for each mode may be given: `{ router: true, peer: false }`."""
    defaults: Mapping[str, Any] | None = None
    """The defaults of the modes, where they differ."""
    otherwise: Any = None
    """The value in a mode that a value given per mode leaves out, if that is not the default."""
    used: bool = True
    """Whether zenspark uses it."""
    protects: bool = False
    """Whether it enables a protection: if zenspark does not use it, setting it is an error and not only a warning."""
    as_if: Any = None
    """The value in effect although zenspark does not use the key; None for the default."""
    check: Callable[[Any], bool] | None = None
    """Returns whether a value of the right type is valid; the description of the type should name the invalid ones."""


UNSET = Key(unset=True)
UNUSED = Key(used=False)
UNSET_UNUSED = Key(unset=True, used=False)
UNSET_REFUSED = Key(unset=True, used=False, protects=True)
PER_MODE = Key(unset=True, per_mode=True)
SECRET = Key(unset=True, secret=True)

Size = Annotated[int, msgspec.Meta(ge=0)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0)]
U16 = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)]


class Section(msgspec.Struct, frozen=True):
    """Base of the sections of a configuration: the keys of one object of the document, with types and defaults."""


S = TypeVar("S", bound=Section)


class ConfigField(msgspec.Struct, frozen=True):
    """One key of a section, with its attributes."""

    type: Any
    key: Key
    default: Any
    section: type[Section] | None = None

    def default_in(self, mode: str) -> Json:
        return self.default if self.key.defaults is None else self.key.defaults[mode]

    def shown_default(self) -> Json:
        """Return the value shown while it is not set."""
        if self.key.unset:
            return None
        if self.section is not None:
            return with_defaults(self.section, {})
        if self.key.defaults is not None:
            return _as_json({mode: value for mode, value in self.key.defaults.items() if value})
        return _as_json(self.default)


@cache
def fields_of(section: type[Section]) -> dict[str, ConfigField]:
    """Return the keys of a section, in order."""
    hints = get_type_hints(section, include_extras=True)
    fields = {}
    for info in msgspec.structs.fields(section):
        hint = hints[info.name]
        marks = [mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Key)]
        plain = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        inner = plain if isinstance(plain, type) and issubclass(plain, Section) else None
        default = info.default if info.default_factory is msgspec.NODEFAULT else info.default_factory()
        fields[info.name] = ConfigField(hint, marks[0] if marks else Key(), default, inner)
    return fields


# --- documents ------------------------------------------------------------------------------------


def validate_document(section: type[Section], document: Json, path: str = "") -> Document:
    """Return the document with its values converted; raises ConfigError for the first invalid key."""
    if not isinstance(document, dict):
        raise ConfigError(path, "an object", _format_value(document))
    fields = fields_of(section)
    result = {}
    for name, value in document.items():
        inner = f"{path}/{name}" if path else name
        if name not in fields:
            raise_unknown_key(inner, name, fields)
        result[name] = _validate_value(fields[name], value, inner)
    return result


def _validate_value(field: ConfigField, value: Json, path: str) -> Json:
    if value is None and field.key.unset:
        return None
    if field.section is not None:
        return validate_document(field.section, value, path)
    if not (field.key.per_mode and _is_per_mode(value)):
        return _validate_leaf(field, value, path)
    for mode in value:
        if mode not in MODES:
            raise_unknown_key(f"{path}/{mode}", mode, MODES)
    return {mode: _validate_leaf(field, mode_value, f"{path}/{mode}") for mode, mode_value in value.items()}


def _validate_leaf(field: ConfigField, value: Json, path: str) -> Json:
    try:
        converted = _convert_value(field, value)
    except msgspec.ValidationError as error:
        raise _make_error(field, value, path, str(error)) from None
    if field.key.check is not None and not field.key.check(converted):
        raise _make_error(field, value, path)
    return _as_json(converted)


def _make_error(field: ConfigField, value: Json, path: str, error: str = "") -> ConfigError:
    """Make the error for an invalid value, with the path inside of it."""
    hint, start = field.type, path
    what, _, place = error.partition(" - at `$")
    for index, name in _STEP.findall(place.partition("[...]")[0]):  # `[...]` is in an object with arbitrary names
        hint, step = _nested_hint(hint, name), int(index) if index else name
        value, path = value[step], f"{path}/{step}"
    if found := _UNKNOWN.search(what):
        raise_unknown_key(f"{path}/{found[1]}", found[1], _struct_field_names(hint))
    if found := _MISSING.search(what):
        return ConfigError(f"{path}/{found[1]}", describe_type(_nested_hint(hint, found[1])), "nothing")
    either = ", or such a value for each mode" if field.key.per_mode and path == start else ""
    return ConfigError(path, describe_type(hint) + either, _format_value(value))


def _union_members(hint: Hint) -> list[Hint]:
    """Return the types a value may have, without annotations."""
    origin: Hint = get_origin(hint)
    if origin is Annotated:
        return _union_members(get_args(hint)[0])
    if origin in (Union, types.UnionType):
        return [plain for choice in get_args(hint) for plain in _union_members(choice)]
    return [hint]


def _struct_field_names(hint: Hint) -> list[str]:
    """Return the names an object of this type may have."""
    return [name for plain in _union_members(hint) for name in getattr(plain, "__struct_fields__", ())]


def _nested_hint(hint: Hint, name: str) -> Hint:
    """Return the type of the field `name`, or of the items of a list if it is empty."""
    for plain in _union_members(hint):
        origin: Hint = get_origin(plain)
        if name and name in getattr(plain, "__struct_fields__", ()):
            return get_type_hints(plain, include_extras=True)[name]
        if not name and origin is tuple:
            return get_args(plain)[0]
    return object


def with_defaults(section: type[Section], document: Document) -> Document:
    """Return the document with the defaults of all keys that are not set, as it is shown."""
    result = {}
    for name, field in fields_of(section).items():
        value = document.get(name)
        if field.key.secret or (value is None and field.key.hidden):
            continue
        if value is None:
            result[name] = field.shown_default()
        else:
            result[name] = value if field.section is None else with_defaults(field.section, value)
    return result


def resolve(section: type[S], document: Document, mode: str) -> S:
    """Return the settings of a validated document in one mode: every key has one value, set or default."""
    return section(**{name: _resolve_value(f, document.get(name), mode) for name, f in fields_of(section).items()})


def _resolve_value(field: ConfigField, value: Json, mode: str) -> Json:
    if field.section is not None:
        return resolve(field.section, value or {}, mode)
    if field.key.per_mode and _is_per_mode(value):
        if mode not in value and field.key.otherwise is not None:
            return field.key.otherwise
        value = value.get(mode)
    return field.default_in(mode) if value is None else _convert_value(field, value)


def unused_keys(section: type[Section], document: Document) -> Iterator[str]:
    """Yield the keys that are set and have no effect."""
    return (path for path, field in _ignored_keys(section, document) if not field.key.protects)


def reject_missing_protection(section: type[Section], document: Document) -> None:
    """Raise ConfigError if a key enables a protection that is not implemented: ignoring it would be unsafe."""
    for path, field in _ignored_keys(section, document):
        if field.key.protects:
            raise ConfigError(path, "null: this protection is not implemented, so it cannot be relied on", "a value")


def _ignored_keys(
    section: type[Section], document: Document, path: str = "", used: bool = True
) -> Iterator[tuple[str, ConfigField]]:
    fields = fields_of(section)
    for name, value in document.items():
        field = fields[name]
        inner = f"{path}/{name}" if path else name
        is_used = used and field.key.used
        if value is None:
            continue  # the same as not set
        if field.section is not None:
            yield from _ignored_keys(field.section, value, inner, is_used)
        elif not is_used and value != (field.shown_default() if field.key.as_if is None else field.key.as_if):
            yield inner, field


def leaf_keys(section: type[Section], path: str = "", used: bool = True) -> Iterator[tuple[str, ConfigField, bool]]:
    """Yield every key that is no section: its path, and whether zenspark uses it."""
    for name, field in fields_of(section).items():
        inner, is_used = f"{path}/{name}" if path else name, used and field.key.used
        if field.section is None:
            yield inner, field, is_used
        else:
            yield from leaf_keys(field.section, inner, is_used)


def _is_per_mode(value: Json) -> bool:
    return isinstance(value, dict) and (not value or any(mode in value for mode in MODES))


def _convert_value(field: ConfigField, value: Json) -> Json:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1e3 and 2.0 are integers in JSON5
    return msgspec.convert(value, field.type, dec_hook=_decode_key_expr)


def _decode_key_expr(kind: type, value: Json) -> KeyExpr:
    """Convert a text to a key expression, the only type of values that JSON does not have."""
    if kind is not KeyExpr or not isinstance(value, str):
        raise TypeError
    try:
        return KeyExpr(value)
    except UsageError as error:
        raise ValueError from error


def _as_json(value: object) -> Json:
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))


# --- error messages -------------------------------------------------------------------------------


def raise_unknown_key(path: str, name: str, known: Iterable[str]) -> NoReturn:
    """Raise ConfigError for an unknown key, with the most similar one."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    expected = f"a key such as {near[0]}" if near else f"one of {', '.join(names)}"
    raise ConfigError(path, expected, "a key that does not exist")


def describe_type(hint: Hint) -> str:
    """Describe the values a type accepts."""
    origin: Hint = get_origin(hint)
    arguments = get_args(hint)
    if origin is Annotated:
        return _describe_constraints(describe_type(arguments[0]), arguments[1:])
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(choice) for choice in arguments)
    if origin is Literal:
        return f"one of {', '.join(arguments)}"
    if origin is tuple:
        return f"a list, each item {describe_type(arguments[0])}"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"an object with {' and '.join(hint.__struct_fields__)}"
    words = {bool: "true or false", int: "an integer", float: "a number", str: "a text", type(None): "null"}
    words[KeyExpr] = "a key expression"
    return words.get(hint, "an object")


def _describe_constraints(words: str, marks: Iterable[Any]) -> str:
    for mark in marks:
        if isinstance(mark, msgspec.Meta):
            words = mark.description or words
            words += f" from {mark.ge}" if mark.ge is not None else ""
            words += f" to {mark.le}" if mark.le is not None else ""
            words += "; it must not be empty" if mark.min_length else ""
    return words


def _format_value(value: Json) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
