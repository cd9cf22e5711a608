"""Sequence numbers in attachments: ROS 2 publishers on rmw_zenoh number their samples there, not in SourceInfo.

rmw_zenoh_cpp serializes three fields with the serializer of zenoh-ext, integers little-endian, a byte array with its
length before it:

    current   sequence number (int64)  source timestamp (int64)  16  source gid (16 bytes)               33 bytes
    older     the same three fields, each behind its name as a string: a length and the characters       77 bytes

Both have a fixed size, so a column of attachments is decoded with array operations. The gid names one publisher.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

GID_BYTES = 16
NUMBER_BYTES = 8
SEQUENCE_NUMBER_LIMIT = 1 << 48
"""Larger numbers are not taken for sequence numbers: reduces false positives to one in 16 million attachments."""

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class AttachmentLayout:
    """Byte offsets of the fields of an attachment, and its constant bytes."""

    size: int
    sequence_number: int
    source_timestamp: int
    source_gid: int
    constant: tuple[tuple[int, bytes], ...]

    @classmethod
    def of(cls, names: tuple[bytes, bytes, bytes]) -> AttachmentLayout:
        """Build the layout with these field names before the fields; empty names are omitted."""
        number, time, gid = (bytes([len(name)]) + name if name else b"" for name in names)
        gid += bytes([GID_BYTES])
        at_number = len(number)
        at_time = at_number + NUMBER_BYTES + len(time)
        at_gid = at_time + NUMBER_BYTES + len(gid)
        constant = ((0, number), (at_time - len(time), time), (at_gid - len(gid), gid))
        return cls(at_gid + GID_BYTES, at_number, at_time, at_gid, constant)

    def matches(self, attachments: Bytes) -> npt.NDArray[np.bool_]:
        """Mask of the attachments, all of the right size, that have this layout."""
        mask = np.ones(len(attachments), np.bool_)
        for position, constant in self.constant:
            part = attachments[:, position : position + len(constant)]
            mask &= (part == np.frombuffer(constant, np.uint8)).all(axis=1)
        numbers = self.numbers(attachments)
        mask &= (numbers >= 0) & (numbers < SEQUENCE_NUMBER_LIMIT)
        return mask & (_read_integers(attachments, self.source_timestamp) >= 0)

    def numbers(self, attachments: Bytes) -> npt.NDArray[np.int64]:
        return _read_integers(attachments, self.sequence_number)

    def gids(self, attachments: Bytes) -> npt.NDArray[np.void]:
        gids = attachments[:, self.source_gid : self.source_gid + GID_BYTES]
        return np.ascontiguousarray(gids).view(f"V{GID_BYTES}")[:, 0]


LAYOUTS = (
    AttachmentLayout.of((b"", b"", b"")),
    AttachmentLayout.of((b"sequence_number", b"source_timestamp", b"source_gid")),
)


class NumberedAttachments(NamedTuple):
    """The attachments of a column that have sequence numbers."""

    row_indices: npt.NDArray[np.int64]
    """Row numbers of the attachments with a sequence number, ascending."""
    numbers: npt.NDArray[np.int64]
    publisher: npt.NDArray[np.int64]
    """Index in `gids` of the publisher of each attachment."""
    gids: list[str]
    """Publisher gids as hexadecimal text."""


def find_sequence_numbers(attachments: pa.BinaryArray) -> NumberedAttachments:
    """Find attachments in the format of rmw_zenoh; nulls and other attachments are skipped."""
    starts, lengths, data = _buffers(attachments)
    row_indices, numbers, gids = [], [], []
    for layout in LAYOUTS:
        at = np.flatnonzero(lengths == layout.size)
        fields = data[starts[at][:, np.newaxis] + np.arange(layout.size)]
        valid = layout.matches(fields)
        row_indices.append(at[valid])
        numbers.append(layout.numbers(fields[valid]))
        gids.append(layout.gids(fields[valid]))
    indices = np.concatenate(row_indices)
    order = np.argsort(indices)
    unique_gids, publisher = np.unique(np.concatenate(gids)[order], return_inverse=True)
    names = [gid.tobytes().hex() for gid in unique_gids]
    return NumberedAttachments(indices[order], np.concatenate(numbers)[order], publisher.astype(np.int64), names)


def _buffers(column: pa.BinaryArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Bytes]:
    """Start and length of each value, and the buffer with their bytes; a null has the length -1."""
    _, offsets, values = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    lengths = np.diff(ends)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return ends[:-1], lengths, np.frombuffer(values or b"", np.uint8)


def _read_integers(attachments: Bytes, position: int) -> npt.NDArray[np.int64]:
    field = np.ascontiguousarray(attachments[:, position : position + NUMBER_BYTES])
    return field.view("<i8")[:, 0].astype(np.int64)
