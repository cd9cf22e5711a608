# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""Memory of columns: typed views, pointers into them, and the check that no other thread works on them."""

from __future__ import annotations

import struct
from array import array
from typing import TypeAlias

import cython

from zenspark.errors import UsageError

if cython.compiled:  # pragma: no cover (coverage is measured interpreted)
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize

Buffer = bytes | bytearray | memoryview
IntegerBuffer: TypeAlias = "Buffer | array[int]"
"""A contiguous buffer of integers of one size."""


@cython.cfunc
def pointer8(memory: object) -> cython.p_uchar:
    """Return where a writable view of bytes starts; interpreted, the view itself."""
    view: cython.uchar[::1] = memory
    return cython.address(view[0]) if cython.compiled else view


@cython.cfunc
def pointer32(memory: object) -> cython.p_uint:
    """Return where a writable view of unsigned 32-bit integers starts; interpreted, the view itself."""
    view: cython.uint[::1] = memory
    return cython.address(view[0]) if cython.compiled else view


@cython.cfunc
def pointer64(memory: object) -> cython.p_ulonglong:
    """Return where a writable view of unsigned 64-bit integers starts; interpreted, the view itself."""
    view: cython.ulonglong[::1] = memory
    return cython.address(view[0]) if cython.compiled else view


@cython.cfunc
def const_pointer8(memory: object) -> cython.p_const_uchar:
    """Return where a view of bytes starts; interpreted, the view itself."""
    view: cython.const[cython.uchar][::1] = memory  # type: ignore[valid-type]
    return cython.address(view[0]) if cython.compiled else view


@cython.cfunc
def const_pointer32(memory: object) -> cython.p_const_uint:
    """Return where a view of unsigned 32-bit integers starts; interpreted, the view itself."""
    view: cython.const[cython.uint][::1] = memory  # type: ignore[valid-type]
    return cython.address(view[0]) if cython.compiled else view


@cython.cfunc
def const_pointer64(memory: object) -> cython.p_const_ulonglong:
    """Return where a view of unsigned 64-bit integers starts; interpreted, the view itself."""
    view: cython.const[cython.ulonglong][::1] = memory  # type: ignore[valid-type]
    return cython.address(view[0]) if cython.compiled else view


def view_as(form: str, column: IntegerBuffer) -> memoryview:
    """View any contiguous buffer as numbers of a one-letter format, as Arrow's buffers and signed offsets must be."""
    return memoryview(column).cast("B").cast(form)  # type: ignore[call-overload]


def zeros(form: str, count: int) -> memoryview:
    """Allocate `count` zeros of a one-letter format."""
    return view_as(form, bytearray(count * struct.calcsize(form)))


def uninitialized_bytes(size: cython.Py_ssize_t) -> bytearray:
    """Allocate memory that the caller is about to fill: zeros would be written for nothing."""
    return PyByteArray_FromStringAndSize(cython.NULL, size) if cython.compiled else bytearray(size)


@cython.ccall
@cython.exceptval(-1, check=False)
def check_idle(busy: cython.bint) -> cython.int:
    """Raise UsageError if another thread works on an object without the GIL: it must keep its memory."""
    if busy:
        raise UsageError("another thread is using this object")
    return 0
