# The fields of PushColumns, which the decoder fills and the forwarder reads row by row.
from zenspark.wire._bytes cimport read_vle32, value_of_vle32, vle_size
from zenspark.wire.columns.layout cimport *
from zenspark.wire.columns.memory cimport check_idle, const_pointer8, pointer32, pointer64


cdef class PushColumns:
    cdef readonly object data
    cdef readonly Py_ssize_t row_count
    cdef readonly Py_ssize_t template_count
    cdef readonly Py_ssize_t frame_count
    cdef readonly Py_ssize_t row_limit
    cdef readonly Py_ssize_t template_limit
    cdef readonly Py_ssize_t frame_limit
    cdef bint _busy
    cdef bint _needs_template  # whether a new template was found and all records are taken
    cdef Py_ssize_t _current  # the template of the last row; -1 if there is none
    cdef object _view
    cdef const unsigned char* _data
    cdef tuple _memory
    cdef unsigned int* _starts
    cdef unsigned int* _stops
    cdef unsigned long long* _timestamps
    cdef unsigned int* _row_templates
    cdef unsigned int* _frame_sns
    cdef unsigned int* _frame_lanes
    cdef unsigned int* _frame_rows
    cdef unsigned int* _templates
    cdef unsigned int* _slots


cdef inline unsigned int* template_of(PushColumns columns, Py_ssize_t row) noexcept nogil:
    return record_at(columns._templates, columns._row_templates[row])


cdef inline Py_ssize_t head_end(PushColumns columns, Py_ssize_t row, const unsigned int* record) noexcept nogil:
    cdef Py_ssize_t start = columns._starts[row]
    return start if record[META] & META_DEL else start - vle_size(columns._stops[row] - start)


cdef int check_rows(PushColumns columns, Py_ssize_t start, Py_ssize_t stop, bytes marks) except -1
cdef int begin_work(PushColumns columns) except -1
