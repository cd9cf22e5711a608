from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import zenspark
from tests.interop.reference import ours
from tests.optional import some
from zenspark.cli import fleet
from zenspark.types.sample import Sample


def test_it_publishes_what_a_fleet_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "TICKS_PER_SECOND", 1000)
    heard: list[Sample] = []
    ends = threading.Event()

    def hear(sample: Sample) -> None:
        heard.append(sample)
        if sample.kind is zenspark.SampleKind.DELETE:
            ends.set()

    with zenspark.open(ours(mode="router", listen__endpoints=["tcp/127.0.0.1:0"])) as session:
        subscriber = session.declare_subscriber("fleet/**", hear)
        driving = threading.Thread(target=fleet.drive, args=(session.info.locators()[0], ends))
        driving.start()
        (reply,) = _asked(session)
        assert reply == "all fine"
        driving.join(60)
        subscriber.undeclare()
    assert {str(sample.key_expr) for sample in heard} == {
        f"fleet/{name}/{what}" for name in (*fleet.ROBOTS, "visitor") for what in ("pose", "battery", "camera")
    } | {"fleet/visitor/**"}
    poses = [sample for sample in heard if str(sample.key_expr) == "fleet/ant/pose"]
    assert all(sample.timestamp is not None and sample.attachment is not None for sample in poses)
    assert all(sample.source_info is not None for sample in poses)
    assert {str(sample.encoding) for sample in heard if sample.kind is zenspark.SampleKind.PUT} == {
        "application/json",
        "image/jpeg",
        "zenoh/serialized",
    }


def _asked(session: zenspark.Session) -> list[str]:
    """What the robot answers, once it is there."""
    for _ in range(100):
        found = [some(reply.ok).payload.to_string() for reply in session.get("fleet/ant/diagnosis", timeout=10)]
        if found:
            return found
        threading.Event().wait(0.05)
    return []


def test_it_ends_when_its_input_does() -> None:
    with zenspark.open(ours(mode="router", listen__endpoints=["tcp/127.0.0.1:0"])) as session:
        command = [sys.executable, "-m", "zenspark.cli.fleet", session.info.locators()[0]]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert ended.returncode == 0
