# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Reader and Writer of the primitives: integers, byte strings and texts.

A Reader decodes bytes it does not own and copies only the requested values. Every length is checked against the
remaining bytes before it is used, so no input can make it reserve more memory than the input has. Compiled with Cython
from this very file; interpreted it behaves the same.
"""

from __future__ import annotations

import cython

from zenspark.errors import DecodeError, EncodeError, UnknownExtension

if not cython.compiled:
    from zenspark.wire._bytes import append_vle, read_vle64, vle_size_at


def _short(expected: str, position: int, left: int) -> DecodeError:
    return DecodeError(expected, position, f"{left} before the end" if left else "the end")


@cython.cclass
class Reader:
    """Read position in a buffer, and the end it must not pass."""

    _view: cython.const[cython.uchar][::1]  # type: ignore[valid-type]
    data = cython.declare(object, visibility="readonly")
    pos = cython.declare(cython.Py_ssize_t, visibility="readonly")
    end = cython.declare(cython.Py_ssize_t, visibility="readonly")

    def __init__(
        self, data: bytes | bytearray | memoryview, pos: cython.Py_ssize_t = 0, end: cython.Py_ssize_t = -1
    ) -> None:
        size: cython.Py_ssize_t = len(data)
        self.data = data
        self._view = data if cython.compiled else memoryview(data).cast("B")
        self.pos = pos
        self.end = size if end < 0 else end
        if not 0 <= self.pos <= self.end <= size:
            raise IndexError(f"positions {pos} to {end} are outside {size} bytes")

    def left(self) -> cython.Py_ssize_t:
        """Number of remaining bytes."""
        return self.end - self.pos

    def peek(self) -> cython.int:
        """The next byte without consuming it, -1 at the end."""
        return self._view[self.pos] if self.pos < self.end else -1

    def u8(self) -> cython.int:
        """Read one byte."""
        if self.pos >= self.end:
            raise _short("a byte", self.pos, 0)
        self.pos += 1
        return self._view[self.pos - 1]

    def u16(self) -> cython.int:
        """Read two bytes, little-endian."""
        if self.end - self.pos < 2:
            raise _short("2 bytes", self.pos, self.end - self.pos)
        self.pos += 2
        return self._view[self.pos - 2] | (self._view[self.pos - 1] << 8)

    def z(self, bits: cython.int) -> cython.ulonglong:
        """Read a variable-length integer of at most `bits` bits; non-minimal encodings are accepted."""
        start: cython.Py_ssize_t = self.pos
        data: cython.p_const_uchar = cython.address(self._view[0]) if cython.compiled else self._view
        if start < self.end and data[start] < 0x80 and bits > 6:  # one byte, as most integers have
            self.pos = start + 1
            return data[start]
        size: cython.Py_ssize_t = vle_size_at(data, start, self.end)
        if size == 0:
            raise _short("an integer", start, self.end - start)
        value: cython.ulonglong = read_vle64(data, start, size)
        if bits < 64 and value >> bits:
            raise DecodeError(f"an integer of at most {bits} bits", start, str(value))
        self.pos = start + size
        return value

    def take(self, length: cython.ulonglong) -> bytes:
        """Read exactly `length` bytes, copied once."""
        start: cython.Py_ssize_t = self.pos
        if length > cython.cast(cython.ulonglong, self.end - start):
            raise _short(f"{length} bytes", start, self.end - start)
        self.pos = start + cython.cast(cython.Py_ssize_t, length)
        return bytes(self.data[start : self.pos])

    def skip(self, length: cython.ulonglong) -> cython.Py_ssize_t:
        """Skip `length` bytes; returns the position where they start."""
        start: cython.Py_ssize_t = self.pos
        if length > cython.cast(cython.ulonglong, self.end - start):
            raise _short(f"{length} bytes", start, self.end - start)
        self.pos = start + cython.cast(cython.Py_ssize_t, length)
        return start

    def blob(self, bits: cython.int) -> bytes:
        """Read a length of at most `bits` bits, then that many bytes."""
        return self.take(self.z(bits))

    def rest(self) -> bytes:
        """Read all remaining bytes."""
        return self.take(self.end - self.pos)

    def on_unknown_extension(self, number: int, position: int) -> None:
        """Reject an unknown mandatory extension: its message must not be processed."""
        raise UnknownExtension(number, position)

    def _decode_text(self, raw: bytes, start: int) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise DecodeError("UTF-8 text", start + error.start, f"byte 0x{raw[error.start]:02x}") from None

    def text(self, bits: cython.int) -> str:
        """Read a length, then that many bytes of UTF-8."""
        raw = self.take(self.z(bits))
        return self._decode_text(raw, self.pos - len(raw))

    def rest_text(self) -> str:
        """Read all remaining bytes as UTF-8."""
        start = self.pos
        return self._decode_text(self.take(self.end - self.pos), start)

    def enter(self) -> cython.Py_ssize_t:
        """Read a length and move the end there; pass the result to `leave`."""
        length: cython.ulonglong = self.z(32)
        outer: cython.Py_ssize_t = self.end
        if length > cython.cast(cython.ulonglong, outer - self.pos):
            raise _short(f"{length} bytes", self.pos, outer - self.pos)
        self.end = self.pos + cython.cast(cython.Py_ssize_t, length)
        return outer

    def leave(self, outer: cython.Py_ssize_t) -> None:
        """Check that everything since `enter` was read, and restore the outer end."""
        if self.pos != self.end:
            raise DecodeError("the end of the extension", self.pos, f"{self.end - self.pos} bytes more")
        self.end = outer


class LenientReader(Reader):
    """Reads past unknown extensions, also mandatory ones, to find the end of a message that is not processed."""

    def on_unknown_extension(self, number: int, position: int) -> None:
        """Accept the extension: its content is kept with the message."""


@cython.cclass
class Writer:
    """Bytes being written; `field` names the value in errors."""

    data = cython.declare(bytearray, visibility="readonly")

    def __init__(self) -> None:
        self.data = bytearray()

    def u8(self, value: object, field: str) -> None:
        """Write one byte."""
        self.data.append(cython.cast(cython.uchar, self._integer(value, 8, field)))

    def u16(self, value: object, field: str) -> None:
        """Write two bytes, little-endian."""
        number: cython.ulonglong = self._integer(value, 16, field)
        self.data.append(cython.cast(cython.uchar, number & 0xFF))
        self.data.append(cython.cast(cython.uchar, number >> 8))

    def z(self, value: object, bits: cython.int, field: str) -> None:
        """Write a variable-length integer in its shortest form."""
        append_vle(self.data, self._integer(value, bits, field))

    @cython.cfunc
    @cython.inline
    def _integer(self, value: object, bits: cython.int, field: str) -> cython.ulonglong:
        if not isinstance(value, int):
            raise EncodeError(f"expected an integer, got {type(value).__name__}", field)
        if value < 0 or value >> bits:
            raise EncodeError(f"{value} does not fit {bits} bits", field)
        return value

    def blob(self, value: object, bits: cython.int, field: str) -> None:
        """Write a length, then the bytes."""
        append_vle(self.data, self._length(value, bits, field))
        self.data += value

    def raw(self, value: object, field: str) -> None:
        """Write bytes without a length."""
        self._length(value, 64, field)
        self.data += value

    @cython.cfunc
    def _length(self, value: object, bits: cython.int, field: str) -> cython.ulonglong:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise EncodeError(f"expected bytes, got {type(value).__name__}", field)
        length: cython.ulonglong = len(value)
        if bits < 64 and length >> bits:
            raise EncodeError(f"{length} bytes do not fit a {bits}-bit length", field)
        return length

    def text(self, value: object, bits: cython.int, field: str) -> None:
        """Write a length, then the text as UTF-8."""
        self.blob(self._utf8(value, field), bits, field)

    def rest_text(self, value: object, field: str) -> None:
        """Write a text as UTF-8, without a length."""
        self.data += self._utf8(value, field)

    def _utf8(self, value: object, field: str) -> bytes:
        if not isinstance(value, str):
            raise EncodeError(f"expected text, got {type(value).__name__}", field)
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise EncodeError(f"character {error.start} cannot be written as UTF-8", field) from None

    def extension(self, previous: cython.Py_ssize_t, header: cython.int) -> cython.Py_ssize_t:
        """Start an extension: set the Z bit of the previous header; returns the position of the new header."""
        self.data[previous] |= 0x80
        self.data.append(cython.cast(cython.uchar, header))
        return len(self.data) - 1

    def enter(self) -> cython.Py_ssize_t:
        """Reserve a byte for a length; pass the result to `leave` when the content is written."""
        self.data.append(0)
        return len(self.data)

    def leave(self, start: cython.Py_ssize_t) -> None:
        """Fill in the length of the bytes written since `enter`."""
        length: cython.ulonglong = len(self.data) - start
        if length < 0x80:
            self.data[start - 1] = length
            return
        head = bytearray()
        append_vle(head, length)
        self.data[start - 1 : start] = head
