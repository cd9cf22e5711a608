"""The public names of the data pipeline, and what their examples use, for tests of what users see of them."""

from __future__ import annotations

import doctest
import importlib
import inspect
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

import zenspark.api.open
from tests.lake_samples import numbered
from tests.lake_tables import put_in
from tests.rows import sample
from tests.unit.api.sessions import config
from tests.unit.public_api import public_members
from tests.unit.spark.journaled import journal as write_journal
from zenspark.api.session import Session
from zenspark.arrow import SCHEMA
from zenspark.arrow.decode import RowChunk
from zenspark.handlers.arrow import chunk_from_samples
from zenspark.journal import Journal, JournalWriter, Recorder
from zenspark.spark.ingest.maintenance import Retention, RetentionRule
from zenspark.spark.lake import Lake
from zenspark.sql import Engine
from zenspark.storage import Storage
from zenspark.web.server import HttpServer
from zenspark.web.settings import HttpSettings

EXPORTS = ("zenspark.journal", "zenspark.lake", "zenspark.sql", "zenspark.storage", "zenspark.spark.lake")
"""Modules that list their public names."""
NAMES = {
    "pyspark_zenoh": ("DefaultSource", "activate"),
    "zenspark.journal.reader_offsets": ("AttachedReader",),
    "zenspark.journal.segment": ("Truncation",),
    "zenspark.lake.maintenance_config": ("MaintenanceConfig",),
    "zenspark.lake.quarantine": ("QuarantinedBlock",),
    "zenspark.spark.engine": ("spark_session",),
    "zenspark.spark.functions": (
        "register",
        "try_zenoh_includes",
        "try_zenoh_intersects",
        "try_zenoh_key_match",
        "zenoh_decode_payload",
        "zenoh_includes",
        "zenoh_intersects",
        "zenoh_key_match",
        "zenoh_ntp64_to_timestamp",
    ),
    "zenspark.spark.ingest.ingest_query": ("IngestProgress", "IngestQuery"),
    "zenspark.spark.ingest.maintenance": ("RetentionRule",),
    "zenspark.spark.ingest.process_protocol": ("MaintenanceRun",),
    "zenspark.spark.ingest.public_table": ("PublishResult",),
    "zenspark.spark.key_join": ("match_keys",),
    "zenspark.spark.pipeline.job": ("Job",),
    "zenspark.spark.pipeline.status": ("JobStatus", "Losses"),
    "zenspark.spark.progress": ("offsets_behind_latest",),
    "zenspark.web.server": ("HttpServer",),
    "zenspark.web.settings": ("HttpSettings",),
}
"""Public names of other modules: those that the manual names, and what their functions take and return."""


def public_objects() -> Iterator[tuple[str, Any]]:
    """Yield every public class and function, by its full name."""
    exported = {name: tuple(importlib.import_module(name).__all__) for name in EXPORTS}
    for module_name, names in (exported | NAMES).items():
        module = importlib.import_module(module_name)
        yield from ((f"{module_name}.{name}", getattr(module, name)) for name in names)


def public_methods() -> Iterator[tuple[str, Any]]:
    """Yield every method of a public class that is not a property, by its full name."""
    for name, found in public_objects():
        for member_name, member in public_members(found) if inspect.isclass(found) else ():
            if not inspect.isdatadescriptor(member):
                yield f"{name}.{member_name}", getattr(found, member_name)


def examples() -> Iterator[tuple[str, list[doctest.Example]]]:
    """Yield the example of every public class, function and method, by its full name."""
    parser = doctest.DocTestParser()
    for name, found in (*public_objects(), *public_methods()):
        lines = parser.get_examples(inspect.getdoc(found) or "", name)
        if lines:
            yield name, lines


# --- what examples use ----------------------------------------------------------------------------

GIVEN: dict[str, Any] = {name.rpartition(".")[2]: found for name, found in public_objects()}
GIVEN |= {"Lake": Lake, "Retention": Retention, "RetentionRule": RetentionRule}
GIVEN |= {"pa": pa, "time": time, "UTC": UTC, "date": date, "datetime": datetime, "timedelta": timedelta}
"""The names that examples use without an import: a lake is that of `zenspark.spark`, which has all methods."""
ROWS = 30


class Things:
    """The objects that examples use without opening them, made in the current directory when they are first used."""

    def __init__(self) -> None:
        self._open = ExitStack()

    def close(self) -> None:
        """Close what was opened, the last one first."""
        self._open.close()

    @cached_property
    def journal(self) -> Journal:
        return Journal(write_journal(Path("journal"), ROWS))

    @cached_property
    def writer(self) -> JournalWriter:
        return self._open.enter_context(JournalWriter("written"))

    @cached_property
    def batch(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([sample(0)], schema=SCHEMA)

    @cached_property
    def chunks(self) -> list[RowChunk]:
        received: list[Any] = []
        with self.session.declare_subscriber("demo/a", received.append):
            self.session.put("demo/a", b"x")
        return [chunk_from_samples(received, time.time_ns() // 1000)]

    @cached_property
    def lake(self) -> Lake:
        lake = Lake("lake")
        lake.create()
        put_in(lake, numbered([{"key": f"fleet/r{number % 3}/pose"} for number in range(ROWS)], 0, "robot"))
        return lake

    @cached_property
    def engine(self) -> Engine:
        return Engine(self.lake)

    @cached_property
    def session(self) -> Session:
        return self._open.enter_context(zenspark.api.open.open(config("router", ["tcp/127.0.0.1:0"], ())))

    @cached_property
    def recorder(self) -> Recorder:
        return self._open.enter_context(Recorder(self.session, ["demo/**"], self.writer))

    @cached_property
    def storage(self) -> Storage:
        return self._open.enter_context(Storage(self.session, "demo/**", self.lake, [self.journal]))

    @cached_property
    def server(self) -> HttpServer:
        return self._open.enter_context(HttpServer(self.session, HttpSettings(address=("127.0.0.1", 0))))


class OnlyShown(doctest.OutputChecker):
    """Compares the output of a line with that in the example, if the example shows one."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


def run_example(name: str, lines: list[doctest.Example], names: dict[str, Any]) -> str:
    """Run an example with these names; returns what went wrong."""
    failures: list[str] = []
    test = doctest.DocTest(lines, names, name, None, None, None)
    doctest.DocTestRunner(OnlyShown(), verbose=False).run(test, out=failures.append)
    return "".join(failures)
