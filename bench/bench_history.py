"""What does a `_time` query cost: a key's hour in 10^7 rows, a small key among images, a limit, and with many files?

    make bench                                                  this and all others
    python bench/bench_history.py --json new.json               this one alone; --only hour,battery runs some of it
    python bench/bench_history.py --only hour --rows 100000000  as many rows as a fleet records in days
    python bench/compare.py old.json new.json                   two branches, each run with --json

A good result: an hour of one key takes at most twice the processor time of DuckDB on the same files ("of duckdb" 2.0);
the history of a battery among images reads at most ten times its own payloads ("of its bytes" 10); with 100,000 files
a query takes at most 1.5 times as long as with 100 ("of 100 files").

*hour*: 1,000 keys over 30 days, payloads of 8 bytes; files as an ingestion writes them ("arrival") and as compaction
leaves them ("compacted"). Both sides are given the files of the table and return the rows as Arrow; they take turns,
and what counts is processor time. "first" is a query of a process that has read none of the files before.
*battery*: 50 robots with 20 topics each, one of them images; the whole history of one robot's battery. Bytes are those
read from the file system, footers and indexes included.
*limit*: the newest 5 samples of a key of the last 48 hours, in the files of *hour*.
*files*: a log with so many files in as many partitions, of which a query needs four; every query follows a commit that
adds a file to another partition, as an ingestion does.
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

from bench.command import parser, report
from bench.compare import Result
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
WRITE_ROWS = 1 << 22
"""Rows that are made, sorted and written at once."""
FLEET_SECONDS = 130
"""Duration of the recording of the fleet with images."""
FLEET_RATE = 5000
"""Samples per second of the fleet with images."""
TOPICS = ["battery", "camera", "pose", "odom", *(f"topic{number}" for number in range(16))]
ROBOT_KEYS = [f"fleet/robot{robot:02}/{topic}" for robot in range(50) for topic in TOPICS]
BATTERY = "fleet/robot07/battery"
COUNTS = (100, 10_000, 100_000)
NEEDED_FILES = 4
"""Files that a query reads, whatever the number of files in the log."""


# --- rows -------------------------------------------------------------------------------------------------------------


def rows_of(numbers: Any, times: Any, keys: pa.Array, payloads: pa.Array) -> pa.Table:  # noqa: ANN401 - arrays of numpy
    """Make rows as they are ingested: timestamped a little before they were received, texts as dictionaries."""
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
    """Make payloads of these sizes that do not compress."""
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    content = np.random.default_rng(seed).bytes(int(ends[-1]))
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(ends), pa.py_buffer(content)])


def day_of(number: int) -> str:
    return (BEGAN + timedelta(days=number)).date().isoformat()


def write_day(table: LakeTable, day: int, count: int, sizes: RowGroupSizes) -> list[DataFile]:
    """Write the rows of one day, the same number for every key."""
    files = DataFileWriter(table.location, SAMPLES, "bench", sizes)
    for start in range(0, count, WRITE_ROWS):
        numbers = np.arange(day * count + start, day * count + min(start + WRITE_ROWS, count))
        codes = pa.array((numbers % len(KEYS)).astype(np.int32))
        keys = pa.DictionaryArray.from_arrays(codes, pa.array(KEYS))
        times = BEGAN_US + numbers * (DAY_US // count)
        rows = rows_of(numbers, times, keys, noise(np.full(len(numbers), 8), day))
        order = key_order(rows["key"].chunk(0)) if sizes is KEY_ORDER_SIZES else None
        files.write(rows, {"day": day_of(day), "prefix": "fleet"}, order)
    return files.close()


def make_lake(path: Path, count: int, sizes: RowGroupSizes) -> Lake:
    """Make a lake of so many rows."""
    lake = Lake(path)
    table = lake.table("samples")
    for day in range(DAYS):
        table.commit(Transaction(add=write_day(table, day, count // DAYS, sizes)))
    return lake


# --- measurements -----------------------------------------------------------------------------------------------------


def cpu(work: Callable[[], Any]) -> float:
    """Return the processor time of some work in milliseconds."""
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000


class CountingPath:
    """A storage path that counts the bytes that are read from its files."""

    def __init__(self, folder: StoragePath) -> None:
        self._folder = folder
        self.address, self.is_local = folder.address, folder.is_local
        self.bytes = 0

    def open(self, path: str) -> RandomAccessFile:
        return CountingFile(self, self._folder.open(path))


class CountingFile:
    """A file whose path counts the bytes that are read."""

    def __init__(self, path: CountingPath, file: RandomAccessFile) -> None:
        self._path = path
        self._file = file

    def read_at(self, nbytes: int, offset: int) -> bytes:
        self._path.bytes += nbytes
        return self._file.read_at(nbytes, offset)

    def close(self) -> None:
        self._file.close()


def scan_request_of(query: HistoryQuery) -> ScanRequest:
    return HistorySearch(KeyScope(["**"]), query, 0).request


def hour_query(day: int = 3) -> HistoryQuery:
    start = (BEGAN_US + day * DAY_US + 5 * HOUR_US) / 1e6
    return HistoryQuery(KEY, TimeRange(start, start + 3600))


def duckdb_query(files: list[str], query: HistoryQuery) -> Callable[[], int]:
    """Make a function that reads the rows of a query with DuckDB, assuming that all have timestamps."""
    connection = duckdb.connect()
    columns = ", ".join(f'"{name}"' for name in scan_request_of(query).columns)
    times = [f"make_timestamptz({int(bound * 1e6)})" for bound in (query.times.start, query.times.end)]
    sql = f"""select {columns} from read_parquet({files!r}, hive_partitioning = false)
              where key = '{query.key_expr}' and "timestamp" between {times[0]} and {times[1]}"""
    return lambda: int(connection.sql(sql).to_arrow_table().num_rows)


def hour(path: Path, count: int, turns: int) -> Iterator[Result]:
    """Query an hour of a key, beside DuckDB."""
    for name, sizes in (("arrival", ARRIVAL_ORDER_SIZES), ("compacted", KEY_ORDER_SIZES)):
        lake = make_lake(path / name, count, sizes)
        table = lake.table("samples")
        query = hour_query()
        theirs = duckdb_query([f"{table.location.address}/{file.path}" for file in table.files], query)
        scanner, request = Scanner(table.location), scan_request_of(query)

        def ours(scanner: Scanner = scanner, table: LakeTable = table, request: ScanRequest = request) -> int:
            return sum(batch.num_rows for batch in scanner.rows(table.files, request))

        first = [cpu(lambda: ours(Scanner(table.location))) for _ in range(3)]  # noqa: B023 - called at once
        assert ours() == theirs() > 0
        times = [(cpu(ours), cpu(theirs)) for _ in range(turns)]
        yield Result.of(f"hour, {name}: first", first, "ms")
        yield Result.of(f"hour, {name}", [own for own, _ in times], "ms")
        yield Result.of(f"hour, {name}: of duckdb", [own / other for own, other in times], "x")
        history = History(KeyScope(["**"]), StorageInputs(lake, []))
        samples = [cpu(lambda: list(history.samples(query))) for _ in range(turns)]  # noqa: B023 - called at once
        yield Result.of(f"hour, {name}: answered", samples, "ms")
        yield from limit(lake, name, turns)


def limit(lake: Lake, name: str, turns: int) -> Iterator[Result]:
    """Query the newest samples of the last 48 hours."""
    start = (BEGAN_US + (DAYS - 2) * DAY_US) / 1e6
    query = HistoryQuery(KEY, TimeRange(start), 5)
    table = lake.table("samples")
    location = CountingPath(table.location)
    newest = Scanner(location).newest(table.files, scan_request_of(query), NewestTimes(5, is_single_key=True))
    assert sum(batch.num_rows for batch in newest) == 5
    history = History(KeyScope(["**"]), StorageInputs(lake, []))
    yield Result.of(f"limit, {name}", [cpu(lambda: list(history.samples(query))) for _ in range(turns)], "ms")
    yield Result.of(f"limit, {name}: read", [location.bytes / 1000], "kB")


def fleet(second: int) -> pa.Table:
    """Make the samples of one second of a fleet with images."""
    draw = np.random.default_rng(second)
    codes = draw.integers(0, len(ROBOT_KEYS), FLEET_RATE).astype(np.int32)
    sizes = draw.integers(40, 90, FLEET_RATE)
    is_image = codes % len(TOPICS) == TOPICS.index("camera")
    sizes[is_image] = np.exp(draw.uniform(np.log(1000), np.log(50_000), int(is_image.sum())))
    numbers = np.arange(second * FLEET_RATE, (second + 1) * FLEET_RATE)
    keys = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(ROBOT_KEYS))
    return rows_of(numbers, BEGAN_US + numbers * (1_000_000 // FLEET_RATE), keys, noise(sizes, second))


def battery(path: Path, turns: int) -> Iterator[Result]:
    """Query the history of a small key among images, in a file as compaction leaves it."""
    folder = StoragePath.at(path)
    seconds = [fleet(second) for second in range(FLEET_SECONDS)]
    rows = pa.concat_tables(seconds).unify_dictionaries().combine_chunks()
    files = DataFileWriter(folder, SAMPLES, "bench", KEY_ORDER_SIZES)
    files.write(rows, {"day": day_of(0), "prefix": "fleet"}, key_order(rows["key"].chunk(0)))
    written = files.close()
    request = scan_request_of(HistoryQuery(BATTERY, TimeRange()))
    location = CountingPath(folder)
    scanner = Scanner(location)
    read, own = [], 0
    batches: list[pa.RecordBatch] = []
    for _ in range(2):
        location.bytes = 0
        batches = list(scanner.rows(written, request))
        own = sum(len(payload) for batch in batches for payload in batch.column("payload").to_pylist())
        read.append(location.bytes)
    yield Result.of("battery: samples", [float(sum(batch.num_rows for batch in batches))], "rows")
    yield Result.of("battery: own payloads", [own / 1000], "kB")
    yield Result.of("battery: all that is recorded", [sum(file.size for file in written) / 1e6], "MB")
    yield Result.of("battery: first, of its bytes", [read[0] / own], "x")
    yield Result.of("battery: then, of its bytes", [read[1] / own], "x")
    yield Result.of("battery", [cpu(lambda: list(scanner.rows(written, request))) for _ in range(turns)], "ms")


def make_log_entry(number: int) -> DataFile:
    """Make the log entry of a file that does not exist."""
    partition = {"day": day_of(number % DAYS), "prefix": f"p{number // DAYS:05}"}
    times = {name: BEGAN + timedelta(days=number % DAYS) for name in ("timestamp", "received_at")}
    least = {"key": f"{partition['prefix']}/a", **times}
    greatest = {"key": f"{partition['prefix']}/z", **times}
    return DataFile(f"day={partition['day']}/part-{number}.parquet", 1000, 10, partition, least, greatest)


class ManyFiles:
    """A lake with so many files, to which files are added as by another process."""

    def __init__(self, path: Path, count: int) -> None:
        self._samples = Lake(path).table("samples")
        needed = [
            file for day in range(NEEDED_FILES) for file in write_day(self._samples, day, 100_000, KEY_ORDER_SIZES)
        ]
        self._samples.commit(
            Transaction(add=[*needed, *(make_log_entry(number) for number in range(count - NEEDED_FILES))])
        )
        self._count = count
        self._history = History(KeyScope(["**"]), StorageInputs(Lake(path), []))
        assert self.query() > 0

    def query(self) -> int:
        return len(list(self._history.samples(hour_query(1))))

    def ingest(self) -> None:
        self._samples.commit(Transaction(add=[make_log_entry(self._count)]))
        self._count += 1


def many_files(path: Path, turns: int) -> Iterator[Result]:
    """Run the same query with ever more files in the log."""
    lakes = {count: ManyFiles(path / str(count), count) for count in COUNTS}
    times: dict[int, list[float]] = {count: [] for count in COUNTS}
    for _ in range(4 * turns):
        for count, lake in lakes.items():
            lake.ingest()
            times[count].append(cpu(lake.query))
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
