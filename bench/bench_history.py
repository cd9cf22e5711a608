"""What does a `_time` query cost: a key's hour in 10^7 rows, a small key among images, a limit, and with many files?

    make bench                                                  this and all others
    python bench/bench_history.py --json new.json               this one alone; --only hour,battery runs some of it
    python bench/bench_history.py --only hour --rows 100000000  as many rows as a fleet records in days
    python bench/compare.py old.json new.json                   two branches, each run with --json

A good answer: an hour of one key takes at most twice the processor time of DuckDB on the same files ("of duckdb" 2.0);
the history of a battery among images reads at most ten times its own payloads ("of its bytes" 10); with 100,000 files
a query takes at most 1.5 times as long as with 100 ("of 100 files").

*hour*: 1,000 keys over 30 days, payloads of 8 bytes; files as an ingestion writes them ("arrival") and as compaction
leaves them ("compacted"). Both sides know the files of the table and give the rows back as Arrow; they take turns, and
what counts is processor time. "first" is the same for a process that has seen none of the files before.
*battery*: 50 robots with 20 topics each, one of them images; one robot's battery, all of it. Bytes are those asked for
of the file system, footers and indexes among them.
*limit*: the newest 5 samples of a key of the last 48 hours, in the files of *hour*.
*files*: a log with so many files in as many partitions, of which a query needs four; every query comes after a commit
that adds a file elsewhere, as an ingestion does.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from bench.compare import Result
from bench.running import parser, report
from zenspark.arrow import UTC as COLUMN_TIME
from zenspark.journal.block_codec import DICTIONARY_TYPE, with_text_type
from zenspark.lake.column_chunks import RandomAccessFile
from zenspark.lake.delta_table import LakeTable, Transaction
from zenspark.lake.parquet_files import ARRIVAL_ORDER_SIZES, KEY_ORDER_SIZES, DataFile, DataFileWriter, RowGroupSizes
from zenspark.lake.scan import NewestTimes, Scanner, ScanRequest
from zenspark.lake.specs import JOURNAL_SCHEMA, SAMPLES
from zenspark.lake.storage_path import StoragePath
from zenspark.spark.ingest.maintenance import key_order
from zenspark.spark.lake import Lake
from zenspark.storage.history import History, HistoryQuery, HistorySearch
from zenspark.storage.inputs import StorageInputs
from zenspark.storage.key_scope import KeyScope
from zenspark.types.time_range import TimeRange

TURNS = 7
DAYS = 30
KEYS = [f"fleet/robot{number:04}/pose" for number in range(1000)]
KEY = KEYS[7]
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
BEGAN_US = int(BEGAN.timestamp()) * 1_000_000
DAY_US, HOUR_US = 86_400_000_000, 3_600_000_000
PIECE_ROWS = 1 << 22
"""Rows that are made, and sorted, at once."""
SECONDS = 130
"""How long the fleet with images is recorded,"""
RATE = 5000
"""with so many samples a second."""
TOPICS = ["battery", "camera", "pose", "odom", *(f"topic{number}" for number in range(16))]
ROBOT_KEYS = [f"fleet/robot{robot:02}/{topic}" for robot in range(50) for topic in TOPICS]
BATTERY = "fleet/robot07/battery"
COUNTS = (100, 10_000, 100_000)
NEEDED = 4
"""Files that a query needs, however many there are."""


# --- rows -------------------------------------------------------------------------------------------------------------


def rows_of(numbers: Any, times: Any, keys: pa.Array, payloads: pa.Array) -> pa.Table:  # noqa: ANN401 - arrays of numpy
    """Rows as ingested: timestamped a little before they were received, texts as dictionaries."""
    count = len(numbers)
    jitter = np.random.default_rng(int(numbers[0])).integers(100, 900, count)
    stamps = times - jitter
    given = {
        "key": keys,
        "payload": payloads,
        "timestamp": pa.array(stamps, COLUMN_TIME),
        "timestamp_ntp64": pa.array((stamps // 1_000_000 << 32) + stamps % 1_000_000 * 4294),
        "received_at": pa.array(times, COLUMN_TIME),
        "offset": pa.array(numbers),
        "express": pa.array(np.zeros(count, bool)),
        "reliable": pa.array(np.ones(count, bool)),
    }
    same = {"kind": "PUT", "encoding": "zenoh/bytes", "timestamp_id": "a0a1a2a3a4a5a6a7", "recorder": "bench"}
    same |= {"priority": "DATA", "congestion": "DROP", "via": "c0c1c2c3c4c5c6c7"}
    zeros = pa.array(np.zeros(count, np.int32))
    given |= {name: pa.DictionaryArray.from_arrays(zeros, pa.array([text])) for name, text in same.items()}
    schema = with_text_type(JOURNAL_SCHEMA, DICTIONARY_TYPE)
    columns = [
        given[field.name].cast(field.type) if field.name in given else pa.nulls(count, field.type) for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def noise(sizes: Any, seed: int) -> pa.Array:  # noqa: ANN401 - an array of numpy
    """Payloads of these sizes that do not compress."""
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    content = np.random.default_rng(seed).bytes(int(ends[-1]))
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(ends), pa.py_buffer(content)])


def day_of(number: int) -> str:
    return (BEGAN + timedelta(days=number)).date().isoformat()


def write_day(table: LakeTable, day: int, count: int, sizes: RowGroupSizes) -> list[DataFile]:
    """The rows of one day, every key as often as any other."""
    files = DataFileWriter(table.location, SAMPLES, "bench", sizes)
    for start in range(0, count, PIECE_ROWS):
        numbers = np.arange(day * count + start, day * count + min(start + PIECE_ROWS, count))
        codes = pa.array((numbers % len(KEYS)).astype(np.int32))
        keys = pa.DictionaryArray.from_arrays(codes, pa.array(KEYS))
        times = BEGAN_US + numbers * (DAY_US // count)
        rows = rows_of(numbers, times, keys, noise(np.full(len(numbers), 8), day))
        order = key_order(rows["key"].chunk(0)) if sizes is KEY_ORDER_SIZES else None
        files.write(rows, {"day": day_of(day), "prefix": "fleet"}, order)
    return files.close()


def made(path: Path, count: int, sizes: RowGroupSizes) -> Lake:
    """A lake of so many rows."""
    lake = Lake(path)
    table = lake.table("samples")
    for day in range(DAYS):
        table.commit(Transaction(add=write_day(table, day, count // DAYS, sizes)))
    return lake


# --- to measure -------------------------------------------------------------------------------------------------------


def cpu(work: Callable[[], Any]) -> float:
    """Milliseconds of processor time."""
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000


class Counted:
    """A folder that counts the bytes that are read of its files."""

    def __init__(self, folder: StoragePath) -> None:
        self._folder = folder
        self.address, self.is_local = folder.address, folder.is_local
        self.bytes = 0

    def open(self, path: str) -> RandomAccessFile:
        return CountedFile(self, self._folder.open(path))


class CountedFile:
    """One of its files."""

    def __init__(self, folder: Counted, file: RandomAccessFile) -> None:
        self._folder = folder
        self._file = file

    def read_at(self, nbytes: int, offset: int) -> bytes:
        self._folder.bytes += nbytes
        return self._file.read_at(nbytes, offset)

    def close(self) -> None:
        self._file.close()


def wanted_of(asked: HistoryQuery) -> ScanRequest:
    return HistorySearch(KeyScope(["**"]), asked, 0).request


def asked_hour(day: int = 3) -> HistoryQuery:
    start = (BEGAN_US + day * DAY_US + 5 * HOUR_US) / 1e6
    return HistoryQuery(KEY, TimeRange(start, start + 3600))


def duck(files: list[str], asked: HistoryQuery) -> Callable[[], int]:
    """Read the same rows with DuckDB, assuming that all have timestamps."""
    connection = duckdb.connect()
    columns = ", ".join(f'"{name}"' for name in wanted_of(asked).columns)
    times = [f"make_timestamptz({int(bound * 1e6)})" for bound in (asked.times.start, asked.times.end)]
    sql = f"""select {columns} from read_parquet({files!r}, hive_partitioning = false)
              where key = '{asked.key_expr}' and "timestamp" between {times[0]} and {times[1]}"""
    return lambda: int(connection.sql(sql).to_arrow_table().num_rows)


def hour(path: Path, count: int, turns: int) -> Iterator[Result]:
    """A key's hour beside DuckDB."""
    for name, sizes in (("arrival", ARRIVAL_ORDER_SIZES), ("compacted", KEY_ORDER_SIZES)):
        lake = made(path / name, count, sizes)
        table = lake.table("samples")
        asked = asked_hour()
        theirs = duck([f"{table.location.address}/{file.path}" for file in table.files], asked)
        scanner, wanted = Scanner(table.location), wanted_of(asked)

        def ours(scanner: Scanner = scanner, table: LakeTable = table, wanted: ScanRequest = wanted) -> int:
            return sum(batch.num_rows for batch in scanner.rows(table.files, wanted))

        first = [cpu(lambda: ours(Scanner(table.location))) for _ in range(3)]  # noqa: B023 - called at once
        assert ours() == theirs() > 0
        times = [(cpu(ours), cpu(theirs)) for _ in range(turns)]
        yield Result.of(f"hour, {name}: first", first, "ms")
        yield Result.of(f"hour, {name}", [own for own, _ in times], "ms")
        yield Result.of(f"hour, {name}: of duckdb", [own / other for own, other in times], "x")
        history = History(KeyScope(["**"]), StorageInputs(lake, []))
        answered = [cpu(lambda: list(history.samples(asked))) for _ in range(turns)]  # noqa: B023 - called at once
        yield Result.of(f"hour, {name}: answered", answered, "ms")
        yield from limit(lake, name, turns)


def limit(lake: Lake, name: str, turns: int) -> Iterator[Result]:
    """The newest samples of the last 48 hours."""
    start = (BEGAN_US + (DAYS - 2) * DAY_US) / 1e6
    asked = HistoryQuery(KEY, TimeRange(start), 5)
    table = lake.table("samples")
    folder = Counted(table.location)
    found = Scanner(folder).newest(table.files, wanted_of(asked), NewestTimes(5, is_single_key=True))
    assert sum(batch.num_rows for batch in found) == 5
    history = History(KeyScope(["**"]), StorageInputs(lake, []))
    yield Result.of(f"limit, {name}", [cpu(lambda: list(history.samples(asked))) for _ in range(turns)], "ms")
    yield Result.of(f"limit, {name}: read", [folder.bytes / 1000], "kB")


def fleet(second: int) -> pa.Table:
    """A second of a fleet with images."""
    draw = np.random.default_rng(second)
    codes = draw.integers(0, len(ROBOT_KEYS), RATE).astype(np.int32)
    sizes = draw.integers(40, 90, RATE)
    is_image = codes % len(TOPICS) == TOPICS.index("camera")
    sizes[is_image] = np.exp(draw.uniform(np.log(1000), np.log(50_000), int(is_image.sum())))
    numbers = np.arange(second * RATE, (second + 1) * RATE)
    keys = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(ROBOT_KEYS))
    return rows_of(numbers, BEGAN_US + numbers * (1_000_000 // RATE), keys, noise(sizes, second))


def battery(path: Path, turns: int) -> Iterator[Result]:
    """The history of a small key among images, in a file as compaction leaves it."""
    folder = StoragePath.at(path)
    seconds = [fleet(second) for second in range(SECONDS)]
    rows = pa.concat_tables(seconds).unify_dictionaries().combine_chunks()
    files = DataFileWriter(folder, SAMPLES, "bench", KEY_ORDER_SIZES)
    files.write(rows, {"day": day_of(0), "prefix": "fleet"}, key_order(rows["key"].chunk(0)))
    written = files.close()
    wanted = wanted_of(HistoryQuery(BATTERY, TimeRange()))
    counted = Counted(folder)
    scanner = Scanner(counted)
    read, own = [], 0
    batches: list[pa.RecordBatch] = []
    for _ in range(2):
        counted.bytes = 0
        batches = list(scanner.rows(written, wanted))
        own = sum(len(payload) for batch in batches for payload in batch.column("payload").to_pylist())
        read.append(counted.bytes)
    yield Result.of("battery: samples", [float(sum(batch.num_rows for batch in batches))], "rows")
    yield Result.of("battery: own payloads", [own / 1000], "kB")
    yield Result.of("battery: all that is recorded", [sum(file.size for file in written) / 1e6], "MB")
    yield Result.of("battery: first, of its bytes", [read[0] / own], "x")
    yield Result.of("battery: then, of its bytes", [read[1] / own], "x")
    yield Result.of("battery", [cpu(lambda: list(scanner.rows(written, wanted))) for _ in range(turns)], "ms")


def logged(number: int) -> DataFile:
    """A file that is only in the log."""
    partition = {"day": day_of(number % DAYS), "prefix": f"p{number // DAYS:05}"}
    times = {name: BEGAN + timedelta(days=number % DAYS) for name in ("timestamp", "received_at")}
    least = {"key": f"{partition['prefix']}/a", **times}
    greatest = {"key": f"{partition['prefix']}/z", **times}
    return DataFile(f"day={partition['day']}/part-{number}.parquet", 1000, 10, partition, least, greatest)


class ManyFiles:
    """A lake with so many files, and a writer that adds to it as another process would."""

    def __init__(self, path: Path, count: int) -> None:
        self._samples = Lake(path).table("samples")
        needed = [file for day in range(NEEDED) for file in write_day(self._samples, day, 100_000, KEY_ORDER_SIZES)]
        self._samples.commit(Transaction(add=[*needed, *(logged(number) for number in range(count - NEEDED))]))
        self._count = count
        self._history = History(KeyScope(["**"]), StorageInputs(Lake(path), []))
        assert self.ask() > 0

    def ask(self) -> int:
        return len(list(self._history.samples(asked_hour(1))))

    def ingest(self) -> None:
        self._samples.commit(Transaction(add=[logged(self._count)]))
        self._count += 1


def many_files(path: Path, turns: int) -> Iterator[Result]:
    """The same query with ever more files in the log."""
    lakes = {count: ManyFiles(path / str(count), count) for count in COUNTS}
    times: dict[int, list[float]] = {count: [] for count in COUNTS}
    for _ in range(4 * turns):
        for count, lake in lakes.items():
            lake.ingest()
            times[count].append(cpu(lake.ask))
    for count, own in times.items():
        yield Result.of(f"files: {count}", own, "ms")
    ratios = [own / other for own, other in zip(times[COUNTS[-1]], times[COUNTS[0]], strict=True)]
    yield Result.of(f"files: {COUNTS[-1]}, of 100 files", ratios, "x")


def measure(only: list[str], count: int, turns: int) -> Iterator[Result]:
    place = Path(tempfile.mkdtemp(prefix="zenspark-bench-"))
    parts: dict[str, Callable[[], Iterator[Result]]] = {
        "hour": lambda: hour(place / "hour", count, turns),
        "battery": lambda: battery(place / "battery", turns),
        "files": lambda: many_files(place / "files", turns),
    }
    try:
        for name, part in parts.items():
            if any(word in name for word in only):
                yield from part()
                shutil.rmtree(place / name)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--only", default="", help="only the parts whose names contain one of these, by commas")
    command.add_argument("--rows", type=int, default=10_000_000, help="how many rows the lake of `hour` has")
    command.add_argument("--turns", type=int, default=TURNS)
    args = command.parse_args()
    report("history", measure(args.only.split(","), args.rows, args.turns), args.json)


if __name__ == "__main__":
    main()
