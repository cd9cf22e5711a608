# The C implementation of _bytes.py, compiled into every module that imports it from here: inside a loop over messages
# there is no call into another extension module. `vle` is a variable-length integer as Zenoh writes it.
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from libc.string cimport memcmp, memcpy, memmove

cdef extern from "Python.h":
    const bint PY_LITTLE_ENDIAN


cdef inline unsigned long long load_u64(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    cdef unsigned long long value
    memcpy(&value, data + at, 8)
    return value


cdef inline unsigned int load_u32(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    cdef unsigned int value
    memcpy(&value, data + at, 4)
    return value


cdef inline Py_ssize_t copy_bytes(
    unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t pos, Py_ssize_t size
) noexcept nogil:
    if size > 16:
        memcpy(out + at, data + pos, size)
    elif size >= 8:  # a call costs more than two loads that may overlap
        memcpy(out + at, data + pos, 8)
        memcpy(out + at + size - 8, data + pos + size - 8, 8)
    elif size >= 4:
        memcpy(out + at, data + pos, 4)
        memcpy(out + at + size - 4, data + pos + size - 4, 4)
    elif size > 0:
        out[at] = data[pos]
        out[at + (size >> 1)] = data[pos + (size >> 1)]
        out[at + size - 1] = data[pos + size - 1]
    return at + size


cdef inline void move_bytes(unsigned char* memory, Py_ssize_t at, Py_ssize_t start, Py_ssize_t size) noexcept nogil:
    memmove(memory + at, memory + start, size)


cdef inline bint bytes_equal_short(
    const unsigned char* data, Py_ssize_t a, Py_ssize_t b, Py_ssize_t size
) noexcept nogil:
    # At most seven bytes: two or three loads that may overlap.
    if size >= 4:
        return load_u32(data, a) == load_u32(data, b) and load_u32(data, a + size - 4) == load_u32(data, b + size - 4)
    if size == 0:
        return True
    cdef Py_ssize_t middle = size >> 1
    cdef Py_ssize_t last = size - 1
    return data[a] == data[b] and data[a + middle] == data[b + middle] and data[a + last] == data[b + last]


cdef inline bint bytes_equal(const unsigned char* data, Py_ssize_t a, Py_ssize_t b, Py_ssize_t size) noexcept nogil:
    if size < 8:
        return bytes_equal_short(data, a, b, size)
    cdef Py_ssize_t last = size - 8
    cdef Py_ssize_t at = 0
    while at < last:
        if load_u64(data, a + at) != load_u64(data, b + at):
            return False
        at += 8
    return load_u64(data, a + last) == load_u64(data, b + last)


cdef inline bint starts_with(
    const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, const unsigned char* prefix, Py_ssize_t size
) noexcept nogil:
    return size <= end - pos and memcmp(data + pos, prefix, size) == 0


# -- variable-length integers


cdef inline unsigned long long read_vle32_slow(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef unsigned long long byte
    cdef unsigned long long value = 0
    cdef int size = 0
    while size < 5 and pos + size < end:
        byte = data[pos + size]
        value |= (byte & 0x7F) << (7 * size)
        size += 1
        if byte < 0x80:
            return value << 4 | size if value >> 32 == 0 else 0
    return 0


cdef inline unsigned long long read_vle32(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef unsigned long long byte
    if pos < end:
        byte = data[pos]
        if byte < 0x80:
            return byte << 4 | 1
    return read_vle32_slow(data, pos, end)


cdef inline unsigned long long value_of_vle32(unsigned long long result) noexcept nogil:
    return result >> 4


cdef inline unsigned long long size_of_vle32(unsigned long long result) noexcept nogil:
    return result & 15


cdef inline Py_ssize_t vle_size_at(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef unsigned long long high = 0x8080808080808080
    cdef Py_ssize_t size = 1
    if end - pos >= 9 and load_u64(data, pos) & high == high:  # a clock reading
        return 9
    while size < 9 and pos + size <= end and data[pos + size - 1] >= 0x80:
        size += 1
    return size if pos + size <= end else 0


cdef inline unsigned long long read_vle64_of_nine(const unsigned char* data, Py_ssize_t pos) noexcept nogil:
    # Nine bytes, as clock readings have: seven bits of eight bytes at once, joined in pairs.
    cdef unsigned long long x = load_u64(data, pos)
    cdef unsigned long long low7 = 0x007F007F007F007F
    cdef unsigned long long low14 = 0x00003FFF00003FFF
    cdef unsigned long long low28 = 0x000000000FFFFFFF
    cdef unsigned long long ninth = data[pos + 8]
    x = (x & low7) | (x >> 8 & low7) << 7
    x = (x & low14) | (x >> 16 & low14) << 14
    x = (x & low28) | (x >> 32 & low28) << 28
    return x | ninth << 56


cdef inline unsigned long long read_vle64(const unsigned char* data, Py_ssize_t pos, Py_ssize_t size) noexcept nogil:
    if size == 9 and PY_LITTLE_ENDIAN:
        return read_vle64_of_nine(data, pos)
    cdef unsigned long long byte
    cdef unsigned long long value = 0
    cdef int at
    for at in range(size):
        byte = data[pos + at]
        value |= (byte if at == 8 else byte & 0x7F) << (7 * at)  # the ninth byte carries eight bits
    return value


cdef inline Py_ssize_t vle_size(unsigned long long value) noexcept nogil:
    cdef Py_ssize_t size = 1
    if value <= 0x7F:  # most values: no loop to set up
        return 1
    if value >> 56:  # a clock reading
        return 9
    while value > 0x7F and size < 9:
        value >>= 7
        size += 1
    return size


cdef inline Py_ssize_t write_vle(unsigned char* out, Py_ssize_t at, unsigned long long value) noexcept nogil:
    cdef int count = 0
    if value <= 0x7F:
        out[at] = <unsigned char> value
        return at + 1
    if value >> 56:  # a clock reading: a loop of constant length, which the compiler unrolls
        for count in range(8):
            out[at + count] = <unsigned char> (0x80 | value >> (7 * count))
        out[at + 8] = <unsigned char> (value >> 56)
        return at + 9
    while value > 0x7F and count < 8:
        out[at + count] = 0x80 | (value & 0x7F)
        value >>= 7
        count += 1
    out[at + count] = <unsigned char> value  # a ninth byte carries all eight bits
    return at + count + 1


cdef inline int append_vle(bytearray out, unsigned long long value) except -1:
    if value < 0x80:
        out.append(<unsigned char> value)
        return 0
    cdef Py_ssize_t at = PyByteArray_GET_SIZE(out)
    PyByteArray_Resize(out, at + vle_size(value))
    write_vle(<unsigned char*> PyByteArray_AS_STRING(out), at, value)
    return 0


# -- node ids and text


cdef inline bint has_nonzero_byte(const unsigned char* data, Py_ssize_t pos, Py_ssize_t size) noexcept nogil:
    while size and data[pos] == 0:
        pos += 1
        size -= 1
    return size > 0


cdef inline bint is_wrong_second_byte(int first, int second) noexcept nogil:
    if first == 0xE0:
        return second < 0xA0
    if first == 0xED:
        return second > 0x9F  # surrogates
    if first == 0xF0:
        return second < 0x90
    return first == 0xF4 and second > 0x8F


cdef inline Py_ssize_t utf8_length(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    # Bytes of the character at `pos`; 0 if it is none, cut off, a surrogate, or longer than need be.
    cdef int first = data[pos]
    cdef Py_ssize_t size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    cdef Py_ssize_t at
    if size == 1:
        return 1
    if first < 0xC2 or first > 0xF4 or size > end - pos:
        return 0
    for at in range(1, size):
        if data[pos + at] & 0xC0 != 0x80:
            return 0
    return 0 if is_wrong_second_byte(first, data[pos + 1]) else size


cdef inline bint is_utf8_slow(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t size
    while pos < end:
        size = utf8_length(data, pos, end)
        if size == 0:
            return False
        pos += size
    return True


cdef inline bint is_utf8(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept nogil:
    cdef unsigned long long high = 0x8080808080808080
    cdef unsigned long long bits = 0
    cdef Py_ssize_t at
    if end - pos < 8:
        for at in range(pos, end):
            bits |= data[at]
    else:
        for at in range(pos, end - 8, 8):
            bits |= load_u64(data, at)
        bits |= load_u64(data, end - 8)
    return bits & high == 0 or is_utf8_slow(data, pos, end)
