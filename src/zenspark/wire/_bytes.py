# cython: language_level=3, freethreading_compatible=True
"""Byte primitives of the compiled modules: loads, copies, comparisons, UTF-8 and variable-length integers (VLE).

Each primitive exists twice. Compiled modules import the inline C function of the same name from `_bytes.pxd`; what is
below `if not cython.compiled` here is its interpreted twin. Positions are not checked: the caller compares them with
the end of its buffer first. A "pointer" is a `memoryview`, `bytes` or `bytearray` when interpreted.

A VLE has seven bits in each byte, the lowest first, and bit 7 set in all bytes but the last; a ninth byte carries eight
bits. No other module implements this format.
"""

from __future__ import annotations

from sys import byteorder
from typing import TypeAlias

import cython

Bytes: TypeAlias = bytes | bytearray | memoryview


def encode_vle(value: cython.ulonglong) -> bytes:
    """Encode an integer of up to 64 bits as a VLE in its shortest form, 1 to 9 bytes."""
    out = bytearray()
    append_vle(out, value)
    return bytes(out)


if not cython.compiled:

    def load_u64(data: Bytes, at: int) -> int:
        """Load eight bytes as an integer in the byte order of this machine."""
        return int.from_bytes(data[at : at + 8], byteorder)

    def copy_bytes(out: Bytes, at: int, data: Bytes, pos: int, size: int) -> int:
        """Copy `size` bytes from `data[pos:]` to `out[at:]` and return the position behind them in `out`."""
        out[at : at + size] = data[pos : pos + size]  # type: ignore[index]
        return at + size

    def move_bytes(memory: Bytes, at: int, start: int, size: int) -> None:
        """Copy `size` bytes within one buffer; source and target may overlap."""
        memory[at : at + size] = bytes(memory[start : start + size])  # type: ignore[index]

    def bytes_equal(data: Bytes, a: int, b: int, size: int) -> bool:
        """Compare `size` bytes at two positions of one buffer; reads not one byte more."""
        return data[a : a + size] == data[b : b + size]

    def starts_with(data: Bytes, pos: int, end: int, prefix: Bytes, size: int) -> bool:
        """Whether `data[pos:end]` starts with the `size` bytes of a prefix."""
        return size <= end - pos and data[pos : pos + size] == prefix

    def read_vle32(data: Bytes, pos: int, end: int) -> int:
        """Read a VLE of at most 32 bits in at most 5 bytes, as a result for `value_of_vle32` and `size_of_vle32`; 0 if
        there is none."""
        value = 0
        for size, byte in enumerate(data[pos : min(pos + 5, end)], 1):
            value |= (byte & 0x7F) << 7 * (size - 1)
            if byte < 0x80:
                return value << 4 | size if value >> 32 == 0 else 0
        return 0

    def value_of_vle32(result: int) -> int:
        """Take the value out of a result of `read_vle32`."""
        return result >> 4

    def size_of_vle32(result: int) -> int:
        """Take the size in bytes out of a result of `read_vle32`."""
        return result & 15

    def vle_size_at(data: Bytes, pos: int, end: int) -> int:
        """Count the bytes of the VLE of up to 64 bits at a position; 0 if it is cut off by `end`."""
        size = 1
        while size < 9 and pos + size <= end and data[pos + size - 1] >= 0x80:
            size += 1
        return size if pos + size <= end else 0

    def read_vle64(data: Bytes, pos: int, size: int) -> int:
        """Read the value of a VLE whose size in bytes `vle_size_at` has counted."""
        value = 0
        for at, byte in enumerate(data[pos : pos + size]):
            value |= (byte if at == 8 else byte & 0x7F) << 7 * at
        return value

    def vle_size(value: int) -> int:
        """Count the bytes of the shortest VLE of a value of up to 64 bits."""
        return min(max(value.bit_length() + 6, 7) // 7, 9)

    def write_vle(out: Bytes, at: int, value: int) -> int:
        """Write the shortest VLE of a value to `out[at:]` and return the position behind it."""
        size = vle_size(value)
        for place in range(at, at + size - 1):
            out[place] = 0x80 | value & 0x7F  # type: ignore[index]
            value >>= 7
        out[at + size - 1] = value  # type: ignore[index]
        return at + size

    def append_vle(out: bytearray, value: int) -> None:
        """Append the shortest VLE of a value."""
        at = len(out)
        out += bytes(vle_size(value))
        write_vle(out, at, value)

    def has_nonzero_byte(data: Bytes, pos: int, size: int) -> bool:
        """Whether one of `size` bytes is not zero, as a node id must have one."""
        return any(data[pos : pos + size])

    def is_utf8(data: Bytes, pos: int, end: int) -> bool:
        """Whether the bytes from `pos` to `end` are UTF-8."""
        try:
            str(data[pos:end], "utf-8")
        except UnicodeDecodeError:
            return False
        return True
