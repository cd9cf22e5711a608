# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Batch decoder: the loop from batches to rows of `PushColumns`, and the parser of PUSH headers it runs.

A header equal to that of an earlier message, but for timestamp, publisher's sequence number and attachment bytes, is
matched with that message's template by comparing bytes. Any other header is parsed into a new template record.
"""

from __future__ import annotations

import cython

from zenspark.errors import DecodeError, UsageError
from zenspark.wire.buffer import LenientReader, Reader
from zenspark.wire.codec import read_network_message, read_transport_message
from zenspark.wire.columns.layout import STOP_REASONS, Framing, StopReason
from zenspark.wire.columns.memory import Buffer, view_as
from zenspark.wire.message_schema import Message
from zenspark.wire.messages import Frame
from zenspark.wire.values import Priority

if not cython.compiled:
    from zenspark.wire._bytes import (
        bytes_equal,
        has_nonzero_byte,
        is_utf8,
        load_u64,
        read_vle32,
        read_vle64,
        size_of_vle32,
        value_of_vle32,
        vle_size_at,
    )
    from zenspark.wire.columns.layout import (
        ABSENT,
        ATTACHMENT_DISTANCE,
        ATTACHMENT_SIZE,
        DEL_ID,
        EID,
        ENCODING,
        EXTENSION_BITS,
        FRAGMENT_ID,
        FRAME_ID,
        FRAME_QOS_EXTENSION,
        HEAD_POS,
        LANE_BITS,
        LANE_CONTINUED,
        LANE_PRIORITY,
        LANE_RELIABLE,
        MAX_TRANSPORT_ID,
        META,
        META_ATTACHED,
        META_DEL,
        META_SOURCED,
        META_TIMESTAMPED,
        META_VARIES,
        POST_POS,
        POST_SIZE,
        PRE_SIZE,
        PUSH_ID,
        PUT_ID,
        QOS_BITS,
        QOS_SHIFT,
        SCHEMA_POS,
        SCOPE,
        SIZES,
        SN_DISTANCE,
        STOP_CONTINUE,
        STOP_END,
        STOP_FULL,
        STOP_MESSAGE,
        STOP_OVERSIZED,
        SUFFIX_POS,
        SUFFIX_SIZE,
        WIRE_DEFAULT_QOS,
        Z_FLAG,
        ZID_POS,
        lane_of_header,
        lane_with_priority,
        record_at,
    )
    from zenspark.wire.columns.memory import check_idle, const_pointer8
    from zenspark.wire.columns.table import PushColumns, begin_work

_SLOT_SHIFT = cython.declare(cython.const_int, 54)  # leaves as many bits of a hash as there are pairs of slots


class ZeroCopyReader(Reader):
    """Reads the payload of a FRAGMENT without copying it: it is copied when the message is reassembled."""

    def rest(self) -> memoryview:  # type: ignore[override]  # a view has all that is used of these bytes
        """Return the rest of the batch as a view."""
        return memoryview(self.data)[self.skip(self.left()) : self.pos]


@cython.final
@cython.cclass
class BatchDecoder:
    """Decodes a buffer of batches, from `pos` on; also the state of the frame that `pos` is in.

    `limit` is the largest length in bytes a batch may announce: on a stream link the batch size less 2. The buffer is
    kept, and must not change while rows decoded from it are in use. `reliable` and `priority` are the lane of messages
    outside of frames. `is_partial_buffer` announces that the caller will present the bytes that are left at the end
    again, with more behind them.

    `pos` is the position of a message if it is below `batch_end`, else of the length of a batch; `sn` is the sequence
    number of the frame while `in_frame`. `needs_more_data` is set by `fragments.join_fragments`. The fields are
    declared in `decoder.pxd`.
    """

    def __init__(
        self,
        data: Buffer,
        framing: Framing = Framing.STREAM,
        limit: cython.ulonglong = 0xFFFF,
        pos: cython.Py_ssize_t = 0,
        end: cython.Py_ssize_t = -1,
        *,
        reliable: bool = True,
        priority: Priority = Priority.DATA,
        is_partial_buffer: bool = False,
    ) -> None:
        size: cython.Py_ssize_t = len(data)
        end = size if end < 0 else end
        if not 0 <= pos <= end <= size:
            raise IndexError(f"positions {pos} to {end} are outside {size} bytes")
        if end >= ABSENT:
            raise UsageError(f"a buffer of {end} bytes exceeds positions of 32 bits")
        self.data = data
        self.framing = framing
        self.limit = limit
        self.pos = pos
        self.in_frame = False
        self.sn = 0
        self.needs_more_data = False
        self._busy = False
        self._view = view_as("B", data)
        self._data = const_pointer8(self._view)
        self._end = end
        self._bare = framing in (Framing.BARE, Framing.MESSAGE)
        self._prefix = (2, 4, 0, 0)[framing]
        self._lane = int(priority) | (LANE_RELIABLE if reliable else 0)
        self._is_partial_buffer = is_partial_buffer
        self._fragment_sn = self._fragment_lane = 0
        self._fragment_first = self._fragment_more = False
        self._message_start = self._message_stop = self._message_end = 0
        self._message_sn = 0
        self.batch_end = pos if self._prefix else end

    @property
    def reliable(self) -> bool:
        """Whether the lane of the frame is reliable."""
        return self._lane & LANE_RELIABLE != 0

    @property
    def priority(self) -> Priority:
        """The priority of the frame."""
        return Priority(self._lane & LANE_PRIORITY)

    def decode(self, columns: PushColumns) -> StopReason:
        """Append rows to the columns, with the GIL released; returns the reason why it stopped."""
        reason: cython.int
        begin_decoding(self, columns)
        with cython.nogil:
            reason = _decode(self, columns)
        self._busy = False
        columns._busy = False
        return STOP_REASONS[reason]

    def message(self) -> Message:
        """Read the message at `pos` with the object codec, and move behind it.

        A FRAME is read with all messages in it; the payload of a FRAGMENT is a view of the buffer. Raises DecodeError,
        with positions in the whole buffer, if the bytes are malformed.
        """
        check_idle(self._busy)
        if self.pos >= self.batch_end:
            raise UsageError("there is no message here: decode stopped between batches")
        reader = Reader(self._view, self.pos, self.batch_end)
        message: Message
        if not _at_network_message(self):
            self.in_frame = False
            if self._data[self.pos] & 0x1F == FRAGMENT_ID:
                reader = ZeroCopyReader(self._view, self.pos, self.batch_end)
            message = read_transport_message(reader)
        elif self._bare:
            message = read_network_message(reader)
        else:
            try:
                message = read_network_message(reader)
            except DecodeError as error:
                error.within(Frame.NAME)  # as when the codec reads the whole frame
                raise
        self.pos = reader.pos
        return message

    def read_message_leniently(self) -> Message:
        """Read the message at `pos` as `message` does, but accept unknown mandatory extensions.

        Such a message must not be processed; the messages behind it must be.
        """
        reader = LenientReader(self._view, self.pos, self.batch_end)
        message: Message = (read_network_message if _at_network_message(self) else read_transport_message)(reader)
        self.pos = reader.pos
        return message

    def skip(self, pos: cython.Py_ssize_t) -> None:
        """Move to a later position in the same batch: the caller has decoded the message before it."""
        if not self.pos <= pos <= self.batch_end:
            raise IndexError(f"position {pos} is not in the rest of this batch, {self.pos} to {self.batch_end}")
        self.pos = pos


@cython.cfunc
@cython.exceptval(-1, check=False)
def begin_decoding(decoder: BatchDecoder, columns: PushColumns) -> cython.int:
    """Bind the columns to the buffer of the decoder, and mark both as in use by this thread."""
    if columns.data is not None and columns.data is not decoder.data:
        raise UsageError("these columns hold rows of another buffer: clear them first")
    check_idle(decoder._busy)
    begin_work(columns)
    decoder._busy = True
    columns.data = decoder.data
    columns._view = decoder._view
    columns._data = decoder._data
    return 0


@cython.cfunc
def _at_network_message(decoder: BatchDecoder) -> cython.bint:
    return (decoder._bare or decoder.in_frame) and decoder._data[decoder.pos] & 0x1F > MAX_TRANSPORT_ID


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _decode(decoder: BatchDecoder, columns: PushColumns) -> cython.int:
    reason: cython.int = STOP_CONTINUE
    while reason == STOP_CONTINUE:
        reason = _decode_message(decoder, columns) if decoder.pos < decoder.batch_end else _next_batch(decoder)
    return reason


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _next_batch(decoder: BatchDecoder) -> cython.int:
    """Enter the next batch that is not empty."""
    pos: cython.Py_ssize_t = decoder.pos
    at: cython.int
    byte: cython.ulonglong
    size: cython.ulonglong
    decoder.in_frame = False
    while decoder._prefix and decoder._end - pos >= decoder._prefix:
        size = 0
        for at in range(decoder._prefix):
            byte = decoder._data[pos + at]
            size |= byte << (8 * at)
        if size > decoder.limit:
            return STOP_OVERSIZED
        if size > cython.cast(cython.ulonglong, decoder._end - pos - decoder._prefix):
            return STOP_END
        pos += decoder._prefix
        decoder.pos = pos
        decoder.batch_end = pos + cython.cast(cython.Py_ssize_t, size)
        if size:
            return STOP_CONTINUE
    return STOP_END


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _decode_message(decoder: BatchDecoder, columns: PushColumns) -> cython.int:
    number: cython.int = decoder._data[decoder.pos] & 0x1F
    if number == PUSH_ID and (decoder.in_frame or decoder._bare):
        return decode_rows(decoder, columns)
    if number == FRAME_ID and not decoder._bare:
        return _enter_frame(decoder, columns)
    if number <= MAX_TRANSPORT_ID:
        decoder.in_frame = False
    return STOP_MESSAGE


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _enter_frame(decoder: BatchDecoder, columns: PushColumns) -> cython.int:
    pos: cython.Py_ssize_t
    decoder.in_frame = False
    if columns.frame_count == columns.frame_limit:
        return STOP_FULL
    pos = _parse_frame(decoder)
    if pos == 0:
        return STOP_MESSAGE
    decoder.pos = pos
    decoder.in_frame = True
    _record_frame(decoder, columns, 0)
    return STOP_CONTINUE


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _record_frame(decoder: BatchDecoder, columns: PushColumns, flags: cython.uint) -> cython.void:
    columns._frame_sns[columns.frame_count] = decoder.sn
    columns._frame_lanes[columns.frame_count] = decoder._lane | flags
    columns._frame_rows[columns.frame_count] = columns.row_count
    columns.frame_count += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _parse_frame(decoder: BatchDecoder) -> cython.Py_ssize_t:
    """Parse a FRAME header and return the position of its first message; 0 if it has extensions other than QoS."""
    data: cython.p_const_uchar = decoder._data
    end: cython.Py_ssize_t = decoder.batch_end
    pos: cython.Py_ssize_t = decoder.pos
    lane: cython.uint = lane_of_header(data[pos])
    more: cython.int = data[pos] & Z_FLAG
    size: cython.Py_ssize_t
    z: cython.ulonglong = read_vle32(data, pos + 1, end)
    if z == 0:
        return 0
    pos += 1 + size_of_vle32(z)
    while more:
        if pos >= end or data[pos] & EXTENSION_BITS != FRAME_QOS_EXTENSION:
            return 0
        more = data[pos] & Z_FLAG
        size = vle_size_at(data, pos + 1, end)
        if size == 0:
            return 0
        lane = lane_with_priority(lane, data[pos + 1])
        pos += 1 + size
    decoder.sn = value_of_vle32(z)
    decoder._lane = lane
    return pos


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def decode_rows(decoder: BatchDecoder, columns: PushColumns) -> cython.int:
    """Append PUSH messages as rows, up to the end of the batch or the first message that is not a row."""
    data: cython.p_const_uchar = decoder._data
    end: cython.Py_ssize_t = decoder.batch_end
    pos: cython.Py_ssize_t = decoder.pos
    row: cython.Py_ssize_t = columns.row_count
    record: cython.p_uint = record_at(columns._templates, max(columns._current, 0))
    known: cython.bint = columns._current >= 0 and record[META] & LANE_BITS == decoder._lane
    previous: cython.Py_ssize_t
    head: cython.Py_ssize_t
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    z: cython.ulonglong
    columns._needs_template = False
    if columns.frame_count == 0 and decoder.in_frame:
        _record_frame(decoder, columns, LANE_CONTINUED)
    while pos < end and row < columns.row_limit:
        head = _match(columns, pos, end, record, row) if known else 0
        if head == 0:
            previous = columns._current
            head = _find_template(columns, pos, end, decoder._lane, row)
            if head == 0:
                break
            record = record_at(columns._templates, columns._current)
            known = columns._current == previous  # a comparison before the lookup pays only in a run of one template
        start = head
        stop = head
        if record[META] & META_DEL == 0:
            z = read_vle32(data, head, end)
            start = head + size_of_vle32(z)
            stop = start + value_of_vle32(z)
            if z == 0 or value_of_vle32(z) > cython.cast(cython.ulonglong, end - start):
                break
            if size_of_vle32(z) > 1 and data[start - 1] == 0:  # not the shortest form: see head_end
                break
        columns._starts[row] = start
        columns._stops[row] = stop
        columns._row_templates[row] = columns._current
        row += 1
        pos = stop
    columns.row_count = row
    decoder.pos = pos
    return _stop_reason(decoder, columns)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _stop_reason(decoder: BatchDecoder, columns: PushColumns) -> cython.int:
    if decoder.pos == decoder.batch_end:
        return STOP_CONTINUE
    if decoder._data[decoder.pos] & 0x1F != PUSH_ID:
        return STOP_CONTINUE
    return STOP_FULL if columns._needs_template or columns.row_count == columns.row_limit else STOP_MESSAGE


# -- PUSH headers
#
# Each parser reads from `pos`, not beyond `end`, and returns the position behind what it has read; or 0, which is
# behind nothing, if the message is one for the object codec.


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _find_template(
    columns: PushColumns, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, lane: cython.uint, row: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Make the template of the message at `pos` the current one: an existing one or a new one."""
    record: cython.p_uint = record_at(columns._templates, columns.template_count)
    head: cython.Py_ssize_t
    key_end: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    hashed: cython.ulonglong
    tag: cython.uint
    if columns._data[pos] & 0x1F != PUSH_ID:
        return 0
    key_end = _parse_key(columns, pos, end, record)
    if key_end == 0:
        return 0
    hashed = _hash(columns, pos, key_end, end)
    slot = (hashed >> _SLOT_SHIFT) << 1
    tag = (hashed >> 20 & 0xFFF) << 20
    head = _try_template(columns, columns._slots[slot] ^ tag, pos, end, lane, row)
    if head == 0:
        head = _try_template(columns, columns._slots[slot + 1] ^ tag, pos, end, lane, row)
    if head:
        return head
    record[META] = lane
    head = _parse_head(columns, pos, key_end, end, record, row)
    if head == 0:
        return 0
    columns._needs_template = columns.template_count == columns.template_limit
    if columns._needs_template:
        return 0
    columns._current = columns.template_count
    columns._slots[slot + 1] = columns._slots[slot]
    columns._slots[slot] = tag | (columns._current & 0xFFFFF)
    columns.template_count += 1
    return head


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _hash(
    columns: PushColumns, pos: cython.Py_ssize_t, key_end: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.ulonglong:
    """Hash the key, and the bytes behind it up to the header of the body."""
    odd: cython.ulonglong = 0x9E3779B97F4A7C15
    full: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
    hashed: cython.ulonglong = 0
    at: cython.Py_ssize_t
    stop: cython.Py_ssize_t = key_end + (3 if columns._data[pos] & 0x80 else 1)  # with or without a QoS extension
    if stop > end:
        stop = end
    if stop - pos < 8:
        for at in range(pos, stop):
            hashed = hashed << 8 | columns._data[at]
    else:
        for at in range(pos, stop - 8, 8):
            hashed ^= load_u64(columns._data, at)
            hashed = (hashed << 23 | hashed >> 41) & full
        hashed ^= load_u64(columns._data, stop - 8)
    return hashed * odd & full


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _try_template(
    columns: PushColumns,
    index: cython.uint,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    lane: cython.uint,
    row: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Make template `index` the current one if the message at `pos` has it.

    An index with the wrong tag is too large. A slot from before `clear` may give a valid index: then the bytes differ.
    """
    head: cython.Py_ssize_t
    record: cython.p_uint
    if index >= columns.template_count:
        return 0
    record = record_at(columns._templates, index)
    if record[META] & LANE_BITS != lane:
        return 0
    head = _match(columns, pos, end, record, row)
    if head:
        columns._current = index
    return head


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _match(
    columns: PushColumns, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, record: cython.p_uint, row: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Parse a header that equals a template, its timestamp into the row; returns 0 if it differs."""
    size: cython.Py_ssize_t = record[PRE_SIZE]
    if size > end - pos or not bytes_equal(columns._data, pos, record[HEAD_POS], size):
        return 0
    pos += size
    columns._timestamps[row] = 0
    if record[META] & META_TIMESTAMPED:
        size = vle_size_at(columns._data, pos, end)
        if size == 0:
            return 0
        columns._timestamps[row] = read_vle64(columns._data, pos, size)
        pos += size
    size = record[POST_SIZE]
    if size > end - pos:
        return 0
    if record[META] & META_VARIES:
        return pos + size if _matches_around(columns, pos, record) else 0
    return pos + size if bytes_equal(columns._data, pos, record[POST_POS], size) else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _matches_around(columns: PushColumns, pos: cython.Py_ssize_t, record: cython.p_uint) -> cython.bint:
    """Compare a header behind the timestamp with a template, without sequence number and attachment bytes."""
    post: cython.Py_ssize_t = record[POST_POS]
    tail: cython.Py_ssize_t = record[POST_SIZE]
    done: cython.Py_ssize_t = 0
    stop: cython.Py_ssize_t
    size: cython.ulonglong
    if record[META] & META_SOURCED:
        stop = tail - record[SN_DISTANCE]
        size = record[SIZES] >> 8
        if (
            not bytes_equal(columns._data, pos, post, stop)
            or size_of_vle32(read_vle32(columns._data, pos + stop, pos + tail)) != size
        ):
            return False
        done = stop + size
    if record[META] & META_ATTACHED:
        stop = tail - record[ATTACHMENT_DISTANCE]
        if not bytes_equal(columns._data, pos + done, post + done, stop - done):
            return False
        done = stop + record[ATTACHMENT_SIZE]
    return bytes_equal(columns._data, pos + done, post + done, tail - done)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _parse_key(
    columns: PushColumns, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, record: cython.p_uint
) -> cython.Py_ssize_t:
    """Parse a PUSH from its header byte to the end of its key, whose text is not checked yet."""
    named: cython.int = columns._data[pos] & 0x20
    size: cython.ulonglong = 0
    z: cython.ulonglong = read_vle32(columns._data, pos + 1, end)
    if z == 0 or value_of_vle32(z) > 0xFFFF:
        return 0
    record[SCOPE] = value_of_vle32(z)
    pos += 1 + size_of_vle32(z)
    if named:
        z = read_vle32(columns._data, pos, end)
        if z == 0 or value_of_vle32(z) > 0xFFFF:
            return 0
        pos += size_of_vle32(z)
        size = value_of_vle32(z)
        if size > cython.cast(cython.ulonglong, end - pos):
            return 0
    record[SUFFIX_POS] = pos
    record[SUFFIX_SIZE] = size
    return pos + cython.cast(cython.Py_ssize_t, size)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _parse_head(
    columns: PushColumns,
    at: cython.Py_ssize_t,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    record: cython.p_uint,
    row: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Parse from the end of the key to the end of the header, the timestamp into the row; `META` holds the lane."""
    header: cython.int = columns._data[at]
    size: cython.Py_ssize_t = record[SUFFIX_SIZE]
    record[HEAD_POS] = at
    record[META] |= WIRE_DEFAULT_QOS << QOS_SHIFT | (header & 0x40) >> 1
    if not is_utf8(columns._data, record[SUFFIX_POS], record[SUFFIX_POS] + size):
        return 0
    if header & 0x80:
        pos = _parse_push_extensions(columns, pos, end, record)
    if pos == 0 or pos >= end:
        return 0
    header = columns._data[pos]
    if not _parse_body_header(columns, header, record):
        return 0
    pos += 1
    record[PRE_SIZE] = pos - at
    columns._timestamps[row] = 0
    if header & 0x20:
        size = vle_size_at(columns._data, pos, end)
        if size == 0:
            return 0
        columns._timestamps[row] = read_vle64(columns._data, pos, size)
        pos += size
    return _parse_post(columns, pos, end, header, record)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _parse_push_extensions(
    columns: PushColumns, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, record: cython.p_uint
) -> cython.Py_ssize_t:
    """Parse the QoS and node id extensions; other extensions have no column."""
    more: cython.int = 0x80
    ext: cython.int
    size: cython.Py_ssize_t
    z: cython.ulonglong
    while more:
        if pos >= end:
            return 0
        more = columns._data[pos] & 0x80
        ext = columns._data[pos] & 0x7F
        pos += 1
        if ext == 0x21:
            size = vle_size_at(columns._data, pos, end)
            if size == 0:
                return 0
            record[META] = (record[META] & ~QOS_BITS) | (columns._data[pos] & 0x3F) << QOS_SHIFT
        elif ext == 0x33:
            z = read_vle32(columns._data, pos, end)
            if z == 0 or value_of_vle32(z) > 0xFFFF:
                return 0
            size = size_of_vle32(z)
            record[SCOPE] = (record[SCOPE] & 0xFFFF) | value_of_vle32(z) << 16
        else:
            return 0
        pos += size
    return pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _parse_body_header(columns: PushColumns, header: cython.int, record: cython.p_uint) -> cython.bint:
    """Record whether the body is a PUT or a DEL and has a timestamp; returns False for any other body."""
    if header & 0x1F == DEL_ID:
        record[META] |= META_DEL
    elif header & 0x1F != PUT_ID:
        return False
    if header & 0x20:
        record[META] |= META_TIMESTAMPED
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _parse_post(
    columns: PushColumns, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, header: cython.int, record: cython.p_uint
) -> cython.Py_ssize_t:
    """Parse from behind the NTP64 of the timestamp to the end of the header."""
    size: cython.Py_ssize_t
    record[POST_POS] = pos
    record[ENCODING] = 0
    record[SIZES] = 0
    if header & 0x20:
        if pos >= end:
            return 0
        size = columns._data[pos]
        if size == 0 or size > 16 or size >= end - pos or not has_nonzero_byte(columns._data, pos + 1, size):
            return 0
        pos += 1 + size
    if header & 0x5F == 0x40 | PUT_ID:  # DEL has no encoding
        pos = _parse_encoding(columns, pos, end, record)
    if pos and header & 0x80:
        pos = _parse_body_extensions(columns, pos, end, record)
    if pos == 0:
        return 0
    record[POST_SIZE] = pos - record[POST_POS]
    if record[META] & META_SOURCED:
        record[SN_DISTANCE] = pos - record[SN_DISTANCE]
    if record[META] & META_ATTACHED:
        record[ATTACHMENT_DISTANCE] = pos - record[ATTACHMENT_DISTANCE]
    return pos


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _parse_encoding(
    columns: PushColumns, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, record: cython.p_uint
) -> cython.Py_ssize_t:
    z: cython.ulonglong = read_vle32(columns._data, pos, end)
    size: cython.ulonglong
    if z == 0:
        return 0
    pos += size_of_vle32(z)
    record[ENCODING] = value_of_vle32(z)
    if value_of_vle32(z) & 1 == 0:  # no schema
        return pos
    z = read_vle32(columns._data, pos, end)
    size = value_of_vle32(z)
    pos += size_of_vle32(z)
    if z == 0 or size > 0xFF or size > cython.cast(cython.ulonglong, end - pos):
        return 0
    record[SCHEMA_POS] = pos
    record[SIZES] = size
    return pos + cython.cast(cython.Py_ssize_t, size)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _parse_body_extensions(
    columns: PushColumns, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, record: cython.p_uint
) -> cython.Py_ssize_t:
    """Parse SourceInfo and then the attachment, the order all nodes write; no others, and none twice."""
    attachment: cython.int = 0x42 if record[META] & META_DEL else 0x43
    more: cython.int = 0x80
    ext: cython.int
    size: cython.Py_ssize_t
    z: cython.ulonglong
    while more:
        if pos >= end:
            return 0
        more = columns._data[pos] & 0x80
        ext = columns._data[pos] & 0x7F
        z = read_vle32(columns._data, pos + 1, end)
        pos += 1 + size_of_vle32(z)
        if z == 0 or value_of_vle32(z) > cython.cast(cython.ulonglong, end - pos):
            return 0
        size = value_of_vle32(z)
        if ext == 0x41 and record[META] & META_VARIES == 0:
            if not _parse_source(columns, pos, pos + size, record):
                return 0
        elif ext == attachment and record[META] & META_ATTACHED == 0:
            record[ATTACHMENT_DISTANCE] = pos
            record[ATTACHMENT_SIZE] = size
            record[META] |= META_ATTACHED
        else:
            return 0
        pos += size
    return pos


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _parse_source(
    columns: PushColumns, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, record: cython.p_uint
) -> cython.bint:
    """Parse a SourceInfo that fills its extension: entity id, and where its sequence number is."""
    size: cython.Py_ssize_t
    z: cython.ulonglong
    if pos >= end:
        return False
    size = (columns._data[pos] >> 4) + 1
    pos += 1
    if size > end - pos or not has_nonzero_byte(columns._data, pos, size):
        return False
    record[ZID_POS] = pos
    pos += size
    z = read_vle32(columns._data, pos, end)
    if z == 0:
        return False
    record[EID] = value_of_vle32(z)
    pos += size_of_vle32(z)
    z = read_vle32(columns._data, pos, end)
    record[SN_DISTANCE] = pos
    record[SIZES] |= size_of_vle32(z) << 8
    record[META] |= META_SOURCED
    return z != 0 and pos + cython.cast(cython.Py_ssize_t, size_of_vle32(z)) == end
