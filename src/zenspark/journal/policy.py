"""Policy of a journal: flushing, fsync, segments and retention.

Every field is also a flag of `zenspark record`; its description is the help text.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Annotated, Literal, TypeAlias, get_type_hints

import msgspec

from zenspark.errors import UsageError

MIB = 1 << 20
DAY_SECONDS = 86_400.0
MAX_BLOCK_BYTES = 1 << 30
"""Maximum bytes of a block: Arrow has signed 32-bit offsets into a column."""

POSITIVE_FIELDS = (
    "flush_rows",
    "flush_bytes",
    "segment_bytes",
    "segment_age",
    "retain_age",
    "retain_bytes",
    "reader_expiry",
)
NON_NEGATIVE_FIELDS = ("flush_interval", "fsync", "retain_read_age", "retain_read_bytes", "block_timeout")

Fsync: TypeAlias = float | Literal["never", "flush"]
Compression: TypeAlias = Literal["none", "lz4", "zstd"]


def _help(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a journal writer. Durations are seconds, sizes bytes; None is no limit.

    A crash of the process costs what was not flushed: at most `flush_interval` seconds, `flush_rows` rows or
    `flush_bytes` bytes, whichever is least. A power loss costs the same with `fsync="flush"`; with a number also
    the rows of that many seconds; with "never" all rows that the operating system had not written.

    Raises:
        UsageError: A value is out of its range.

    Example:
        >>> policy = Policy(fsync="flush", retain_age=7 * 86_400)
        >>> policy.flush_interval
        0.1
    """

    flush_interval: Annotated[float, _help("longest time until received rows are acknowledged")] = 0.1
    flush_rows: Annotated[int, _help("number of rows after which they are acknowledged at once")] = 65_536
    flush_bytes: Annotated[int, _help("number of bytes after which rows are acknowledged at once")] = 16 * MIB
    fsync: Annotated[Fsync, _help("fsync of acknowledged rows: never, at every flush, or at this interval")] = 1.0
    segment_bytes: Annotated[int, _help("size after which another segment is begun")] = 256 * MIB
    segment_age: Annotated[float, _help("age after which another segment is begun")] = 3600.0
    retain_age: Annotated[float | None, _help("remove segments whose rows are all older")] = None
    retain_bytes: Annotated[int | None, _help("remove the oldest segments while the journal is larger")] = None
    retain_read_age: Annotated[
        float | None, _help("remove segments whose rows are all older and committed by all attached readers")
    ] = None
    retain_read_bytes: Annotated[
        int | None,
        _help(
            "remove the oldest segments that all attached readers have committed while these together are larger;"
            " all of them if the disk is full"
        ),
    ] = None
    reader_expiry: Annotated[
        float | None, _help("detach readers that are behind and have committed nothing for this time")
    ] = 7 * DAY_SECONDS
    trim_unread: Annotated[bool, _help("remove also rows that attached readers have not committed")] = False
    block_timeout: Annotated[
        float | None,
        _help("time for which publishers wait while the journal cannot be written; then rows are lost and counted"),
    ] = 4.0
    compression: Annotated[Compression, _help("compression of the blocks")] = "none"

    def __post_init__(self) -> None:
        for name in POSITIVE_FIELDS:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"{name}: expected more than 0, found {value}")
        if self.flush_bytes > MAX_BLOCK_BYTES:
            raise UsageError(f"flush_bytes: expected at most {MAX_BLOCK_BYTES}, found {self.flush_bytes}")
        for name in NON_NEGATIVE_FIELDS:
            value = getattr(self, name)
            if isinstance(value, float | int) and value < 0:
                raise UsageError(f"{name}: expected 0 or more, found {value}")
        if isinstance(self.fsync, str) and self.fsync not in ("never", "flush"):
            raise UsageError(f"fsync: expected never, flush or seconds, found {self.fsync!r}")
        if self.compression not in ("none", "lz4", "zstd"):
            raise UsageError(f"compression: expected none, lz4 or zstd, found {self.compression!r}")


def _describe_fields() -> str:
    """Return the descriptions of the fields as the section `Args:` of a docstring."""
    hints = get_type_hints(Policy, include_extras=True)
    texts = {name: hint.__metadata__[0].description for name, hint in hints.items()}
    return "\n".join(["Args:", *(f"    {name}: {text[0].upper()}{text[1:]}." for name, text in texts.items())])


if Policy.__doc__:  # Python may run without docstrings
    Policy.__doc__ = cleandoc(Policy.__doc__).replace("Raises:", f"{_describe_fields()}\n\nRaises:")
