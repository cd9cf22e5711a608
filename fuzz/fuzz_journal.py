"""Any bytes as a segment and its index either give rows that were written or raise JournalError; a writer goes on.

The first byte chooses what is changed in a journal that was written: bytes at a place, a part cut out, or a file that
is the input itself. How to run: see harness.py.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pyarrow as pa

from fuzz.harness import run
from zenspark.arrow import SCHEMA
from zenspark.errors import JournalError
from zenspark.journal import Journal, JournalWriter, Policy

FILES = ("0" * 20 + ".segment", "0" * 20 + ".index")
ROWS = 12
AT_ONCE = 4


def batch(start: int, stop: int) -> pa.RecordBatch:
    rows = [
        {
            "key": f"k/{number % 2}",
            "kind": "PUT",
            "payload": b"%d" % number,
            "received_at": 1_700_000_000_000_000 + number,
        }
        for number in range(start, stop)
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


@cache
def written() -> dict[str, bytes]:
    """The files of a journal of a few blocks."""
    with tempfile.TemporaryDirectory() as path:
        with JournalWriter(f"{path}/j", Policy(flush_rows=AT_ONCE, fsync="never"), recorder="r") as writer:
            for start in range(0, ROWS, AT_ONCE):
                writer.append(batch(start, start + AT_ONCE))
        return {file.name: file.read_bytes() for file in Path(path, "j").iterdir() if file.name != "writer.lock"}


def changed(raw: bytes, how: int, data: bytes) -> bytes:
    """A file with something done to it."""
    place = int.from_bytes(data[:2], "little") % (len(raw) + 1)
    rest = data[2:]
    if how == 0:
        return raw[:place] + rest + raw[place + len(rest) :]
    if how == 1:
        return raw[:place]
    if how == 2:
        return raw[:place] + raw[place + len(rest) :]
    if how == 3:
        return raw[:place] + rest + raw[place:]
    return data


def check_rows(path: Path, end: int) -> None:
    """Every row that can be read is one that was written, in its place."""
    journal = Journal(path)
    try:
        earliest, latest = journal.earliest(), journal.latest()
    except JournalError:
        return
    assert 0 <= earliest <= latest <= end
    for start in range(earliest, latest):
        try:
            found = [row for one in journal.read(start, start + 1) for row in one.to_pylist()]
        except JournalError:
            continue
        (row,) = found
        assert (row["offset"], row["payload"], row["key"]) == (start, b"%d" % start, f"k/{start % 2}"), row


def check(data: bytes) -> None:
    how, rest = (data[0], data[1:]) if data else (1, b"")
    with tempfile.TemporaryDirectory() as root:
        path = Path(root)
        for name, raw in written().items():
            is_meant = name == FILES[how % 2]
            (path / name).write_bytes(changed(raw, how // 2 % 5, rest) if is_meant else raw)
        check_rows(path, ROWS)
        try:
            with JournalWriter(path, Policy(fsync="never")) as writer:
                end = writer.end
                assert end <= ROWS
                writer.append(batch(end, end + 2))
        except JournalError:
            return
        check_rows(path, end + 2)
        assert [row["payload"] for one in Journal(path).read(end, end + 2) for row in one.to_pylist()] == [
            b"%d" % end,
            b"%d" % (end + 1),
        ]


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
