"""One writer at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zenspark.errors import JournalLocked
from zenspark.journal.layout import LOCK
from zenspark.journal.lock import Lock


def test_who_comes_second_hears_who_was_first(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    with pytest.raises(JournalLocked, match=f"process {os.getpid()} writes this journal") as caught:
        Lock(tmp_path)
    assert caught.value.pid == os.getpid()
    lock.release()
    Lock(tmp_path).release()


def test_who_is_first_need_not_say_who(tmp_path: Path) -> None:
    lock = Lock(tmp_path)
    (tmp_path / LOCK).write_text("?")
    with pytest.raises(JournalLocked, match="another process"):
        Lock(tmp_path)
    lock.release()


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    script = "import sys, time; from pathlib import Path; from zenspark.journal.lock import Lock\n"
    script += "lock = Lock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(JournalLocked, match=f"process {process.pid} "):
            Lock(tmp_path)
    finally:
        process.kill()
        process.communicate()
    Lock(tmp_path).release()
