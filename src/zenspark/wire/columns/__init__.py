"""Runs of PUSH messages decoded into columns, and columns encoded into frames: no Python object per message, no GIL.

A **row** is what differs from message to message: payload, timestamp, and the index of its template. A **template** is
what repeats: key, kind, encoding, QoS, timestamp id, source. A **frame** is a range of rows that arrived under one
sequence number. Payloads are not copied: positions refer to the buffer that was decoded, and are valid as long as the
buffer is neither changed nor freed.

`BatchDecoder` appends rows to `PushColumns`. It stops, at the first byte of the message, at every message but PUSH, at
a PUSH with something that has no column, and at malformed bytes; `BatchDecoder.message` then reads the message with the
object codec. So order is kept, and every decode error is raised by the object codec.

    decoder = BatchDecoder(data, Framing.STREAM, limit)
    while (reason := decoder.decode(columns)) is not StopReason.END: ...  # data[decoder.pos:] is an unfinished batch

`BatchEncoder` writes `OutgoingRows` into batches, and stops at a row for the object codec: one that must be fragmented
or is not valid. Rows that a node forwards are not encoded again: `RowForwarder` copies them behind headers that are
made once for each template.

`PushColumns` allocates its memory when it is made: 20 bytes a row, 64 a template, 12 a frame. No input makes it grow.

Modules: `layout` has constants and enums, `memory` pointers, `binary` binary columns, `table` the push columns,
`push_run` a range of their rows, `decoder` the decode loop and header parser, `fragments` reassembly in place,
`forwarder` and `encoder` the two ways out. All but `layout` and `push_run` are compiled; a `.pxd` beside a module
declares what C code of other modules may use of it.
"""

from zenspark.wire.columns.binary import BinaryColumn, PackedBinary
from zenspark.wire.columns.decoder import BatchDecoder
from zenspark.wire.columns.encoder import BatchEncoder, OutgoingRows
from zenspark.wire.columns.forwarder import RowForwarder
from zenspark.wire.columns.fragments import ReassembledMessage, fragment_lane, join_fragments
from zenspark.wire.columns.layout import (
    ABSENT,
    LANE_CONTINUED,
    LANE_EXPRESS,
    LANE_PRIORITY,
    LANE_RELIABLE,
    NO_LANE,
    Framing,
    PushTemplate,
    RowKind,
    StopReason,
    lane_of,
)
from zenspark.wire.columns.memory import uninitialized_bytes
from zenspark.wire.columns.push_run import PushRun
from zenspark.wire.columns.table import PushColumns

__all__ = [
    "ABSENT",
    "LANE_CONTINUED",
    "LANE_EXPRESS",
    "LANE_PRIORITY",
    "LANE_RELIABLE",
    "NO_LANE",
    "BatchDecoder",
    "BatchEncoder",
    "BinaryColumn",
    "Framing",
    "OutgoingRows",
    "PackedBinary",
    "PushColumns",
    "PushRun",
    "PushTemplate",
    "ReassembledMessage",
    "RowForwarder",
    "RowKind",
    "StopReason",
    "fragment_lane",
    "join_fragments",
    "lane_of",
    "uninitialized_bytes",
]
