# The fields of a BatchDecoder, and the two functions that fragments.py calls.
from zenspark.wire._bytes cimport (
    bytes_equal, has_nonzero_byte, is_utf8, load_u64, read_vle32, read_vle64, size_of_vle32, value_of_vle32,
    vle_size_at
)
from zenspark.wire.columns.layout cimport *
from zenspark.wire.columns.memory cimport check_idle, const_pointer8
from zenspark.wire.columns.table cimport PushColumns, begin_work


cdef class BatchDecoder:
    cdef readonly object data
    cdef readonly object framing
    cdef readonly unsigned long long limit
    cdef readonly Py_ssize_t pos
    cdef readonly Py_ssize_t batch_end
    cdef readonly bint in_frame
    cdef readonly unsigned int sn
    cdef readonly bint needs_more_data
    cdef bint _busy
    cdef object _view
    cdef const unsigned char* _data
    cdef Py_ssize_t _end
    cdef bint _bare
    cdef Py_ssize_t _prefix
    cdef unsigned int _lane
    cdef bint _is_partial_buffer
    # The fragment that fragments.py parsed last.
    cdef unsigned int _fragment_sn
    cdef unsigned int _fragment_lane
    cdef bint _fragment_first
    cdef bint _fragment_more
    # The message that was reassembled last: where it is, where its last fragment ends, and the number of that one.
    cdef Py_ssize_t _message_start
    cdef Py_ssize_t _message_stop
    cdef Py_ssize_t _message_end
    cdef unsigned int _message_sn


cdef int begin_decoding(BatchDecoder decoder, PushColumns columns) except -1
cdef int decode_rows(BatchDecoder decoder, PushColumns columns) noexcept nogil
