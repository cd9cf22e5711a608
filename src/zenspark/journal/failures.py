"""Conversion of OSError to JournalError, with the file or directory and the reason."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zenspark.errors import JournalError, JournalFull

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_failure(path: Path | str, error: OSError) -> JournalError:
    """Make the error of a failed write; `JournalFull` if free space solves it."""
    if error.errno in DISK_FULL:
        return JournalFull(str(path), f"the disk is full ({error.strerror}): free space, or choose another directory")
    return JournalError(str(path), f"cannot be written: {error.strerror or error}")


def read_failure(path: Path | str, error: OSError) -> JournalError:
    """Make the error of a failed read."""
    return JournalError(str(path), f"cannot be read: {error.strerror or error}")


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Convert OSError to a `JournalError` with its file name, or this path if it has none."""
    try:
        yield
    except OSError as error:
        raise write_failure(_file_name(error) or path, error) from error


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Convert OSError to a `JournalError`; FileNotFoundError is passed on."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise read_failure(_file_name(error) or path, error) from error


def _file_name(error: OSError) -> str | None:
    return error.filename if isinstance(error.filename, str) else None
