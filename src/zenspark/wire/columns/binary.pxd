# The fields of a BinaryColumn, and the two accessors that loops over rows of other modules use.
from zenspark.wire._bytes cimport copy_bytes
from zenspark.wire.columns.layout cimport ABSENT
from zenspark.wire.columns.memory cimport const_pointer8, const_pointer32, pointer8, pointer32


cdef class BinaryColumn:
    cdef readonly object data
    cdef readonly object starts
    cdef readonly object stops
    cdef readonly Py_ssize_t count
    cdef tuple _views
    cdef const unsigned char* _data
    cdef Py_ssize_t _size
    cdef const unsigned int* _starts
    cdef const unsigned int* _stops
    cdef Py_ssize_t _step
    cdef bint _has_validity
    cdef const unsigned char* _validity
    cdef Py_ssize_t _first_bit


cdef inline Py_ssize_t value_start(BinaryColumn column, Py_ssize_t row) noexcept nogil:
    return column._starts[row * column._step]


cdef inline Py_ssize_t value_size(BinaryColumn column, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t start = column._starts[row * column._step]
    cdef Py_ssize_t stop = column._stops[row * column._step]
    cdef Py_ssize_t bit = column._first_bit + row
    if start == ABSENT or (column._has_validity and not column._validity[bit >> 3] >> (bit & 7) & 1):
        return -1
    return stop - start if start <= stop <= column._size else -2
