"""Sequence numbers in attachments: ROS 2 publishers on rmw_zenoh number what they publish there, not in SourceInfo.

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
"""Larger numbers are no sequence numbers: one in 16 million attachments of other contents passes for one of these."""

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class AttachmentLayout:
    """Where the fields are in an attachment, and which bytes are the same in all of them."""

    size: int
    sequence_number: int
    source_timestamp: int
    source_gid: int
    constant: tuple[tuple[int, bytes], ...]

    @classmethod
    def of(cls, names: tuple[bytes, bytes, bytes]) -> AttachmentLayout:
        """The layout with these names before the fields; with empty ones, without any."""
        number, time, gid = (bytes([len(name)]) + name if name else b"" for name in names)
        gid += bytes([GID_BYTES])
        at_number = len(number)
        at_time = at_number + NUMBER_BYTES + len(time)
        at_gid = at_time + NUMBER_BYTES + len(gid)
        constant = ((0, number), (at_time - len(time), time), (at_gid - len(gid), gid))
        return cls(at_gid + GID_BYTES, at_number, at_time, at_gid, constant)

    def matches(self, attachments: Bytes) -> npt.NDArray[np.bool_]:
        """Which of these attachments of the right size have this layout."""
        found = np.ones(len(attachments), np.bool_)
        for position, constant in self.constant:
            part = attachments[:, position : position + len(constant)]
            found &= (part == np.frombuffer(constant, np.uint8)).all(axis=1)
        numbers = self.numbers(attachments)
        found &= (numbers >= 0) & (numbers < SEQUENCE_NUMBER_LIMIT)
        return found & (_read_integers(attachments, self.source_timestamp) >= 0)

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
    """The attachments of a column that have a sequence number."""

    places: npt.NDArray[np.int64]
    """The rows they are in, in order."""
    numbers: npt.NDArray[np.int64]
    publisher: npt.NDArray[np.int64]
    """For each the index of its publisher in `gids`."""
    gids: list[str]
    """In hexadecimal digits, byte by byte."""


def find_sequence_numbers(attachments: pa.BinaryArray) -> NumberedAttachments:
    """Finds the attachments that are exactly as rmw_zenoh makes them; nulls and all others are left out."""
    starts, lengths, data = _buffers(attachments)
    places, numbers, gids = [], [], []
    for layout in LAYOUTS:
        at = np.flatnonzero(lengths == layout.size)
        found = data[starts[at][:, np.newaxis] + np.arange(layout.size)]
        valid = layout.matches(found)
        places.append(at[valid])
        numbers.append(layout.numbers(found[valid]))
        gids.append(layout.gids(found[valid]))
    place = np.concatenate(places)
    order = np.argsort(place)
    known, publisher = np.unique(np.concatenate(gids)[order], return_inverse=True)
    names = [gid.tobytes().hex() for gid in known]
    return NumberedAttachments(place[order], np.concatenate(numbers)[order], publisher.astype(np.int64), names)


def _buffers(column: pa.BinaryArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Bytes]:
    """Where each value begins and how long it is, and the bytes of all; a null has the length -1."""
    _, offsets, values = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    lengths = np.diff(ends)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return ends[:-1], lengths, np.frombuffer(values or b"", np.uint8)


def _read_integers(attachments: Bytes, position: int) -> npt.NDArray[np.int64]:
    field = np.ascontiguousarray(attachments[:, position : position + NUMBER_BYTES])
    return field.view("<i8")[:, 0].astype(np.int64)
