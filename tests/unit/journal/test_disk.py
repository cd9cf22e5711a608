"""Raising and clearing of the disk alarm."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from zenspark.journal.disk import DISK_CHECK_INTERVAL_SECONDS, MAX_REQUIRED_FREE_BYTES, DiskAlarm

MB = 10**6


class Disk:
    """A disk of so many bytes, of which so many are free."""

    def __init__(self, total: int) -> None:
        self.total = self.free = total
        self.is_gone = False

    def usage(self, path: Path) -> tuple[int, int, int]:
        if self.is_gone:
            raise OSError("no such disk")
        return self.total, self.total - self.free, self.free


@pytest.mark.parametrize(
    ("total", "flush_bytes", "reserve"),
    [(100 * MB, 10 * MB, 30 * MB), (1000 * MB, 1 * MB, 50 * MB), (10**13, 1 * MB, MAX_REQUIRED_FREE_BYTES)],
    ids=["blocks", "share", "most"],
)
def test_alarm_is_raised_and_cleared(
    total: int,
    flush_bytes: int,
    reserve: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = Disk(total)
    monkeypatch.setattr(shutil, "disk_usage", disk.usage)
    alarm = DiskAlarm(Path("j"), flush_bytes)
    found = []
    for turn, free in enumerate([total, reserve, reserve - 1, reserve, reserve - 2, int(reserve * 1.11)]):
        disk.free = free
        alarm.check(turn * DISK_CHECK_INTERVAL_SECONDS)
        found.append(alarm.warning is not None)
    assert found == [False, False, True, True, True, False]
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith("j: low disk space: ")
    assert lines[1].startswith("j: enough disk space again: ")


def test_warning_has_the_free_space(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(20 * 10**9)
    disk.free = 12_345_678
    monkeypatch.setattr(shutil, "disk_usage", disk.usage)
    alarm = DiskAlarm(Path("j"), 1)
    alarm.check(0.0)
    assert alarm.warning == "low disk space: 12 MB of 20 GB left"
    disk.total = 20 * 10**12
    alarm.check(DISK_CHECK_INTERVAL_SECONDS)
    assert alarm.warning == "low disk space: 12 MB of 20 TB left"


def test_checks_are_rate_limited_and_errors_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(100 * MB)
    monkeypatch.setattr(shutil, "disk_usage", disk.usage)
    alarm = DiskAlarm(Path("j"), 10 * MB)
    alarm.check(0.0)
    disk.free = 0
    alarm.check(DISK_CHECK_INTERVAL_SECONDS / 2)
    assert alarm.warning is None
    disk.is_gone = True
    alarm.check(DISK_CHECK_INTERVAL_SECONDS)
    assert alarm.warning is None
    disk.is_gone = False
    alarm.check(2 * DISK_CHECK_INTERVAL_SECONDS)
    assert alarm.warning == "low disk space: 0 B of 100 MB left"
