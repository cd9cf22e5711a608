"""How many samples a second does one core append to a journal, how many does a recorder, and how many are read?

    make bench                                                  this and all others, compiled
    python bench/bench_journal.py --json new.json               this one alone; --only read,live runs some of it
    python bench/compare.py old.json new.json                   two branches, each run with --json

A good result: at least 5 million 8-byte samples a second on one core appended as a session receives them; a recorder
takes what it receives at 0.9 of the rate of a subscriber to record batches that discards them; reading is faster than
writing.

"append" has samples in memory as chunks, as a session receives them ("pieces"), or as record batches, and counts until
the journal is closed, with the default policy (fsync once a second). "cpu" is processor time in seconds per million
samples: what one core can do where the disk is fast enough. "read" reads the same journal from the page cache, into
record batches of the declared schema. "small blocks" is slow traffic: a block per flush of one row, all else as above;
"bytes" is what the segments take per row. "live" has a publisher in a process of its own, on loopback TCP; the recorder
and the plain subscriber take turns. The journal is on the disk that holds the directory for temporary files.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa

import zenspark
from bench.bench_session import (
    IN_BATCHES,
    KEY,
    SIZES,
    TURNS,
    Measured,
    Process,
    cpu,
    free_port,
    open_session,
    send_report,
    wait_for_line,
)
from bench.command import OURS, Line, run
from bench.compare import Result
from zenspark.arrow.decode import RowChunk, SharedValues, concat_chunks
from zenspark.journal import Journal, JournalWriter, Recorder

MAX_BYTES = 400_000_000
"""Payload bytes that are appended in a turn, approximately and at most."""
MAX_ROWS = 20_000_000
"""Rows that are appended in a turn at most."""
MAX_BLOCK_ROWS = 65_536
READ_BYTES = 16_384
"""Bytes of one read from the network at least: its rows are one chunk."""
SMALL_BLOCKS = 10_000
"""Blocks of one row that are written and read in a turn."""
LIVE_ROWS = {size: count * 2 for size, count in IN_BATCHES.items()}
"""Rows that are recorded or received in a turn, by payload size."""
POLL_SECONDS = 0.002


# --- appending and reading -------------------------------------------------------------------------------------------


def chunks_of(size: int, keys: int = 1) -> list[RowChunk]:
    """Make the chunks of a block, as a session receives them."""
    rows = max(1, READ_BYTES * 4 // (size + 8))
    count = max(1, min(MAX_BLOCK_ROWS, (1 << 24) // size) // rows)
    shared = tuple(
        SharedValues(f"fleet/{key}/state", "PUT", "zenoh/bytes", None, None, None, "DATA", "BLOCK", False, True, "feed")
        for key in range(keys)
    )
    index = None if keys == 1 else pa.array([row % keys for row in range(rows)], pa.uint32())
    payload = pa.array([bytes([row & 0xFF]) * size for row in range(rows)], pa.binary())
    now = time.time_ns() // 1000
    return [RowChunk(shared, index, payload, None, None, None, now + number, rows * size) for number in range(count)]


def measure_append(path: Path, append: Callable[[JournalWriter], int], rows: int, size: int) -> Measured:
    """Append repeatedly until the journal has so many rows."""
    used, began = cpu(), time.perf_counter()
    with JournalWriter(path) as writer:
        while writer.end < rows:
            append(writer)
        done = writer.end
    seconds, spent = time.perf_counter() - began, cpu() - used
    return {"rate": done / seconds, "cpu": spent / done * 1e6, "MB/s": done * size / seconds / 1e6}


def measure_read(path: Path, size: int) -> Measured:
    used, began = cpu(), time.perf_counter()
    journal = Journal(path)
    rows = sum(batch.num_rows for batch in journal.read(0, journal.latest()))
    seconds, spent = time.perf_counter() - began, cpu() - used
    return {"rate": rows / seconds, "cpu": spent / rows * 1e6, "MB/s": rows * size / seconds / 1e6}


def append_and_read(size: int, keys: int, turns: int) -> Iterator[Result]:
    """Append chunks and record batches, and read the rows that were appended."""
    chunks = chunks_of(size, keys)
    batch = concat_chunks(chunks)
    rows = min(MAX_ROWS, MAX_BYTES // size)
    appends = {
        "append pieces": lambda writer: writer.append_chunks(chunks),
        "append batches": lambda writer: writer.append(batch),
    }
    found: dict[str, list[Measured]] = {name: [] for name in (*appends, "read")}
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as root:
            for name, append in appends.items():
                path = Path(root, name)
                found[name].append(measure_append(path, append, rows, size))
                if name == "append pieces":
                    found["read"].append(measure_read(path, size))
                shutil.rmtree(path)
    rows_kind = f"{size} B" if keys == 1 else f"{size} B, {keys} keys"
    for name, measured in found.items():
        yield from results(f"{name} {rows_kind}", measured)


def small_blocks(size: int, turns: int) -> Iterator[Result]:
    """Append and read blocks of one row, as slow traffic is recorded, and measure their bytes."""
    chunks = [chunk.split(1)[0] for chunk in chunks_of(size, 1)[:1]]
    found: dict[str, list[Measured]] = {"append": [], "read": []}
    block_bytes = []
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as root:
            found["append"].append(measure_append(Path(root), partial(append_and_flush, chunks), SMALL_BLOCKS, size))
            found["read"].append(measure_read(Path(root), size))
            block_bytes.append(sum(file.stat().st_size for file in Path(root).glob("*.segment")) / SMALL_BLOCKS)
    for name, measured in found.items():
        yield from results(f"{name} {size} B, small blocks", measured)
    yield Result.of(f"small blocks {size} B: bytes", block_bytes, "B")


def append_and_flush(chunks: list[RowChunk], writer: JournalWriter) -> int:
    offset = writer.append_chunks(chunks)
    writer.flush()
    return offset


def results(name: str, measured: list[Measured]) -> Iterator[Result]:
    for figure, unit in (("rate", "/s"), ("cpu", "s/M"), ("MB/s", "MB/s")):
        yield Result.of(f"{name}: {figure}", [turn[figure] for turn in measured], unit)


# --- live -------------------------------------------------------------------------------------------------------------


def role_plain(locator: str, size: int, count: int) -> None:
    """Receive record batches, and discard them."""
    with open_session(zenspark, "peer", [locator], []) as session:
        subscriber = session.declare_subscriber(KEY, zenspark.ArrowBatches())
        send_report(ready=True)
        seen, began, used = 0, 0.0, 0.0
        for batch in subscriber:
            if not began:
                began, used = time.perf_counter(), cpu()
            else:
                seen += batch.num_rows
            if seen >= count:
                break
        seconds = time.perf_counter() - began
        send_report(rate=seen / seconds, cpu=(cpu() - used) / seen * 1e6)
        wait_for_line()


def role_record(locator: str, size: int, count: int) -> None:
    """Record into a journal."""
    with (
        tempfile.TemporaryDirectory() as root,
        open_session(zenspark, "peer", [locator], []) as session,
        JournalWriter(Path(root, "j")) as writer,
    ):
        recorder = Recorder(session, [KEY], writer, observe=False).start()
        send_report(ready=True)
        while not writer.acknowledged:
            time.sleep(POLL_SECONDS)
        first, began, used = writer.acknowledged, time.perf_counter(), cpu()
        while writer.acknowledged < count + first:
            time.sleep(POLL_SECONDS)
        seconds, seen = time.perf_counter() - began, writer.acknowledged - first
        send_report(rate=seen / seconds, cpu=(cpu() - used) / seen * 1e6)
        wait_for_line()
        recorder.stop()


ROLES = {"plain": role_plain, "record": role_record}


def run_turn(role: str, size: int) -> Measured:
    """Run one role, with a publisher in another process. Returns the report of the role."""
    locator = f"tcp/127.0.0.1:{free_port()}"
    receiver = Process(OURS, role, locator, size, LIVE_ROWS[size], module="bench.bench_journal")
    receiver.receive()
    publisher = Process(OURS, "feed", locator, size, LIVE_ROWS[size])
    try:
        measured = receiver.receive()
        return {**measured, "MB/s": measured["rate"] * size / 1e6}
    finally:
        publisher.end()
        receiver.end()


def live(size: int, turns: int) -> Iterator[Result]:
    pairs = [(run_turn("record", size), run_turn("plain", size)) for _ in range(turns)]
    yield Result.of(
        f"live {size} B: rate, recorded / received", [one["rate"] / other["rate"] for one, other in pairs], "x"
    )
    yield from results(f"live {size} B, recorded", [one for one, _ in pairs])
    yield from results(f"live {size} B, received", [other for _, other in pairs])


# --- all lines --------------------------------------------------------------------------------------------------------


def lines(turns: int) -> Iterator[Line]:
    for size in SIZES:
        yield f"append read {size} B", partial(append_and_read, size, 1, turns)
    yield "append read 8 B, 300 keys", partial(append_and_read, 8, 300, turns)
    yield "append read 8 B, small blocks", partial(small_blocks, 8, turns)
    for size in SIZES:
        yield f"live {size} B", partial(live, size, turns)


def run_role(role: str, _: str, locator: str, size: int, count: int) -> None:
    ROLES[role](locator, size, count)


if __name__ == "__main__":
    run("journal", __doc__, lines, TURNS, run_role)
