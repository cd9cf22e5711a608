# The constants of layout.py for compiled modules; tests/unit/wire/columns/test_layout.py compares both files.

cdef enum:  # the words of a template record
    HEAD_POS = 0
    PRE_SIZE = 1
    POST_POS = 2
    POST_SIZE = 3
    META = 4
    SCOPE = 5
    SUFFIX_POS = 6
    SUFFIX_SIZE = 7
    ENCODING = 8
    SCHEMA_POS = 9
    SIZES = 10
    ZID_POS = 11
    EID = 12
    SN_DISTANCE = 13
    ATTACHMENT_DISTANCE = 14
    ATTACHMENT_SIZE = 15
    RECORD_WORDS = 16

cdef enum:  # the bits of a lane
    LANE_PRIORITY = 0x07
    LANE_RELIABLE = 0x08
    LANE_BITS = 0x0F
    LANE_CONTINUED = 0x10
    LANE_EXPRESS = 0x10
    NO_LANE = 0xFF

cdef enum:  # the bits of META behind those of the lane
    META_DEL = 0x10
    META_BY_SENDER = 0x20
    META_TIMESTAMPED = 0x40
    META_SOURCED = 0x80
    META_ATTACHED = 0x100
    META_VARIES = 0x180
    QOS_SHIFT = 16
    QOS_BITS = 0x3F0000

cdef enum:  # of messages
    FRAME_ID = 0x05
    FRAGMENT_ID = 0x06
    MAX_TRANSPORT_ID = 0x07
    PUSH_ID = 0x1D
    PUT_ID = 0x01
    DEL_ID = 0x02
    WIRE_DEFAULT_QOS = 0x05

cdef enum:  # of the headers of FRAME and FRAGMENT, and of their extensions
    RELIABLE_FLAG = 0x20
    MORE_FLAG = 0x40
    Z_FLAG = 0x80
    EXTENSION_BITS = 0x7F
    FRAME_QOS_EXTENSION = 0x31
    FIRST_EXTENSION = 0x02
    DEFAULT_PRIORITY = 0x05

cdef enum:  # reasons why a loop stopped; the first is for loops inside others
    STOP_CONTINUE = -1
    STOP_END = 0
    STOP_FULL = 1
    STOP_MESSAGE = 2
    STOP_OVERSIZED = 3

cdef extern from *:
    """
    #define ZENSPARK_ABSENT 0xFFFFFFFFu
    """
    const unsigned int ABSENT "ZENSPARK_ABSENT"


cdef inline unsigned int frame_header(unsigned int lane) noexcept nogil:
    cdef unsigned int z = Z_FLAG if lane & LANE_PRIORITY != DEFAULT_PRIORITY else 0
    return FRAME_ID | (lane & LANE_RELIABLE) << 2 | z


cdef inline unsigned int lane_of_header(unsigned int header) noexcept nogil:
    return (header & RELIABLE_FLAG) >> 2 | DEFAULT_PRIORITY


cdef inline unsigned int lane_with_priority(unsigned int lane, unsigned int priority) noexcept nogil:
    return lane & LANE_RELIABLE | priority & LANE_PRIORITY


cdef inline unsigned int* record_at(unsigned int* table, Py_ssize_t index) noexcept nogil:
    return table + index * RECORD_WORDS
