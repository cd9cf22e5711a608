"""Traffic drawn from seeds, through the real command and its crashes, into tables that equal what was sent."""

from __future__ import annotations

import contextlib
import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tests import lake_tables
from tests.interop.reference import unused
from tests.lake_model import Row
from tests.world.mixture import Message
from tests.world.pipeline import Feed, Up, up, wait_until
from tests.world.readers import READERS, plain
from tests.world.seeds import SECONDS, seeds
from zenspark.spark.lake import Lake

pytest.importorskip("zenoh")

pytestmark = [pytest.mark.spark, pytest.mark.interop]

MESSAGES = 1500
"""Sent between two events,"""
RATE, RATE_SECONDS = 500.0, 3.0
"""and during one."""
EVENTS = 5 if SECONDS else 2
"""With one node; with two there is one less."""
FLAGS = ("--refresh-interval", "3s", "--compact-interval", "7s", "--stop-timeout", "5m")
READ_BY = ("deltalake", "polars", "duckdb")

Content = tuple[object, ...]


class Node:
    """One `zenspark up` with its journal, and a publisher connected to it."""

    def __init__(self, lake: Path, seed: int) -> None:
        self.lake = lake
        self.journal = lake.parent / f"journal-{seed}"
        self.endpoint = unused()
        self.seed = seed
        self.acknowledged: list[pa.Table] = []
        self._stack = contextlib.ExitStack()
        self.up = self._start()
        self.feed = self._stack.enter_context(contextlib.closing(Feed(self.endpoint, seed, self.journal)))

    def _start(self) -> Up:
        return self._stack.enter_context(up(self.lake, self.journal, self.endpoint, *FLAGS))

    def ingested_rows(self) -> int:
        return sum(Lake(self.lake).ingested().values()) if Lake(self.lake).exists() else 0

    # --- what can happen

    def kill_ingest_process(self, draw: random.Random) -> None:
        """Kill the ingest process during a batch; recording continues."""
        wait_until(lambda: self.ingested_rows() and self.up.ingest_process(), f"nothing is ingested: {self.up.output}")
        time.sleep(draw.uniform(0, 2))
        draw.choice(self.up.ingest_process()).kill()

    def kill_recorder(self, draw: random.Random) -> None:
        """Kill the command, in the middle of recording, and start it again."""
        time.sleep(draw.uniform(0, 0.3))
        self.feed.disturb()
        self.acknowledged.append(self.up.kill())
        self.up = self._start()

    def restart(self, draw: random.Random) -> None:
        """End the command as a user does, while messages come, and start it again."""
        time.sleep(draw.uniform(0, 0.3))
        self.feed.disturb()
        assert self.up.interrupt() == 0, self.up.output
        self.up = self._start()

    # --- the end

    def end(self) -> None:
        self.feed.confirm()
        assert self.up.interrupt() == 0, self.up.output

    def close(self) -> None:
        self._stack.close()


EVENT_KINDS = (Node.kill_ingest_process, Node.kill_recorder, Node.restart)


@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_tables_equal_sent_messages_despite_crashes(tmp_path: Path, first: int) -> None:
    """With one node where the seed is odd, with two where it is even."""
    for seed in seeds(share=0.4, first=first, step=2):
        run(seed, tmp_path / f"seed-{seed}" / "lake")
        shutil.rmtree(tmp_path / f"seed-{seed}")


def run(seed: int, lake: Path) -> None:
    """One world from its first message to the comparison."""
    draw = random.Random(seed)
    lake.parent.mkdir()
    nodes: list[Node] = []
    try:
        for number in range(1 + (seed % 2 == 0)):
            nodes.append(Node(lake, 10 * seed + number))
        for event in draw.choices(EVENT_KINDS, k=EVENTS + 1 - len(nodes)):
            for node in nodes:
                node.feed.send(MESSAGES)
                node.feed.confirm()
            node = draw.choice(nodes)
            node.feed.begin(RATE, RATE_SECONDS)
            event(node, draw)
            node.feed.end()
            node.feed.confirm()
        for node in nodes:
            node.end()
        check(lake, nodes, READ_BY[seed % len(READ_BY)])
    finally:
        for node in nodes:
            node.close()


# --- the comparison ---------------------------------------------------------------------------------------------------


def check(lake: Path, nodes: Sequence[Node], reader: str) -> None:
    """All tables, by a reader that does not know zenspark."""
    read = READERS[reader]
    rows = plain(read(lake, "samples"))
    check_offsets(rows)
    check_acknowledged(rows, nodes)
    check_sent(rows, [sent for node in nodes for sent in node.feed.sent])
    lake_tables.assert_equal({name: read(lake, name) for name in ("latest", "gaps", "traffic")}, rows)


def check_offsets(rows: Iterable[Row]) -> None:
    """Each recorder's rows are there once, from the first to the last."""
    offsets: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        offsets[row["recorder"]].append(row["offset"])
    for recorder, found in offsets.items():
        assert sorted(found) == list(range(len(found))), recorder


def check_acknowledged(rows: Iterable[Row], nodes: Iterable[Node]) -> None:
    """What was in a journal when its recorder was killed is in the table."""
    places = {(row["recorder"], row["offset"]): (row["key"], row["payload"]) for row in rows}
    for node in nodes:
        for table in node.acknowledged:
            for row in table.select(["recorder", "offset", "key", "payload"]).to_pylist():
                assert places.get((row["recorder"], row["offset"])) == (row["key"], row["payload"]), row


def check_sent(rows: Iterable[Row], sent: Iterable[tuple[Message, bool]]) -> None:
    """Of each key what was sent, in its order, nothing twice; only messages around a crash may be missing."""
    expected: dict[str, list[tuple[Content, bool]]] = defaultdict(list)
    for message, is_certain in sent:
        kind = "PUT" if message.is_put else "DELETE"
        what = (kind, message.payload, message.encoding, message.attachment, message.priority, message.sn)
        expected[message.key].append((what, is_certain))
    found: dict[str, list[Content]] = defaultdict(list)
    columns = ("kind", "payload", "encoding", "attachment", "priority", "source_sn")
    for row in sorted(rows, key=lambda each: (each["recorder"], each["offset"])):
        if not row["key"].startswith("fence/"):
            found[row["key"]].append(tuple(row[name] for name in columns))
    assert found.keys() <= expected.keys()
    for key, wanted in expected.items():
        if "*" in key:  # published by several sessions, so in no order
            check_counts(key, found[key], wanted)
        else:
            assert is_explained(found[key], wanted), f"{key}: {len(found[key])} rows, {len(wanted)} messages"


def check_counts(key: str, found: Sequence[Content], wanted: Sequence[tuple[Content, bool]]) -> None:
    most = Counter(what for what, _ in wanted)
    least = Counter(what for what, is_certain in wanted if is_certain)
    assert least <= Counter(found) <= most, key


def is_explained(found: Sequence[Content], wanted: Sequence[tuple[Content, bool]]) -> bool:
    """Whether the rows are the messages in their order, without some of those that may be missing."""
    reached = {0}
    for what, is_certain in wanted:
        taken = {place + 1 for place in reached if place < len(found) and found[place] == what}
        reached = taken if is_certain else taken | reached
    return len(found) in reached
