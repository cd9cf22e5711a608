"""Conversion of OSError to JournalError."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from zenspark.errors import JournalError, JournalFull
from zenspark.journal.failures import read_errors, read_failure, write_errors, write_failure


def error_of(number: int, file: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), file) if file else OSError(number, os.strerror(number))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_full_disk_is_journal_full(number: int) -> None:
    found = write_failure("j", error_of(number))
    assert isinstance(found, JournalFull)
    assert str(found) == f"j: the disk is full ({os.strerror(number)}): free space, or choose another directory"


def test_other_errors_name_the_path_and_the_reason() -> None:
    assert str(write_failure("j", error_of(errno.EROFS))) == "j: cannot be written: Read-only file system"
    assert str(read_failure("j", error_of(errno.EIO))) == "j: cannot be read: Input/output error"
    assert str(read_failure("j", OSError("no number"))) == "j: cannot be read: no number"


def test_message_begins_with_the_file_of_the_error_or_else_with_the_given_path() -> None:
    with pytest.raises(JournalError, match=r"^j/file: cannot be written: Permission denied"), write_errors(Path("j")):
        raise error_of(errno.EACCES, "j/file")
    with pytest.raises(JournalError, match=r"^j: cannot be read: Permission denied"), read_errors(Path("j")):
        raise error_of(errno.EACCES)


def test_file_not_found_is_passed_on() -> None:
    with pytest.raises(FileNotFoundError), read_errors(Path("j")):
        raise error_of(errno.ENOENT, "j/file")
