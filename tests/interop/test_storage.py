"""What eclipse-zenoh's own client gets from a storage: newest values, wildcards, ranges of time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import zenspark
from tests.interop.reference import ours, unused
from zenspark.arrow import SCHEMA
from zenspark.journal import JournalWriter
from zenspark.storage import Storage

pytestmark = pytest.mark.interop

CLIENT = """
import json, sys, zenoh
config = zenoh.Config()
for key, value in json.loads(sys.argv[1]).items():
    config.insert_json5(key, json.dumps(value))
session = zenoh.open(config)
def to_document(reply):
    if reply.err is not None:
        return {"error": reply.err.payload.to_string()}
    sample = reply.ok
    return {
        "key": str(sample.key_expr), "kind": str(sample.kind).split(".")[-1], "payload": sample.payload.to_string(),
        "encoding": str(sample.encoding),
        "timestamp": None if sample.timestamp is None else str(sample.timestamp),
        "attachment": None if sample.attachment is None else sample.attachment.to_string(),
    }
print("open", flush=True)
for line in sys.stdin:
    print(json.dumps([to_document(reply) for reply in session.get(line.strip(), timeout=10)]), flush=True)
session.close()
"""
START = 1_700_000_000
"""When the first sample was made."""


class Client:
    """A process that queries."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def get(self, selector: str) -> list[dict[str, Any]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(selector + "\n")
        self.process.stdin.flush()
        found: list[dict[str, Any]] = json.loads(self.process.stdout.readline())
        return found

    def payloads(self, selector: str) -> list[str]:
        return [reply["payload"] for reply in self.get(selector)]


def rows(made: list[tuple[str, str | None, float | None]]) -> pa.RecordBatch:
    """Samples made so many seconds after the start; without payload they delete, without second they have no stamp."""
    samples = []
    for at, (key, payload, second) in enumerate(made):
        sample: dict[str, Any] = {"key": key, "kind": "DELETE" if payload is None else "PUT"}
        if payload is not None:
            sample |= {"payload": payload.encode(), "encoding": "text/plain;x", "attachment": b"%d" % at}
        if second is not None:
            micros = int((START + second) * 1e6)
            sample |= {"timestamp": micros, "timestamp_ntp64": int((START + second) * (1 << 32)), "timestamp_id": "a1"}
        samples.append(sample | {"received_at": int((START + 100 if second is None else START + second + 0.5) * 1e6)})
    return pa.RecordBatch.from_pylist(samples, schema=SCHEMA)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[JournalWriter, Storage, Client]]:
    endpoint = unused()
    config = ours(mode="router", listen__endpoints=[endpoint], adminspace__enabled=True, id="5")
    settings = {
        "mode": "client",
        "connect/endpoints": [endpoint],
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
    }
    with (
        JournalWriter(tmp_path / "journal") as writer,
        zenspark.open(config) as session,
        Storage(session, "**", None, [tmp_path / "journal"]) as storage,
        subprocess.Popen(
            [sys.executable, "-c", CLIENT, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield writer, storage, Client(process)
        finally:
            process.kill()


def test_eclipse_zenoh_client_gets_latest_values_and_history(served: tuple[JournalWriter, Storage, Client]) -> None:
    writer, storage, client = served
    writer.append(
        rows(
            [
                ("a/1", "one", 1),
                ("a/1", "two", 2),
                ("a/2", "x", 2),
                ("a/1", "late", 1.5),
                ("a/3", "y", 3),
                ("a/3", None, None),
            ]
        )
    )
    writer.flush()
    assert storage.caught_up()
    (newest,) = client.get("a/1")
    assert newest == {
        "key": "a/1",
        "kind": "PUT",
        "payload": "two",
        "encoding": "text/plain;x",
        "timestamp": f"{(START + 2) << 32}/a1",
        "attachment": "1",
    }
    assert client.get("a/3") == []
    assert sorted(client.payloads("a/*")) == ["two", "x"]
    assert client.payloads("**/2") == ["x"]
    past = client.get("a/1?_time=[2023-11-14T22:13:21Z..2023-11-14T22:13:22Z]")
    assert [(each["payload"], each["attachment"]) for each in past] == [("one", "0"), ("late", "3"), ("two", "1")]
    assert client.payloads("a/1?_time=]2023-11-14T22:13:21Z..2023-11-14T22:13:22Z[") == ["late"]
    assert client.payloads("a/*?_time=[..];_limit=1") == ["two", "x", ""]
    assert [each["kind"] for each in client.get("a/3?_time=[..]")] == ["PUT", "DELETE"]
    assert client.payloads("a/**?_time=[now(-1h)..]") == []
    assert client.get("a/1?_time=[yesterday..]")[0]["error"].startswith("expected a time")
    assert client.get("a/1?_time=[..];_limit=x")[0]["error"].startswith("_limit: expected")


def test_rows_recorded_while_storage_runs_are_in_replies(served: tuple[JournalWriter, Storage, Client]) -> None:
    writer, storage, client = served
    for second in range(1, 6):
        writer.append(rows([("k", f"v{second}", second), (f"k/{second}", "x", second)]))
        writer.flush()
        assert storage.caught_up()
        assert client.payloads("k") == [f"v{second}"]
        assert len(client.get("k/*")) == second
    writer.append(rows([("k/**", None, 9)]))
    writer.flush()
    assert storage.caught_up()
    assert client.get("**") == []
    assert len(client.get("**?_time=[..]")) == 11


def test_now_is_the_time_of_the_query(served: tuple[JournalWriter, Storage, Client]) -> None:
    writer, storage, client = served
    ago = time.time() - START
    writer.append(rows([("k", "hour", ago - 3600), ("k", "minute", ago - 60), ("k", "now", ago)]))
    writer.flush()
    assert storage.caught_up()
    assert client.payloads("k?_time=[now(-2m)..]") == ["minute", "now"]
    assert client.payloads("k?_time=[..now(-30m)]") == ["hour"]
