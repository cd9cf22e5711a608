"""Record batches to and from eclipse-zenoh: every column, every size, directly and through a router of theirs."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import zenspark
from tests.ports import free_port
from tests.wait import TIMEOUT_SECONDS, until

zenoh = pytest.importorskip("zenoh")

pytestmark = pytest.mark.interop

ROWS = 200_000
AT_ONCE = 20_000
"""Their router closes a link that stands still for 5 s, as it may on a busy machine with more."""
SIZES = [0, 1, 127, 128, 1024, 65_000, 65_535, 65_536, 100_000, 1 << 20]

Theirs = Any
"""eclipse-zenoh has no types that could be checked here."""


def free_locator() -> str:
    return f"tcp/127.0.0.1:{free_port()}"


def start(api: Any, mode: str, listen: str | None = None, connect: str | None = None) -> Any:  # noqa: ANN401
    config = api.Config()
    settings = {
        "mode": mode,
        "listen/endpoints": [listen] if listen else [],
        "connect/endpoints": [connect] if connect else [],
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
    }
    for name, value in settings.items():
        config.insert_json5(name, json.dumps(value))
    return api.open(config)


@pytest.fixture(params=["directly", "through their router"])
def both(request: pytest.FixtureRequest) -> Iterator[tuple[zenspark.Session, Theirs]]:
    """A session of ours and one of theirs."""
    locator = free_locator()
    if request.param == "directly":
        with start(zenoh, "peer", listen=locator) as theirs, start(zenspark, "peer", connect=locator) as ours:
            yield ours, theirs
    else:
        with (
            start(zenoh, "router", listen=locator),
            start(zenoh, "client", connect=locator) as theirs,
            start(zenspark, "client", connect=locator) as ours,
        ):
            yield ours, theirs


class ReceivedSamples:
    """The samples that a subscriber of eclipse-zenoh receives, which matches our publisher."""

    def __init__(self, theirs: Theirs, ours: zenspark.Session, key: str = "k/**") -> None:
        self._samples: queue.Queue[Theirs] = queue.Queue()
        self._subscriber = theirs.declare_subscriber(key, self._samples.put)
        publisher = ours.declare_publisher(key.replace("**", "known"))
        until(lambda: publisher.matching_status.matching)
        publisher.undeclare()

    def next(self, count: int) -> list[Theirs]:
        return [self._samples.get(timeout=TIMEOUT_SECONDS) for _ in range(count)]


def declare_batch_subscriber(ours: zenspark.Session, theirs: Theirs, key: str = "k/**") -> Any:  # noqa: ANN401
    """A subscriber of ours, which theirs know of."""
    subscriber = ours.declare_subscriber(key, zenspark.ArrowBatches())
    publisher = theirs.declare_publisher(key.replace("**", "known"))
    until(lambda: publisher.matching_status.matching)
    publisher.undeclare()
    return subscriber


def received(subscriber: Any, rows: int) -> pa.Table:  # noqa: ANN401
    found: list[pa.RecordBatch] = []
    while sum(one.num_rows for one in found) < rows:
        found.append(subscriber.recv(timeout=TIMEOUT_SECONDS))
    return pa.Table.from_batches(found)


FULL: dict[str, list[Any]] = {
    "key": ["k/a", "k/b", "k/ä/c"],
    "kind": ["PUT", "DELETE", "PUT"],
    "payload": [b"one", None, b""],
    "encoding": ["text/plain;utf-8", None, "application/json"],
    "timestamp_ntp64": [7386664595088445305, None, 7386664595088445306],
    "timestamp_id": ["abc", None, "def0"],
    "attachment": [b"", b"why", None],
    "source_zid": ["f1", None, "e2"],
    "source_eid": [1, None, 2**32 - 1],
    "source_sn": [2, None, 2**32 - 1],
    "priority": ["REAL_TIME", "DATA", "BACKGROUND"],
    "congestion": ["BLOCK", "DROP", "BLOCK"],
    "express": [True, False, False],
    "reliable": [True, True, True],
}


def test_eclipse_zenoh_receives_all_columns_of_put_batch(both: tuple[zenspark.Session, Theirs]) -> None:
    ours, theirs = both
    received_samples = ReceivedSamples(theirs, ours)
    assert ours.put_batch(pa.record_batch(FULL)) == 0
    found = {str(sample.key_expr): sample for sample in received_samples.next(3)}
    one, two, three = (found[key] for key in FULL["key"])
    assert [sample.payload.to_bytes() for sample in (one, two, three)] == [b"one", b"", b""]
    assert [str(sample.kind).rpartition(".")[2] for sample in (one, two, three)] == FULL["kind"]
    assert (str(one.encoding), str(three.encoding)) == ("text/plain;utf-8", "application/json")
    assert [str(sample.timestamp).rpartition("/")[2] for sample in (one, three)] == ["abc", "def0"]
    assert one.attachment.to_bytes() == b""
    assert two.attachment.to_bytes() == b"why"
    assert three.attachment is None
    assert [str(sample.source_info.source_id.zid) for sample in (one, three)] == ["f1", "e2"]
    assert [sample.source_info.source_id.eid for sample in (one, three)] == [1, 2**32 - 1]
    assert [sample.source_info.source_sn for sample in (one, three)] == [2, 2**32 - 1]
    assert [sample.priority for sample in (one, two, three)] == [
        zenoh.Priority.REAL_TIME,
        zenoh.Priority.DATA,
        zenoh.Priority.BACKGROUND,
    ]
    assert one.congestion_control == zenoh.CongestionControl.BLOCK
    assert two.congestion_control == zenoh.CongestionControl.DROP
    assert [sample.express for sample in (one, two, three)] == FULL["express"]


def test_eclipse_zenoh_receives_put_batch_of_a_publisher(both: tuple[zenspark.Session, Theirs]) -> None:
    ours, theirs = both
    received_samples = ReceivedSamples(theirs, ours)
    publisher = ours.declare_publisher(
        "k/p",
        encoding="text/plain",
        priority=zenspark.Priority.DATA_HIGH,
        congestion_control=zenspark.CongestionControl.BLOCK,  # their router drops express messages readily
        express=True,
    )
    assert publisher.put_batch(pa.record_batch({"payload": [b"%d" % n for n in range(100)]})) == 0
    found = received_samples.next(100)
    assert [sample.payload.to_bytes() for sample in found] == [b"%d" % n for n in range(100)]
    assert {(str(one.key_expr), str(one.encoding), one.express) for one in found} == {("k/p", "text/plain", True)}
    assert all(one.priority == zenoh.Priority.DATA_HIGH for one in found)


def test_payloads_of_all_sizes_arrive_whole_and_in_order(both: tuple[zenspark.Session, Theirs]) -> None:
    ours, theirs = both
    received_samples = ReceivedSamples(theirs, ours)
    sent = [bytes([number + 1]) * size for number, size in enumerate(SIZES + SIZES[::-1])]
    batch = pa.record_batch({"key": [f"k/{n % 3}" for n in range(len(sent))], "payload": sent})
    assert ours.put_batch(batch, congestion_control=zenspark.CongestionControl.BLOCK) == 0
    assert [sample.payload.to_bytes() for sample in received_samples.next(len(sent))] == sent


def test_very_many_rows_arrive_in_order(both: tuple[zenspark.Session, Theirs]) -> None:
    ours, theirs = both
    received_samples = ReceivedSamples(theirs, ours)
    payloads = pa.array([number.to_bytes(4, "little") for number in range(ROWS)], pa.binary())
    batch = pa.record_batch({"key": pa.array(["k/a", "k/b"]).take(pa.array([0, 1] * (ROWS // 2))), "payload": payloads})
    for start_row in range(0, ROWS, AT_ONCE):
        part = batch[start_row : start_row + AT_ONCE]
        assert ours.put_batch(part, congestion_control=zenspark.CongestionControl.BLOCK) == 0
        numbers = [int.from_bytes(sample.payload.to_bytes(), "little") for sample in received_samples.next(AT_ONCE)]
        assert numbers == list(range(start_row, start_row + AT_ONCE))


def test_arrow_subscriber_receives_eclipse_zenoh_samples(both: tuple[zenspark.Session, Theirs]) -> None:
    ours, theirs = both
    subscriber = declare_batch_subscriber(ours, theirs)
    sent = [bytes([number + 1]) * size for number, size in enumerate(SIZES)]
    for payload in sent:
        theirs.put("k/x", payload, congestion_control=zenoh.CongestionControl.BLOCK)
    theirs.put(
        "k/y",
        b"full",
        encoding="text/plain;utf-8",
        attachment=b"more",
        priority=zenoh.Priority.REAL_TIME,
        congestion_control=zenoh.CongestionControl.BLOCK,
        express=True,
        timestamp=theirs.new_timestamp(),
    )
    theirs.delete("k/x", congestion_control=zenoh.CongestionControl.BLOCK)
    rows = received(subscriber, len(sent) + 2).to_pylist()
    assert [row["payload"] for row in rows if row["key"] == "k/x"] == [*sent, None]
    (full,) = (row for row in rows if row["key"] == "k/y")
    assert (full["payload"], full["encoding"], full["attachment"]) == (b"full", "text/plain;utf-8", b"more")
    assert (full["priority"], full["congestion"], full["express"]) == ("REAL_TIME", "BLOCK", True)
    assert full["timestamp_id"] == str(theirs.zid())
    assert {row["kind"] for row in rows if row["payload"] is None} == {"DELETE"}


def test_received_batch_is_republished_unchanged(both: tuple[zenspark.Session, Theirs]) -> None:
    ours, theirs = both
    subscriber = declare_batch_subscriber(ours, theirs)
    block = zenoh.CongestionControl.BLOCK  # on a busy machine others may be dropped, also by their router
    for size in (8, 100_000):
        theirs.put(
            "k/x",
            bytes(size),
            encoding="text/plain",
            attachment=b"a",
            timestamp=theirs.new_timestamp(),
            congestion_control=block,
        )
    theirs.delete("k/x", attachment=b"b", congestion_control=block)
    first = received(subscriber, 3)
    subscriber.undeclare()
    received_samples = ReceivedSamples(theirs, ours)
    again = ours.declare_subscriber("k/**", zenspark.ArrowBatches())
    ours.put_batch(first)
    found = received_samples.next(3)
    assert [sample.payload.to_bytes() for sample in found] == [bytes(8), bytes(100_000), b""]
    assert [sample.attachment.to_bytes() for sample in found] == [b"a", b"a", b"b"]
    same = received(again, 3).drop(["received_at", "via"])
    assert same.to_pylist() == first.drop(["received_at", "via"]).to_pylist()
