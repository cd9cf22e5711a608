from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zenspark.errors import LakeError
from zenspark.key.match import intersects
from zenspark.lake import scan
from zenspark.lake.column_chunks import RandomAccessFile
from zenspark.lake.parquet_files import KEY_ORDER_SIZES, DataFile, DataFileWriter, read_min_max
from zenspark.lake.predicates import MAX_TIME_US, MIN_TIME_US, BoolMask, KeyPredicate, TimePredicate
from zenspark.lake.scan import NewestTimes, Scanner, ScanRequest
from zenspark.lake.specs import JOURNAL_SCHEMA, SAMPLES
from zenspark.lake.storage_path import StoragePath

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONG = "long/" + "x" * 70
NAMES = [
    "a",
    "a/b",
    "a/b/c",
    "a/b/cc",
    "a/é",
    "a/\U0001d11e/z",
    "a/\U0010ffff\U0010ffff",
    "b/1",
    "b/10",
    "b/2",
    "zz",
    LONG,
    LONG + "1",
    LONG + "2/end",
    LONG + "\U0010ffff" * 3,
    "**",
    "a/*",
    "a/**",
    "*/1",
    "b/1$*",
    "a/b/$*c",
    LONG + "$*",
]
QUESTIONS = [*NAMES, "b/*", "*", "**/c", "a/b/**", "$*/2", LONG + "1/**", "q", "q/**", "long/*"]


# --- rows and files ---------------------------------------------------------------------------------------------------


def time_at(second: float | None) -> datetime | None:
    return None if second is None else EPOCH + timedelta(seconds=second)


def row(key: str | None, offset: int, **other: object) -> dict[str, Any]:
    made: dict[str, Any] = {"key": key, "kind": "PUT", "payload": b"%d" % offset, "encoding": "zenoh/bytes"}
    return made | {"recorder": "r", "offset": offset, "received_at": time_at(offset), "timestamp_id": "a1"} | other


ROWS = st.builds(
    lambda key, stamp, received, payload, recorder: {
        "key": key,
        "timestamp": time_at(stamp),
        "received_at": time_at(received),
        "payload": payload,
        "kind": "PUT" if payload is not None else "DELETE",
        "encoding": "text/plain",
        "recorder": recorder,
    },
    st.sampled_from([*NAMES, None]),
    st.none() | st.integers(0, 12),
    st.integers(0, 12) | st.none(),
    st.none() | st.binary(max_size=8),
    st.sampled_from(["r1", "r2", None]),
)
WRITTEN = st.fixed_dictionaries(
    {
        "row_group_size": st.sampled_from([1, 2, 5, 100]),
        "write_page_index": st.booleans(),
        "max_rows_per_page": st.sampled_from([1, 3, 50]),
        "write_batch_size": st.sampled_from([1, 2, 64]),
        "use_dictionary": st.booleans(),
        "dictionary_pagesize_limit": st.sampled_from([1, 20, 1 << 20]),
        "compression": st.sampled_from(["none", "snappy", "zstd"]),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "write_statistics": st.booleans() | st.just(["key"]) | st.just(["timestamp"]),
        "use_deprecated_int96_timestamps": st.booleans(),
    }
)


@dataclass
class World:
    """Rows in files that many writers wrote."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    files: list[DataFile] = field(default_factory=list)

    def write(self, root: str, rows: Sequence[dict[str, Any]], options: dict[str, Any], has_statistics: bool) -> None:
        """One file; another tool may have written it without a column."""
        name = f"{len(self.files)}.parquet"
        numbered = [{"offset": len(self.rows) + at, **each} for at, each in enumerate(rows)]
        table = pa.Table.from_pylist(numbered, schema=JOURNAL_SCHEMA)
        pq.write_table(table.drop_columns(["via", "attachment"]), f"{root}/{name}", **options)
        footer = pq.read_metadata(f"{root}/{name}")
        has_min_max = has_statistics and not options["use_deprecated_int96_timestamps"]
        least, greatest = read_min_max(footer, SAMPLES.stats_columns) if has_min_max else ({}, {})
        self.files.append(DataFile(name, Path(root, name).stat().st_size, len(rows), {}, least, greatest))
        self.rows += table.to_pylist()


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, TimePredicate]:
    start, end = draw(st.none() | st.integers(-1, 13)), draw(st.none() | st.integers(-1, 13))
    times = TimePredicate(
        MIN_TIME_US if start is None else start * 1_000_000,
        MAX_TIME_US if end is None else end * 1_000_000,
    )
    return draw(st.sampled_from(QUESTIONS)), times


def keys_of(question: str) -> KeyPredicate:
    def matching(names: pa.Array) -> BoolMask:
        return np.array([intersects(question, name) for name in names.to_pylist()], bool)

    chunks = question.split("/")
    literal = chunks[: next((at for at, chunk in enumerate(chunks) if "*" in chunk), len(chunks))]
    return KeyPredicate(matching, "/".join(literal) or None, is_exact=len(literal) == len(chunks))


def moment(each: dict[str, Any]) -> int | None:
    time = each["timestamp"] or each["received_at"]
    return None if time is None else (time - EPOCH) // timedelta(microseconds=1)


def naive(rows: Sequence[dict[str, Any]], question: str, times: TimePredicate) -> list[dict[str, Any]]:
    found = []
    for each in rows:
        time = moment(each)
        is_meant = each["key"] is not None and intersects(question, each["key"])
        if is_meant and time is not None and times.start <= time <= times.end:
            found.append(each)
    return found


def to_rows(batches: Sequence[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows = [each for batch in batches for each in batch.to_pylist()]
    return sorted(rows, key=lambda each: each["offset"])


@st.composite
def worlds(draw: st.DrawFn, root: str) -> World:
    world = World()
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.lists(ROWS, min_size=1, max_size=12))
        if draw(st.booleans()):
            rows.sort(key=lambda each: each["key"] or "")
        world.write(root, rows, draw(WRITTEN), draw(st.booleans()))
    return world


# --- what is found ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.data(), questions())
def test_scan_equals_filter_of_all_rows(data: st.DataObject, query: tuple[str, TimePredicate]) -> None:
    question, times = query
    with TemporaryDirectory() as root:
        world = data.draw(worlds(root))
        scanner = Scanner(StoragePath.at(root))
        for _ in range(2):  # the second time from what is kept of the files
            found = to_rows(list(scanner.rows(world.files, ScanRequest(keys_of(question), times))))
            assert found == naive(world.rows, question, times)


@pytest.mark.slow
@given(st.data(), questions(), st.integers(1, 4))
def test_limited_scan_includes_the_newest_rows(
    data: st.DataObject, query: tuple[str, TimePredicate], limit: int
) -> None:
    question, times = query
    with TemporaryDirectory() as root:
        world = data.draw(worlds(root))
        keys = keys_of(question)
        batches = Scanner(StoragePath.at(root)).newest(
            world.files, ScanRequest(keys, times), NewestTimes(limit, is_single_key=keys.is_exact)
        )
        found = to_rows(list(batches))
        wanted = naive(world.rows, question, times)
        assert all(each in wanted for each in found)
        for key in {None} if keys.is_exact else {each["key"] for each in wanted}:
            own = [each for each in wanted if key in (None, each["key"])]
            oldest = sorted((moment(each) or 0 for each in own), reverse=True)[:limit][-1:]
            assert all(each in found for each in own if oldest and (moment(each) or 0) >= oldest[0])


# --- what is read -----------------------------------------------------------------------------------------------------


class CountedFile:
    """A file that counts the bytes that are read from it."""

    def __init__(self, location: Counted, file: RandomAccessFile) -> None:
        self._location = location
        self._file = file

    def read_at(self, nbytes: int, offset: int) -> bytes:
        self._location.bytes += nbytes
        self._location.requests += 1
        return self._file.read_at(nbytes, offset)

    def close(self) -> None:
        self._file.close()


class Counted:
    """A location that counts the bytes that are read."""

    def __init__(self, path: Path, local: bool = True) -> None:
        self._location = StoragePath.at(path)
        self.address, self.is_local = str(path), local
        self.opened: list[str] = []
        self.bytes = self.requests = 0

    def open(self, path: str) -> CountedFile:
        self.opened.append(path)
        return CountedFile(self, self._location.open(path))


COLUMNS = ("key", "payload", "timestamp", "received_at", "offset")


def write_files(path: Path, rows: list[dict[str, Any]], sizes: Any = KEY_ORDER_SIZES) -> list[DataFile]:  # noqa: ANN401
    files = DataFileWriter(StoragePath.at(path), SAMPLES, "test", sizes)
    files.write(pa.Table.from_pylist(rows, schema=JOURNAL_SCHEMA), {"day": "1970-01-01", "prefix": "a"})
    return files.close()


def test_files_excluded_by_statistics_are_not_opened(tmp_path: Path) -> None:
    files = [
        *write_files(tmp_path, [row("a/1", 1)]),
        *write_files(tmp_path, [row("a/2", 2)]),
        *write_files(tmp_path, [row("b", 3)]),
    ]
    location = Counted(tmp_path)
    scanner = Scanner(location)
    (found,) = scanner.rows(files, ScanRequest(keys_of("a/2"), TimePredicate()))
    assert found.column("offset").to_pylist() == [2]
    assert location.opened == [files[1].path]
    assert list(scanner.rows(files, ScanRequest(keys_of("**"), TimePredicate(start=4_000_000)))) == []
    assert len(location.opened) == 1


@pytest.mark.slow
def test_large_payloads_of_other_keys_are_not_read(tmp_path: Path) -> None:
    image = bytes(range(256)) * 400
    noise = np.random.default_rng(0)
    rows = [row("a/battery", at) for at in range(100)]
    rows += [row("a/camera", 100 + at, payload=noise.bytes(len(image))) for at in range(50)]
    files = write_files(tmp_path, rows)
    location = Counted(tmp_path)
    (found,) = Scanner(location).rows(files, ScanRequest(keys_of("a/battery"), TimePredicate(), COLUMNS))
    assert found.num_rows == 100
    assert location.bytes < len(image)


def test_without_dictionary_match_only_the_dictionary_is_read(tmp_path: Path) -> None:
    rows = [row(key, at, payload=b"x" * 1000) for at, key in enumerate(["a/1", "a/3"] * 1000)]
    files = write_files(tmp_path, rows)
    location = Counted(tmp_path)
    scanner = Scanner(location)
    assert list(scanner.rows(files, ScanRequest(keys_of("a/2"), TimePredicate()))) == []
    location.bytes = location.requests = 0
    assert list(scanner.rows(files, ScanRequest(keys_of("a/2"), TimePredicate()))) == []
    assert location.bytes == 0


def test_second_scan_uses_cached_footer(tmp_path: Path) -> None:
    files = write_files(tmp_path, [row("a", 1)])
    location = Counted(tmp_path)
    scanner = Scanner(location)
    wanted = ScanRequest(keys_of("a"), TimePredicate(), COLUMNS)
    list(scanner.rows(files, wanted))
    first = location.bytes
    location.bytes = 0
    list(scanner.rows(files, wanted))
    assert 0 < location.bytes < first / 2


def test_metadata_cache_is_bounded(tmp_path: Path) -> None:
    files = [file for at in range(4) for file in write_files(tmp_path, [row(f"a/{at}", at)])]
    location = Counted(tmp_path)
    scanner = Scanner(location, cache_bytes=60_000)
    for file in files:
        list(scanner.rows([file], ScanRequest(keys_of("**"), TimePredicate())))
    assert scanner._cache._size <= 60_000
    location.bytes = 0
    list(scanner.rows(files[:1], ScanRequest(keys_of("**"), TimePredicate())))
    assert location.bytes == files[0].size


def test_limited_scan_opens_the_newest_file_only(tmp_path: Path) -> None:
    files = [file for at in range(0, 100, 10) for file in write_files(tmp_path, [row("a", at + n) for n in range(10)])]
    location = Counted(tmp_path)
    (found,) = Scanner(location).newest(
        files, ScanRequest(keys_of("a"), TimePredicate()), NewestTimes(3, is_single_key=True)
    )
    assert found.column("offset").to_pylist() == [97, 98, 99]
    assert location.opened == [files[-1].path]


def test_rows_found_elsewhere_are_counted_for_the_limit(tmp_path: Path) -> None:
    files = write_files(tmp_path, [row("a", at) for at in range(10)])
    location = Counted(tmp_path)
    newest = NewestTimes(1, is_single_key=True)
    newest.add(["a"], [20_000_000])
    assert list(Scanner(location).newest(files, ScanRequest(keys_of("a"), TimePredicate()), newest)) == []
    assert location.opened == []


def test_row_group_with_only_older_rows_is_skipped(tmp_path: Path) -> None:
    old = write_files(tmp_path, [row("a/1", 1), row("a/2", 2)])
    new = write_files(tmp_path, [row("a/1", 11), row("a/2", 12)])
    newest = NewestTimes(1)
    (found,) = Scanner(Counted(tmp_path)).newest([*old, *new], ScanRequest(keys_of("a/*"), TimePredicate()), newest)
    assert found.column("offset").to_pylist() == [11, 12]


@pytest.mark.slow
def test_large_payloads_are_returned_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MAX_PAYLOAD_READ_BYTES", 100_000)
    noise = np.random.default_rng(0)
    rows = [row("a", at, payload=noise.bytes(20_000)) for at in range(64)]
    table = pa.Table.from_pylist(rows, schema=JOURNAL_SCHEMA)
    pq.write_table(table, tmp_path / "x", write_page_index=True, write_batch_size=1, data_page_size=1)
    file = DataFile("x", (tmp_path / "x").stat().st_size, 64, {})
    batches = list(Scanner(StoragePath.at(tmp_path)).rows([file], ScanRequest(keys_of("a"), TimePredicate())))
    assert len(batches) > 5
    assert [each["payload"] for each in to_rows(batches)] == [each["payload"] for each in rows]


@pytest.mark.slow
def test_remote_scan_makes_few_requests_and_prefetches_files(tmp_path: Path) -> None:
    files = [file for at in range(20) for file in write_files(tmp_path, [row(f"a/{at}", at), row("a/x", at)])]
    location = Counted(tmp_path, local=False)
    found = list(Scanner(location).rows(files, ScanRequest(keys_of("a/*"), TimePredicate())))
    assert [batch.column("offset").to_pylist() for batch in found] == [[at, at] for at in range(20)]
    assert location.requests == len(files)  # files as small as these are read with their footers


@pytest.mark.slow
def test_abandoned_scan_leaves_no_thread(tmp_path: Path) -> None:
    files = [file for at in range(20) for file in write_files(tmp_path, [row("a", at)])]
    batches = Scanner(Counted(tmp_path, local=False)).rows(files, ScanRequest(keys_of("a"), TimePredicate()))
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("zenspark-scan")]


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_missing_file_raises_file_not_found(tmp_path: Path) -> None:
    file = DataFile("gone", 100, 1, {})
    with pytest.raises(FileNotFoundError):
        list(Scanner(StoragePath.at(tmp_path)).rows([file], ScanRequest(keys_of("a"), TimePredicate())))


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"not a Parquet file at all", b"PAR1" + bytes(30) + b"\x08\0\0\0PAR1"]
)
def test_non_parquet_file_raises_with_its_path(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(LakeError, match="/x: cannot be read: expected"):
        list(
            Scanner(StoragePath.at(tmp_path)).rows(
                [DataFile("x", len(content), 1, {})], ScanRequest(keys_of("a"), TimePredicate())
            )
        )


def test_truncated_file_raises_with_its_path(tmp_path: Path) -> None:
    (file,) = write_files(tmp_path, [row("a", 1)])
    path = tmp_path / file.path
    path.write_bytes(path.read_bytes()[: file.size // 2])
    with pytest.raises(LakeError, match="cannot be read"):
        list(Scanner(StoragePath.at(tmp_path)).rows([file], ScanRequest(keys_of("a"), TimePredicate())))


@pytest.mark.slow
@settings(max_examples=50)
@given(st.data())
def test_damaged_files_are_read_or_raise_with_their_path(data: st.DataObject) -> None:
    with TemporaryDirectory() as root:
        (file,) = write_files(Path(root), [row("a", at) for at in range(5)])
        content = bytearray((Path(root) / file.path).read_bytes())
        for place in data.draw(st.lists(st.integers(0, file.size - 1), min_size=1, max_size=4)):
            content[place] = data.draw(st.integers(0, 255))
        (Path(root) / file.path).write_bytes(content)
        with suppress(LakeError):
            list(Scanner(StoragePath.at(root)).rows([file], ScanRequest(keys_of("a"), TimePredicate())))
