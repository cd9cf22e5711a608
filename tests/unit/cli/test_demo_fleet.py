from __future__ import annotations

import io
import json
import subprocess
import sys
import threading

import pytest
from PIL import Image

import zenspark
from tests.interop.reference import ours
from tests.optional import some
from zenspark.api.ext.serialization import Float32, z_deserialize
from zenspark.cli import demo_fleet
from zenspark.types.sample import Sample


@pytest.mark.slow
def test_fleet_publishes_numbered_samples_of_every_robot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_fleet, "TICKS_PER_SECOND", 1000)
    received: list[Sample] = []
    counts: list[int] = []
    ends = threading.Event()

    def on_sample(sample: Sample) -> None:
        received.append(sample)
        if sample.kind is zenspark.SampleKind.DELETE:
            ends.set()

    with zenspark.open(ours(mode="router", listen__endpoints=["tcp/127.0.0.1:0"])) as session:
        subscriber = session.declare_subscriber("fleet/**", on_sample)
        driving = threading.Thread(target=demo_fleet.drive, args=(session.info.locators()[0], ends, counts.append))
        driving.start()
        (reply,) = _query_robot(session)
        assert reply == "all fine"
        driving.join(60)
        subscriber.undeclare()
    assert {str(sample.key_expr) for sample in received} == {
        f"fleet/{name}/{what}" for name in (*demo_fleet.ROBOTS, "visitor") for what in ("pose", "battery", "camera")
    } | {"fleet/visitor/**", "fleet/map"}
    # every sample has a source and a number, without a gap: what was lost or duplicated can be counted
    assert [some(sample.source_info).source_sn for sample in received] == list(range(len(received)))
    assert counts[-1] == len(received)
    assert all(sample.timestamp is not None for sample in received)
    check_values(received)


def check_values(received: list[Sample]) -> None:
    for sample in received:
        match str(sample.encoding), sample.payload.to_bytes():
            case "application/json", payload:
                assert set(json.loads(payload)) == {"x", "y", "heading", "speed"}
                assert sample.attachment is not None
            case "image/jpeg", payload:
                with Image.open(io.BytesIO(payload)) as picture:
                    assert picture.format == "JPEG"
            case "zenoh/serialized;float32", _:
                assert 20 <= z_deserialize(Float32, sample.payload) <= 100
            case _:
                assert sample.kind is zenspark.SampleKind.DELETE


def _query_robot(session: zenspark.Session) -> list[str]:
    """The reply of the robot, once its queryable matches."""
    for _ in range(100):
        found = [some(reply.ok).payload.to_string() for reply in session.get("fleet/ant/diagnosis", timeout=10)]
        if found:
            return found
        threading.Event().wait(0.05)
    return []


@pytest.mark.slow
def test_fleet_process_ends_at_end_of_input_and_prints_its_count() -> None:
    with zenspark.open(ours(mode="router", listen__endpoints=["tcp/127.0.0.1:0"])) as session:
        command = [sys.executable, "-m", "zenspark.cli.demo_fleet", session.info.locators()[0]]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0
    assert int(ended.stdout.split()[-1]) >= 0


def test_a_battery_is_exchanged_before_it_is_empty() -> None:
    assert demo_fleet.battery_at(0.0) == 100.0
    assert demo_fleet.battery_at(100.0) == 80.0
    lowest = min(demo_fleet.battery_at(float(seconds)) for seconds in range(2000))
    assert lowest > demo_fleet.RECHARGE_BELOW_PERCENT - 0.001
