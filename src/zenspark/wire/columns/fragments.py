# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Fragments: reassembly of messages whose fragments are all in one buffer, in place and without the GIL.

Other fragments are joined by `transport.lane.Defragmenter`: those of datagrams and compressed batches, of messages too
large to be kept in the buffer of a link, and in any unusual order.
"""

from __future__ import annotations

import cython
import msgspec

if not cython.compiled:
    from zenspark.wire._bytes import move_bytes, read_vle32, size_of_vle32, value_of_vle32, vle_size_at
    from zenspark.wire.columns.decoder import BatchDecoder, begin_decoding, decode_rows
    from zenspark.wire.columns.layout import (
        EXTENSION_BITS,
        FIRST_EXTENSION,
        FRAGMENT_ID,
        FRAME_QOS_EXTENSION,
        MORE_FLAG,
        PUSH_ID,
        STOP_CONTINUE,
        STOP_END,
        STOP_FULL,
        STOP_MESSAGE,
        Z_FLAG,
        lane_of_header,
        lane_with_priority,
    )
    from zenspark.wire.columns.memory import pointer8
    from zenspark.wire.columns.table import PushColumns

_MAX_AWAITED_BYTES = cython.declare(cython.const_int, 1 << 18)  # a larger message is not kept in the read buffer


class ReassembledMessage(msgspec.Struct, frozen=True):
    """The result of `join_fragments`, besides the rows it has appended."""

    sn: int
    """The sequence number of the last fragment."""
    message: memoryview | None
    """The last message, as a view of the buffer, if it is one for the object codec."""


def fragment_lane(decoder: BatchDecoder) -> int:
    """Return the lane of the FRAGMENT at `decoder.pos`; -1 if there is none, or one for the object codec."""
    return decoder._fragment_lane if _is_at_fragment(decoder) else -1


def join_fragments(
    decoder: BatchDecoder,
    columns: PushColumns,
    sn: cython.uint,
    mask: cython.uint,
    marked: cython.bint,
    limit: cython.ulonglong,
) -> ReassembledMessage | None:
    """Reassemble complete messages from `decoder.pos` on, append them as rows and move behind them; None if none is.

    The fragments must follow each other in one lane, the first with sequence number `sn`; if `marked`, the first of
    each message must have the extension FIRST. Fragments that differ in any way, or make a message of more than `limit`
    bytes, are left to the object codec. If only the rest of the first message is missing, the buffer is partial and
    the message not a large one, the decoder moves back to the batch of its first fragment and sets `needs_more_data`.

    Payloads are moved together in the buffer, which must be writable.
    """
    if decoder._view.readonly or not _is_at_fragment(decoder):
        return None
    begin_decoding(decoder, columns)
    out: cython.p_uchar = pointer8(decoder._view)
    start: cython.Py_ssize_t = decoder.pos
    reason: cython.int
    with cython.nogil:
        reason = _join_messages(decoder, columns, out, sn, mask, marked, limit)
    decoder._busy = False
    columns._busy = False
    if decoder.pos == start:
        decoder.needs_more_data = (
            decoder._is_partial_buffer and reason == STOP_END and decoder._end - decoder.pos < _MAX_AWAITED_BYTES
        )
        if decoder.needs_more_data:
            decoder.pos -= decoder._prefix
            decoder.batch_end = decoder.pos
        return None
    message = decoder._view[decoder._message_start : decoder._message_stop] if reason == STOP_MESSAGE else None
    return ReassembledMessage(decoder._message_sn, message)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_at_fragment(decoder: BatchDecoder) -> cython.bint:
    """Whether the decoder is at a FRAGMENT of a stream, which it then has parsed."""
    if decoder._prefix != 2 or decoder.pos >= decoder.batch_end:
        return False
    return _parse_fragment(decoder, decoder.pos, decoder.batch_end) != 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _join_messages(
    decoder: BatchDecoder,
    columns: PushColumns,
    out: cython.p_uchar,
    sn: cython.uint,
    mask: cython.uint,
    marked: cython.bint,
    limit: cython.ulonglong,
) -> cython.int:
    """Join message by message; returns END at the end of the bytes, MESSAGE behind one that is no row, else FULL."""
    lane: cython.uint = decoder._fragment_lane
    batch: cython.Py_ssize_t = decoder.pos
    end: cython.Py_ssize_t = decoder.batch_end
    reason: cython.int
    while columns.row_count < columns.row_limit:
        reason = _find_last_fragment(decoder, batch, end, lane, sn, mask, marked, limit)
        if reason != STOP_CONTINUE:
            return reason
        _move_payloads(decoder, out, batch, end)
        if not _append_row(decoder, columns, lane):
            return STOP_MESSAGE
        sn = (decoder._message_sn + 1) & mask
        batch = decoder.pos + 2
        end = _batch_end_at(decoder, batch)
        if end <= 0:
            return STOP_END if end == 0 else STOP_FULL
    return STOP_FULL


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _batch_end_at(decoder: BatchDecoder, batch: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return where the batch with the length before it ends; 0 if it is not complete, -1 if it is above the limit."""
    size: cython.Py_ssize_t
    if batch > decoder._end:
        return 0
    size = decoder._data[batch - 2] | decoder._data[batch - 1] << 8
    if cython.cast(cython.ulonglong, size) > decoder.limit:
        return -1
    return batch + size if size <= decoder._end - batch else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _find_last_fragment(
    decoder: BatchDecoder,
    batch: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    lane: cython.uint,
    sn: cython.uint,
    mask: cython.uint,
    marked: cython.bint,
    limit: cython.ulonglong,
) -> cython.int:
    """Parse all fragments of one message; returns END if the last is missing, FULL if one is not as expected."""
    start: cython.Py_ssize_t
    size: cython.ulonglong = 0
    first: cython.bint = True
    while True:
        start = _parse_fragment(decoder, batch, end)
        if start == 0 or decoder._fragment_lane != lane or decoder._fragment_sn != sn:
            return STOP_FULL
        size += end - start
        if size > limit or (marked and decoder._fragment_first != first):
            return STOP_FULL
        if not decoder._fragment_more:
            decoder._message_end = end
            decoder._message_sn = sn
            return STOP_CONTINUE
        first = False
        sn = (sn + 1) & mask
        batch = end + 2
        end = _batch_end_at(decoder, batch)
        if end <= 0:
            return STOP_END if end == 0 else STOP_FULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _move_payloads(
    decoder: BatchDecoder, out: cython.p_uchar, batch: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.void:
    """Move the payloads of a message's fragments behind that of the first, and the decoder behind the last fragment."""
    start: cython.Py_ssize_t = _parse_fragment(decoder, batch, end)
    decoder._message_start = start
    decoder._message_stop = end
    while end < decoder._message_end:
        batch = end + 2
        end = _batch_end_at(decoder, batch)
        start = _parse_fragment(decoder, batch, end)
        move_bytes(out, decoder._message_stop, start, end - start)
        decoder._message_stop += end - start
    decoder.pos = end
    decoder.batch_end = end


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _append_row(decoder: BatchDecoder, columns: PushColumns, lane: cython.uint) -> cython.bint:
    """Append the reassembled message as a row; returns False, and appends nothing, if it is not exactly one PUSH."""
    row: cython.Py_ssize_t = columns.row_count
    end: cython.Py_ssize_t = decoder.pos
    is_row: cython.bint
    decoder.pos = decoder._message_start
    decoder.batch_end = decoder._message_stop
    decoder._lane = lane
    if decoder.pos < decoder.batch_end and decoder._data[decoder.pos] & 0x1F == PUSH_ID:
        decode_rows(decoder, columns)
    is_row = columns.row_count == row + 1 and decoder.pos == decoder.batch_end
    if not is_row:
        columns.row_count = row
    decoder.pos = end
    decoder.batch_end = end
    return is_row


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _parse_fragment(decoder: BatchDecoder, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Parse a FRAGMENT header and return the position of its payload; 0 if it is none or has other extensions."""
    data: cython.p_const_uchar = decoder._data
    size: cython.Py_ssize_t
    if pos >= end or data[pos] & 0x1F != FRAGMENT_ID:
        return 0
    more: cython.int = data[pos] & Z_FLAG
    z: cython.ulonglong = read_vle32(data, pos + 1, end)
    if z == 0:
        return 0
    decoder._fragment_sn = value_of_vle32(z)
    decoder._fragment_lane = lane_of_header(data[pos])
    decoder._fragment_first = False
    decoder._fragment_more = data[pos] & MORE_FLAG != 0
    pos += 1 + size_of_vle32(z)
    while more:
        if pos >= end:
            return 0
        more = data[pos] & Z_FLAG
        if data[pos] & EXTENSION_BITS == FIRST_EXTENSION:
            decoder._fragment_first = True
            pos += 1
            continue
        size = vle_size_at(data, pos + 1, end) if data[pos] & EXTENSION_BITS == FRAME_QOS_EXTENSION else 0
        if size == 0:
            return 0
        decoder._fragment_lane = lane_with_priority(decoder._fragment_lane, data[pos + 1])
        pos += 1 + size
    return pos
