"""Serialization that every Zenoh binding reads: `z_serialize` and `z_deserialize` (protocol section 18).

Numbers have a fixed width, the lowest byte first. Text, bytes and collections start with their count as LEB128; tuples
have none, so the reader must know the type. That is why every integer width has a class of its own here: a plain int
has 32 bits, a plain float 64.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, get_args, get_origin

from zenspark.errors import UsageError, ZError
from zenspark.types.zbytes import ZBytes

T = TypeVar("T")
Value: TypeAlias = Any
"""Value that can be serialized, of any type; the type system cannot express that set."""
Hint: TypeAlias = Any
"""A type, or an annotation such as `list[int]`."""

MAX_EMPTY_ITEMS = 1 << 16
"""Most empty tuples in one collection: they have no bytes, so the size of the payload does not limit their number."""


class OutOfRange(UsageError, AssertionError):
    """A number that is out of range for its type; also an `AssertionError`, as in eclipse-zenoh."""


class ZDeserializeError(ZError):
    """The bytes are not of the expected type.

    Args:
        expected: What was expected.
        position: The offset, in bytes, where it was expected.

    Example:
        >>> try:
        ...     z_deserialize(bool, z_serialize(Int8(7)))
        ... except ZDeserializeError as error:
        ...     print(error)
        expected a bool of 0 or 1 instead of 7 at byte 0
    """

    def __init__(self, expected: str, position: int) -> None:
        super().__init__(expected, position)
        self.expected = expected
        self.position = position

    def __str__(self) -> str:
        return f"expected {self.expected} at byte {self.position}"


# --- numbers with a width -------------------------------------------------------------------------


class SizedInt(int):
    """An integer with a fixed number of bits."""

    BITS: ClassVar[int]
    SIGNED: ClassVar[bool] = True

    def __new__(cls, i: int) -> Self:
        half = 1 << (cls.BITS - 1)
        low, high = (-half, half) if cls.SIGNED else (0, 2 * half)
        if not low <= i < high:
            raise OutOfRange(f"{i} too big for {cls.__name__}")
        return super().__new__(cls, i)


class Int8(SizedInt):
    """A signed integer of 8 bits.

    Args:
        i: The number.

    Raises:
        UsageError: It is out of range; also an `AssertionError`, as in eclipse-zenoh.

    Example:
        >>> z_serialize(Int8(-1)).to_bytes().hex()
        'ff'
    """

    BITS = 8


class Int16(SizedInt):
    """A signed integer of 16 bits.

    Args:
        i: The number.

    Raises:
        UsageError: It is out of range; also an `AssertionError`, as in eclipse-zenoh.

    Example:
        >>> z_serialize(Int16(-2)).to_bytes().hex()
        'feff'
    """

    BITS = 16


class Int32(SizedInt):
    """A signed integer of 32 bits.

    Args:
        i: The number.

    Raises:
        UsageError: It is out of range; also an `AssertionError`, as in eclipse-zenoh.

    Example:
        >>> z_serialize(Int32(1)).to_bytes().hex()
        '01000000'
    """

    BITS = 32


class Int64(SizedInt):
    """A signed integer of 64 bits.

    Args:
        i: The number.

    Raises:
        UsageError: It is out of range; also an `AssertionError`, as in eclipse-zenoh.

    Example:
        >>> z_serialize(Int64(1)).to_bytes().hex()
        '0100000000000000'
    """

    BITS = 64


class Int128(SizedInt):
    """A signed integer of 128 bits.

    Args:
        i: The number.

    Raises:
        UsageError: It is out of range; also an `AssertionError`, as in eclipse-zenoh.

    Example:
        >>> z_serialize(Int128(1)).to_bytes().hex()
        '01000000000000000000000000000000'
    """

    BITS = 128


class UInt8(SizedInt):
    """An unsigned integer of 8 bits.

    Args:
        i: The number.

    Raises:
        UsageError: It is out of range; also an `AssertionError`, as in eclipse-zenoh.

    Example:
        >>> z_serialize(UInt8(255)).to_bytes().hex()
        'ff'
    """

    BITS = 8
    SIGNED = False


class UInt16(SizedInt):
    """An unsigned integer of 16 bits.

    Args:
        i: The number.

    Raises:
        UsageError: It is out of range; also an `AssertionError`, as in eclipse-zenoh.

    Example:
        >>> z_serialize(UInt16(258)).to_bytes().hex()
        '0201'
    """

    BITS = 16
    SIGNED = False


class UInt32(SizedInt):
    """An unsigned integer of 32 bits.

    Args:
        i: The number.

    Raises:
        UsageError: It is out of range; also an `AssertionError`, as in eclipse-zenoh.

    Example:
        >>> z_serialize(UInt32(1)).to_bytes().hex()
        '01000000'
    """

    BITS = 32
    SIGNED = False


class UInt64(SizedInt):
    """An unsigned integer of 64 bits.

    Args:
        i: The number.

    Raises:
        UsageError: It is out of range; also an `AssertionError`, as in eclipse-zenoh.

    Example:
        >>> z_serialize(UInt64(1)).to_bytes().hex()
        '0100000000000000'
    """

    BITS = 64
    SIGNED = False


class UInt128(SizedInt):
    """An unsigned integer of 128 bits.

    Args:
        i: The number.

    Raises:
        UsageError: It is out of range; also an `AssertionError`, as in eclipse-zenoh.

    Example:
        >>> z_serialize(UInt128(1)).to_bytes().hex()
        '01000000000000000000000000000000'
    """

    BITS = 128
    SIGNED = False


class Float32(float):
    """A float that is serialized with 32 bits; only serialization rounds it.

    Args:
        x: The number.

    Example:
        >>> z_serialize(Float32(1.5)).to_bytes().hex()
        '0000c03f'
    """


class Float64(float):
    """A float that is serialized with 64 bits, as a plain one is.

    Args:
        x: The number.

    Example:
        >>> z_serialize(Float64(1.5)).to_bytes().hex()
        '000000000000f83f'
    """


INTEGERS: dict[type, tuple[int, bool]] = {
    int: (4, True),
    **{tp: (tp.BITS // 8, tp.SIGNED) for tp in SizedInt.__subclasses__()},
}
FLOATS: dict[type, str] = {float: "<d", Float64: "<d", Float32: "<f"}
BYTES: dict[type, Callable[[bytes], Any]] = {bytes: bytes, bytearray: bytearray, ZBytes: ZBytes}
COLLECTIONS: dict[type, Callable[[Iterable[Any]], Any]] = {list: list, set: set, frozenset: frozenset}


# --- writing --------------------------------------------------------------------------------------


def z_serialize(obj: Value) -> ZBytes:
    """Serialize a number, bool, text, bytes, or a list, set, dict or tuple of such.

    All items of a list or set, all keys of a dict and all its values must have the same type: the reader expects one.

    Args:
        obj: The object.

    Returns:
        A payload that `z_deserialize`, and every other Zenoh binding, reads.

    Raises:
        TypeError: Its type is not supported.
        ValueError: Items of a collection have different types.
        OverflowError: A plain int has more than 32 bits.

    Example:
        >>> z_serialize([("speed", UInt8(3))]).to_bytes().hex()
        '0105737065656403'
    """
    out = bytearray()
    _write(out, obj)
    return ZBytes(out)


def _write(out: bytearray, obj: Value) -> None:
    tp = type(obj)
    if tp in INTEGERS:
        size, signed = INTEGERS[tp]
        out += obj.to_bytes(size, "little", signed=signed)
    elif tp is bool:
        out.append(obj)
    elif tp in FLOATS:
        out += _pack_float(FLOATS[tp], obj)
    elif tp is str or tp in BYTES:
        raw = obj.encode() if tp is str else bytes(obj)
        _write_count(out, len(raw))
        out += raw
    elif tp is tuple:
        for item in obj:
            _write(out, item)
    elif tp is dict or tp in COLLECTIONS:
        _write_collection(out, obj)
    else:
        raise TypeError(f"type {tp.__name__} is not supported")


def _write_collection(out: bytearray, items: Value) -> None:
    _write_count(out, len(items))
    for column in (items.keys(), items.values()) if type(items) is dict else (items,):
        if len({type(item) for item in column}) > 1:
            raise ValueError("all items of serialized collections must have the same type")
    for item in items.items() if type(items) is dict else items:
        _write(out, item)


def _write_count(out: bytearray, count: int) -> None:
    while count > 0x7F:
        out.append(count & 0x7F | 0x80)
        count >>= 7
    out.append(count)


def _pack_float(form: str, number: float) -> bytes:
    try:
        return struct.pack(form, number)
    except OverflowError:  # beyond 32 bits is infinity, as everywhere but in Python
        return struct.pack(form, math.copysign(math.inf, number))


# --- reading --------------------------------------------------------------------------------------


class ByteReader:
    """Bytes, and the position up to which they were read."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def take(self, size: int, expected: str) -> bytes:
        if size > self.left:
            raise ZDeserializeError(f"{expected} of {size} bytes", self.position)
        self.position += size
        return self.data[self.position - size : self.position]

    def count(self) -> int:
        start = self.position
        value = shift = 0
        while True:
            byte = self.take(1, "a count")[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= 70:
                raise ZDeserializeError("a count of at most 10 bytes", start)
        if value >> 64:
            raise ZDeserializeError("a count of at most 64 bits", start)
        return value


class Format:
    """Reader of values of one type, and the fewest bytes one of them can have."""

    __slots__ = ("min_bytes", "read")

    def __init__(self, read: Callable[[ByteReader], Any], min_bytes: int) -> None:
        self.read = read
        self.min_bytes = min_bytes


def z_deserialize(tp: type[T], zbytes: ZBytes) -> T:
    """Deserialize a value; bytes after it are ignored.

    Args:
        tp: Its type: one that `z_serialize` supports, collections with the types of their items.
        zbytes: The payload.

    Returns:
        The value.

    Raises:
        ZDeserializeError: The bytes are not of that type.
        TypeError: The type is not supported, or `zbytes` is no `ZBytes`.
        ValueError: The type is a collection without the types of its items.

    Example:
        >>> z_deserialize(list[tuple[str, UInt8]], z_serialize([("speed", UInt8(3))]))
        [('speed', 3)]
    """
    if not isinstance(zbytes, ZBytes):
        raise TypeError(f"expected a ZBytes, found {type(zbytes).__name__!r}")
    hint: Hint = tp
    value: T = _format(hint).read(ByteReader(zbytes.to_bytes()))
    return value


@cache
def _format(tp: Hint) -> Format:
    if tp in INTEGERS:
        return _integer(tp)
    if tp in FLOATS:
        unpack, size = struct.Struct(FLOATS[tp]).unpack, struct.calcsize(FLOATS[tp])
        return Format(lambda source: tp(unpack(source.take(size, "a float"))[0]), size)
    if tp is bool:
        return Format(_read_bool, 1)
    if tp is str:
        return Format(_read_text, 1)
    if tp in BYTES:
        make = BYTES[tp]
        return Format(lambda source: make(source.take(source.count(), "bytes")), 1)
    return _format_of_items(tp)


def _format_of_items(tp: Hint) -> Format:
    origin: Hint = get_origin(tp)
    arguments = get_args(tp)
    if tp in (list, set, frozenset, dict, tuple):
        raise ValueError(f"the items of {tp.__name__} need a type, as in {tp.__name__}[int]")
    if origin is tuple:
        if Ellipsis in arguments:
            raise TypeError("tuples of any size are not supported: use a list")
        return _tuple(arguments)
    if origin is dict and len(arguments) == 2:
        return _collection(dict, _tuple(arguments))
    if origin in COLLECTIONS and len(arguments) == 1:
        return _collection(COLLECTIONS[origin], _format(arguments[0]))
    raise TypeError(f"type {getattr(tp, '__name__', tp)} is not supported")


def _integer(tp: type) -> Format:
    size, signed = INTEGERS[tp]
    read = int.from_bytes
    expected = f"an integer of {8 * size} bits"
    return Format(lambda source: tp(read(source.take(size, expected), "little", signed=signed)), size)


def _tuple(types: tuple[Any, ...]) -> Format:
    formats = [_format(item) for item in types]
    min_bytes = sum(item.min_bytes for item in formats)
    return Format(lambda source: tuple([item.read(source) for item in formats]), min_bytes)


def _collection(make: Callable[[Iterable[Any]], Any], item: Format) -> Format:
    def read(source: ByteReader) -> Value:
        start = source.position
        count = source.count()
        if count > (source.left // item.min_bytes if item.min_bytes else MAX_EMPTY_ITEMS):
            raise ZDeserializeError(f"{count} items, more than there are bytes for,", start)
        return make([item.read(source) for _ in range(count)])

    return Format(read, 1)


def _read_bool(source: ByteReader) -> bool:
    start = source.position
    byte = source.take(1, "a bool")[0]
    if byte > 1:
        raise ZDeserializeError(f"a bool of 0 or 1 instead of {byte}", start)
    return bool(byte)


def _read_text(source: ByteReader) -> str:
    start = source.position
    try:
        return source.take(source.count(), "text").decode()
    except UnicodeDecodeError as error:
        raise ZDeserializeError("text in UTF-8", start) from error
