"""Any bytes as a segment and its index either give rows that were written or raise JournalError; a writer goes on.

The first byte chooses the file of a written journal that is changed, and how: bytes are overwritten, inserted or cut
out, or the input is the whole file. How to run: see harness.py.
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
BLOCK_ROWS = 4


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
def journal_files() -> dict[str, bytes]:
    """Write a journal of a few blocks. Returns the content of its files."""
    with tempfile.TemporaryDirectory() as path:
        with JournalWriter(f"{path}/j", Policy(flush_rows=BLOCK_ROWS, fsync="never"), recorder="r") as writer:
            for start in range(0, ROWS, BLOCK_ROWS):
                writer.append(batch(start, start + BLOCK_ROWS))
        return {file.name: file.read_bytes() for file in Path(path, "j").iterdir() if file.name != "writer.lock"}


def change(raw: bytes, how: int, data: bytes) -> bytes:
    """Return the content of a file after a change."""
    position = int.from_bytes(data[:2], "little") % (len(raw) + 1)
    rest = data[2:]
    if how == 0:
        return raw[:position] + rest + raw[position + len(rest) :]
    if how == 1:
        return raw[:position]
    if how == 2:
        return raw[:position] + raw[position + len(rest) :]
    if how == 3:
        return raw[:position] + rest + raw[position:]
    return data


def check_rows(path: Path, end: int) -> None:
    """Check that every row that can be read is the one that was written at its offset."""
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
        for name, raw in journal_files().items():
            is_target = name == FILES[how % 2]
            (path / name).write_bytes(change(raw, how // 2 % 5, rest) if is_target else raw)
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
