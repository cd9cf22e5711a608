# cython: language_level=3, freethreading_compatible=True
"""ZBytes: the bytes of a payload or an attachment, readable as a buffer without a copy.

Every received sample has one, so it is compiled and has a single field. It exposes its memory to `memoryview` and other
readers of buffers (numpy, pyarrow, struct): compiled by `__getbuffer__`, on every Python; interpreted by `__buffer__`,
which Python supports from 3.12 on. Interpreted on 3.11, only `to_bytes()` returns the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Buffer  # a name for type checkers: from Python 3.12 on it is in collections.abc

    from zenspark import _cython as cython

    IntoZBytes: TypeAlias = "ZBytes | Buffer | str"
    """Bytes, a str, a ZBytes or any other buffer."""
else:
    import cython

    try:
        from collections.abc import Buffer
    except ImportError:  # before Python 3.12
        Buffer = bytes | bytearray | memoryview

if cython.compiled:  # pragma: no cover
    from cython.cimports.cpython.buffer import (
        PyBUF_FORMAT,
        PyBUF_ND,
        PyBUF_STRIDES,
        PyBUF_WRITABLE,
    )
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_GET_SIZE

from zenspark.constructor_signature import ConstructorSignature

MAX_REPR_BYTES = 32
"""Bytes of a payload that `repr` shows: a log line must not grow with the payload."""


@cython.final
@cython.auto_pickle(False)
@cython.cclass
class ZBytes:
    """A payload: bytes that Zenoh does not interpret.

    It equals bytes with the same content, and text that has them in UTF-8, and hashes like the bytes. Others read it
    without a copy through the buffer protocol.

    Args:
        obj: Bytes, text (as UTF-8), or any buffer, which is copied; empty by default.

    Raises:
        TypeError: It is none of these.

    Example:
        >>> zenspark.ZBytes("text").to_bytes()
        b'text'
    """

    __slots__ = ("_data",)
    __signature__ = ConstructorSignature()

    _data: bytes

    def __init__(self, obj: IntoZBytes | None = None) -> None:
        # Nearly all are made from bytes, so that is checked first.
        if type(obj) is bytes:
            self._data = obj
        else:
            self._data = b"" if obj is None else _copy_bytes(obj)

    @staticmethod
    def of(obj: IntoZBytes) -> ZBytes:
        """Return a payload as it is, and make one from anything else.

        Args:
            obj: A payload, bytes, text, or any buffer.

        Returns:
            The same payload, or a new one.

        Raises:
            TypeError: It is none of these; None is rejected too.

        Example:
            >>> zenspark.ZBytes.of("text")
            ZBytes(b'text')
        """
        if type(obj) is ZBytes:
            return obj
        if obj is None:
            raise _type_error(obj)
        return ZBytes(obj)

    def to_bytes(self) -> bytes:
        """Return the bytes, without a copy.

        Returns:
            The bytes; the same object each time.

        Example:
            >>> zenspark.ZBytes("text").to_bytes()
            b'text'
        """
        return self._data

    def to_string(self) -> str:
        """Decode the bytes as UTF-8.

        Returns:
            The text.

        Raises:
            ValueError: They are not UTF-8.

        Example:
            >>> zenspark.ZBytes(b"21.5").to_string()
            '21.5'
        """
        return self._data.decode()

    def as_shm(self) -> None:
        """Return None: shared memory is not supported.

        Returns:
            None, as eclipse-zenoh does for a payload outside of shared memory.

        Example:
            >>> zenspark.ZBytes(b"1").as_shm() is None
            True
        """
        return None

    def __bytes__(self) -> bytes:
        return self._data

    def __str__(self) -> str:
        return self._data.decode()

    def __repr__(self) -> str:
        size = len(self._data)
        return (
            f"ZBytes({self._data!r})"
            if size <= MAX_REPR_BYTES
            else f"ZBytes({self._data[:MAX_REPR_BYTES]!r}... {size} bytes)"
        )

    def __len__(self) -> int:
        return len(self._data)

    def __bool__(self) -> bool:
        return len(self._data) > 0

    def __eq__(self, other: object) -> bool:
        if type(other) is ZBytes:
            return self._data == other.to_bytes()
        if isinstance(other, str):
            return self._data == other.encode("utf-8", "surrogatepass")
        if isinstance(other, (bytes, bytearray, memoryview)):
            return self._data == other
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._data)

    def __reduce__(self) -> tuple[type[ZBytes], tuple[bytes]]:
        return ZBytes, (self._data,)

    def __getbuffer__(self, buffer: cython.pointer[cython.Py_buffer], flags: cython.int) -> None:  # pragma: no cover
        if flags & PyBUF_WRITABLE:
            raise BufferError("a ZBytes never changes")
        buffer.obj = self
        buffer.buf = PyBytes_AS_STRING(self._data)
        buffer.len = PyBytes_GET_SIZE(self._data)
        buffer.readonly = 1
        buffer.itemsize = 1
        buffer.ndim = 1
        buffer.format = buffer.shape = buffer.strides = cython.NULL
        if flags & PyBUF_FORMAT == PyBUF_FORMAT:
            buffer.format = b"B"
        if flags & PyBUF_ND == PyBUF_ND:
            buffer.shape = cython.address(buffer.len)
        if flags & PyBUF_STRIDES == PyBUF_STRIDES:
            buffer.strides = cython.address(buffer.itemsize)
        buffer.suboffsets = cython.NULL
        buffer.internal = cython.NULL

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self._data)


if not TYPE_CHECKING:
    IntoZBytes = ZBytes | Buffer | str


def as_buffer(obj: IntoZBytes) -> bytes | memoryview:
    """Return the memory of a payload, to be written before the call returns: a buffer is not copied."""
    if type(obj) is bytes:
        return obj
    if type(obj) is ZBytes or isinstance(obj, str) or obj is None:
        return ZBytes.of(obj).to_bytes()
    try:
        return memoryview(obj).cast("B")
    except TypeError:  # no buffer, or one with gaps
        return _copy_bytes(obj)


def _copy_bytes(obj: IntoZBytes) -> bytes:
    if isinstance(obj, str):
        return obj.encode()
    if type(obj) is ZBytes:
        return obj.to_bytes()
    try:
        return memoryview(obj).tobytes()
    except TypeError:
        raise _type_error(obj) from None


def _type_error(obj: IntoZBytes) -> TypeError:
    hint = "; json.dumps(...) makes a str of it" if isinstance(obj, dict | list | int | float) else ""
    return TypeError(f"expected bytes, a str or another buffer, found {type(obj).__name__!r}{hint}")
