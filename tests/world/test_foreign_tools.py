"""Commands of deltalake between batches, in any order: ingestion, reading and maintenance go on and are right."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType
from pyspark.sql import SparkSession

from tests import lake_model, lake_tables
from tests.lake_model import Row
from tests.spark.lakes import Ingester
from tests.world.mixture import Journals, Mixture
from tests.world.readers import plain
from tests.world.seeds import seeds
from zenspark.lake.delta_log import CommitConflict
from zenspark.lake.partitioning import EPOCH_DAY, partition_prefix
from zenspark.lake.specs import JOURNAL_SCHEMA, SAMPLES
from zenspark.spark.ingest.maintenance import RetentionRule
from zenspark.spark.lake import Lake, Retention

pytestmark = pytest.mark.spark

ROWS = 150
"""In a batch."""
STEPS = 20
PAUSE = 3.0
"""Hours between two batches, by the clock of their rows: so there are several days."""


class World:
    """A lake, what zenspark and other tools do to it, and what must be in it then."""

    def __init__(self, spark: SparkSession, path: Path, seed: int) -> None:
        self.spark = spark
        self.path = path
        self.lake = Lake(path)
        self.lake.create()
        self.random = random.Random(seed)
        self.journals = Journals(Mixture(seed), ("robot", "hall"), hours=2 * STEPS / 3 * PAUSE)
        self.ingester = Ingester(spark, self.lake)
        self.samples: list[Row] = []
        """What is in `samples` of the journals,"""
        self.expired: list[Row] = []
        """what retention has removed from it, which `latest` still knows,"""
        self.observed: dict[tuple[str, int], Row] = {}
        """what the derived tables have taken in,"""
        self.inserted: list[Row] = []
        """and what another tool has inserted."""
        self.extra: list[str] = []
        """Columns that another tool has added."""

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(self.path / "samples")

    # --- zenspark

    def ingest(self) -> None:
        rows = self.journals.rows(ROWS, PAUSE)
        self.ingester.ingest(rows)
        self.samples += rows

    def refresh(self) -> None:
        self.lake.refresh(self.spark)
        self.lake.publish(self.spark)
        self.observed |= {(row["recorder"], row["offset"]): row for row in self.samples}

    def compact(self) -> None:
        self.lake.compact(self.spark)

    def expire(self) -> None:
        """Remove what is older than a day, but for the keys of one prefix, once it has been taken in."""
        self.refresh()
        age = timedelta(days=1)
        self.lake.expire(Retention(age, rules=(RetentionRule("site/**", None),)), self.spark)
        first = (datetime.now(UTC) - age).date()
        self.expired += [row for row in self.samples if self._expires(row, first)]
        self.samples = [row for row in self.samples if not self._expires(row, first)]
        self.inserted = [row for row in self.inserted if not self._expires(row, first)]

    @staticmethod
    def _expires(row: Row, first: date) -> bool:
        return day_of(row) < first and not row["key"].startswith(("site/", "*"))

    def vacuum(self) -> None:
        self.lake.vacuum(timedelta(0), full=True)

    def checkpoint(self) -> None:
        self.lake.checkpoint(force=True)

    # --- other tools

    def foreign_compact(self) -> None:
        self.delta.optimize.compact()

    def foreign_z_order(self) -> None:
        self.delta.optimize.z_order(["key"])

    def foreign_optimize_of_derived(self) -> None:
        """Rearrange the public derived tables, and remove what is left over."""
        for name, column in (("latest", "priority"), ("gaps", "noticed_at"), ("traffic", "prefix")):
            table = DeltaTable(self.path / name)
            table.optimize.z_order([column]) if self.random.random() < 0.5 else table.optimize.compact()
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)

    def foreign_vacuum(self) -> None:
        self.delta.vacuum(0, dry_run=False, enforce_retention_duration=False)

    def foreign_checkpoint(self) -> None:
        self.delta.create_checkpoint()

    def foreign_delete(self) -> None:
        """Delete the rows of a key, or a range of offsets."""
        known = sorted({row["key"] for row in self.samples})
        if self.random.random() < 0.5 and known:
            key = self.random.choice(known)
            self.delta.delete(f"key = '{key}'")
            self._delete(lambda row: row["key"] == key)
        else:
            start = self.random.randrange(1 + len(self.samples))
            self.delta.delete(f"recorder = 'hall' and \"offset\" between {start} and {start + 20}")
            self._delete(lambda row: row["recorder"] == "hall" and start <= row["offset"] <= start + 20)

    def _delete(self, is_meant: Callable[[Row], bool]) -> None:
        self.samples = [row for row in self.samples if not is_meant(row)]
        self.inserted = [row for row in self.inserted if not is_meant(row)]

    def foreign_add_column(self) -> None:
        name = f"note{len(self.extra)}"
        self.delta.alter.add_columns([Field(name, PrimitiveType("string"))])
        self.extra.append(name)

    def foreign_insert(self) -> None:
        """Insert rows that no journal has, into a partition of their own too."""
        rows = [self._insertion(number) for number in range(3)]
        notes = [(name, pa.string()) for name in self.extra]
        schema = pa.schema([*SAMPLES.schema, *notes])
        write_deltalake(self.delta, pa.Table.from_pylist(rows, schema=schema), mode="append")
        self.inserted += rows

    def _insertion(self, number: int) -> Row:
        now = time.time_ns() // 1000
        key = self.random.choice(["fleet/inserted", "elsewhere/inserted", "site/p0/t2"])
        row = dict.fromkeys(JOURNAL_SCHEMA.names) | {
            "key": key,
            "kind": "PUT",
            "payload": b"%d" % number,
            "received_at": now,
        }
        partition = {"day": day_of(row), "prefix": partition_prefix(key)}
        return row | partition | {name: f"{name} of {number}" for name in self.extra}

    # --- what must be

    def check_samples(self) -> None:
        """What other readers find in `samples`."""
        names = [*SAMPLES.schema.names, *self.extra]
        found = plain(self.delta.to_pyarrow_table(columns=names))
        assert in_order(found) == in_order(self._expected(names))

    def _expected(self, names: list[str]) -> list[Row]:
        own = [row | {"day": day_of(row), "prefix": partition_prefix(row["key"])} for row in self.samples]
        schema = pa.schema([*SAMPLES.schema, *((name, pa.string()) for name in self.extra)])
        found = pa.Table.from_pylist([*own, *self.inserted], schema=schema).select(names)
        return plain(found)

    def check(self) -> None:
        """What is in every table, read through zenspark and as of the last refresh."""
        self.check_samples()
        names = SAMPLES.schema.names
        read = plain(self.lake.read(self.spark, "samples").toArrow().cast(SAMPLES.schema))
        assert in_order(read) == in_order(self._expected(names))
        self.refresh()
        for table in (self._read, self._stored):
            rows, observed = self.samples + self.expired, list(self.observed.values())
            assert lake_tables.latest_of(table("latest")) == lake_model.latest(rows)
            assert lake_tables.traffic_of(table("traffic")) == lake_model.traffic(observed)
            assert lake_tables.gaps_of(table("gaps")) == lake_model.gaps(observed)

    def _read(self, name: str) -> pa.Table:
        return self.lake.read(self.spark, name).toArrow()

    def _stored(self, name: str) -> pa.Table:
        return DeltaTable(self.path / name).to_pyarrow_table()


def day_of(row: Row) -> date:
    """The day of a row's partition."""
    return EPOCH_DAY + timedelta(microseconds=row["received_at"])


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["recorder"] or "", row["offset"] or 0, row["received_at"], row["key"]))


OWN = (World.refresh, World.compact, World.vacuum, World.checkpoint)
FOREIGN = (
    World.foreign_compact,
    World.foreign_z_order,
    World.foreign_optimize_of_derived,
    World.foreign_vacuum,
    World.foreign_checkpoint,
    World.foreign_delete,
    World.foreign_add_column,
    World.foreign_insert,
)


def test_tables_are_correct_after_foreign_commands_between_batches(spark: SparkSession, tmp_path: Path) -> None:
    for seed in seeds(share=0.2):
        run(World(spark, tmp_path / f"seed-{seed}" / "lake", seed))


def run(world: World) -> None:
    """Commands of all kinds in the order that the seed decides on, then retention, then a last batch."""
    world.ingest()
    foreign = list(FOREIGN) + world.random.choices(FOREIGN, k=2)
    steps = foreign + [World.ingest] * (STEPS // 3) + world.random.choices(OWN, k=STEPS - STEPS // 3 - len(foreign))
    world.random.shuffle(steps)
    for step in steps:
        if step is World.foreign_delete:
            world.refresh()  # what is deleted before it was taken in was never observed
        step(world)
        world.check_samples()
    world.check()
    world.expire()
    world.ingest()
    world.check()


def test_foreign_compaction_during_ingestion_loses_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    world = World(spark, tmp_path / "lake", 3)
    world.ingest()
    is_over = threading.Event()
    done: list[str] = []

    def optimize() -> None:
        while not is_over.is_set():
            with contextlib.suppress(CommitFailedError):  # zenspark was faster
                world.delta.optimize.compact()
                done.append("compacted")

    other = threading.Thread(target=optimize)
    other.start()
    try:
        for _ in range(6):
            world.ingest()
            with contextlib.suppress(CommitConflict):  # the other tool was faster: it is tried again the next time
                world.compact()
    finally:
        is_over.set()
        other.join()
    assert len(done) > 1
    world.check()
