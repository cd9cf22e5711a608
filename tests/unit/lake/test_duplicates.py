"""Deduplication of samples of two recorders, in any order of ingestion, against a naive model."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.lake.tables import samples_at
from zenspark.arrow import SCHEMA
from zenspark.journal import Journal, JournalWriter, Slice
from zenspark.lake.delta_table import LakeTable, Transaction
from zenspark.lake.duplicates import drop_duplicates, find_duplicates
from zenspark.lake.parquet_files import DataFileWriter
from zenspark.lake.partitioning import split_by_partition
from zenspark.lake.specs import JOURNAL_SCHEMA, SAMPLES

BEGAN = datetime(2026, 11, 16, 12, tzinfo=UTC)
SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 20))]
"""A fifth of a second each, so `make unit` has a few of them."""
Row = dict[str, Any]


def sample(number: int, rnd: random.Random) -> Row:
    """A sample as a network has it: timestamped, with a source, with both, or with neither."""
    at = BEGAN + timedelta(seconds=number)
    row: Row = {"key": f"k/{number % 3}", "kind": "PUT", "payload": b"%d" % number, "received_at": at}
    how = rnd.randrange(4)
    if how in (0, 2):
        row |= {"timestamp_ntp64": (1_794_000_000 + number) << 32, "timestamp_id": "33", "timestamp": at}
    if how in (1, 2):
        row |= {"source_zid": "fe", "source_eid": 1, "source_sn": number}
    return row


def is_identifiable(row: Row) -> bool:
    return "timestamp_id" in row or "source_sn" in row


def record(path: Path, name: str, rows: list[Row]) -> Journal:
    with JournalWriter(path / name, recorder=name) as writer:
        if rows:
            writer.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    return Journal(path / name)


def ingest(table: LakeTable, parts: list[Slice]) -> None:
    dropped = find_duplicates(parts, table)
    files = DataFileWriter(table.location, SAMPLES, "x")
    for part in parts:
        for batch in part.batches():
            rows = drop_duplicates(pa.Table.from_batches([batch]), dropped)
            if rows.num_rows:
                words = pa.Table.from_batches(rows.to_batches()).cast(JOURNAL_SCHEMA)
                encoded = pa.table({n: _words(words[n]) for n in words.schema.names})
                for partition, own in split_by_partition(encoded):
                    files.write(own, partition)
    table.commit(Transaction(add=files.close()))


def _words(column: pa.ChunkedArray) -> pa.ChunkedArray:
    found = column.combine_chunks()
    return pa.chunked_array([found.dictionary_encode() if pa.types.is_string(found.type) else found])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_samples_of_two_recorders_are_ingested_once_despite_losses(tmp_path: Path, seed: int) -> None:
    rnd = random.Random(seed)
    published = [sample(number, rnd) for number in range(60)]
    lost = {name: rnd.sample(range(60), rnd.randrange(30)) for name in ("one", "two")}
    seen = {name: [row for number, row in enumerate(published) if number not in lost[name]] for name in lost}
    for rows in seen.values():  # the second clock is off by some seconds
        skew = timedelta(seconds=rnd.randrange(-20, 20))
        rows[:] = [row | {"received_at": row["received_at"] + skew} for row in rows]
    seen["one"] += seen["one"][:1]  # published again, indistinguishable from a repetition
    journals = {name: record(tmp_path, name, rows) for name, rows in seen.items()}
    table = samples_at(tmp_path / "t")
    cuts = {name: sorted({0, len(rows), *rnd.choices(range(len(rows) + 1), k=3)}) for name, rows in seen.items()}
    steps = [
        part
        for name, journal in journals.items()
        for start, end in zip(cuts[name], cuts[name][1:], strict=False)
        for part in journal.slices(start, end, 1)
    ]
    if rnd.random() < 0.7:
        steps.sort(key=lambda part: (part.start, part.recorder))  # taking turns, or one long after the other
    while steps:
        count = rnd.randrange(1, 4)
        ingest(table, steps[:count])
        steps = steps[count:]
    found = table.to_deltalake().to_pyarrow_dataset().to_table(columns=["payload", "recorder"]).to_pylist()
    for number, row in enumerate(published):
        holders = [name for name in seen for each in seen[name] if each["payload"] == row["payload"]]
        ingested = [each["recorder"] for each in found if each["payload"] == b"%d" % number]
        if not is_identifiable(row):
            assert sorted(ingested) == sorted(holders)
        else:
            assert len(set(ingested)) == len(set(holders[:1]))
            assert len(ingested) == max((holders.count(name) for name in set(ingested)), default=0)


def test_repetitions_within_one_recorder_are_kept(tmp_path: Path) -> None:
    row = sample(2, random.Random(0)) | {"source_zid": "a", "source_eid": 1, "source_sn": 1}
    journal = record(tmp_path, "one", [row, row])
    table = samples_at(tmp_path / "t")
    ingest(table, journal.slices(0, 1, 1))
    assert find_duplicates(journal.slices(0, 2, 1), table) == {}
    assert find_duplicates([], table) == {}
