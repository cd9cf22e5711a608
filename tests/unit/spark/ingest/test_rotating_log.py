from __future__ import annotations

import os
from pathlib import Path

import pytest

from zenspark.spark.ingest.rotating_log import TAIL_BYTES, RotatingLog


def test_log_keeps_the_last_output_within_its_size(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "_logs" / "ingest.log", max_bytes=100)
    for number in range(50):
        log.write(b"%09d\n" % number)
    kept = log.path.with_name("ingest.log.1").read_bytes() + log.path.read_bytes()
    assert kept.endswith(b"000000049\n")
    assert len(kept) <= 200
    assert [int(line) for line in kept.splitlines()] == list(range(50 - len(kept) // 10, 50))


def test_pipe_is_copied_until_end_of_file(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"one\ntwo")
    os.close(writer)
    log = RotatingLog(tmp_path / "log")
    log.copy(os.fdopen(reader, "rb"))
    assert log.path.read_bytes() == b"one\ntwo"


def test_unwritable_output_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    log = RotatingLog(tmp_path / "file" / "ingest.log")
    log.write(b"lost")
    assert not log.path.exists()
    assert log.tail == "lost"


@pytest.mark.slow
def test_log_tail_is_kept_in_memory(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "log")
    for number in range(10_000):
        log.write(b"%d\n" % number)
    assert log.tail.endswith("9998\n9999\n")
    assert len(log.tail) == TAIL_BYTES


def test_log_is_not_accessible_to_other_users(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "_logs" / "ingest.log")
    log.write(b"x")
    assert log.path.stat().st_mode & 0o007 == 0
    assert log.path.parent.stat().st_mode & 0o007 == 0
