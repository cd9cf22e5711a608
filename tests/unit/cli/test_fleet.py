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
from zenspark.cli import fleet
from zenspark.types.sample import Sample


@pytest.mark.slow
def test_it_publishes_what_a_fleet_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "TICKS_PER_SECOND", 1000)
    heard: list[Sample] = []
    counts: list[int] = []
    ends = threading.Event()

    def hear(sample: Sample) -> None:
        heard.append(sample)
        if sample.kind is zenspark.SampleKind.DELETE:
            ends.set()

    with zenspark.open(ours(mode="router", listen__endpoints=["tcp/127.0.0.1:0"])) as session:
        subscriber = session.declare_subscriber("fleet/**", hear)
        driving = threading.Thread(target=fleet.drive, args=(session.info.locators()[0], ends, counts.append))
        driving.start()
        (reply,) = _asked(session)
        assert reply == "all fine"
        driving.join(60)
        subscriber.undeclare()
    assert {str(sample.key_expr) for sample in heard} == {
        f"fleet/{name}/{what}" for name in (*fleet.ROBOTS, "visitor") for what in ("pose", "battery", "camera")
    } | {"fleet/visitor/**", "fleet/map"}
    # every sample has a source and a number, without a gap: what was lost or doubled can be counted
    assert [some(sample.source_info).source_sn for sample in heard] == list(range(len(heard)))
    assert counts[-1] == len(heard)
    assert all(sample.timestamp is not None for sample in heard)
    check_values(heard)


def check_values(heard: list[Sample]) -> None:
    for sample in heard:
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


def _asked(session: zenspark.Session) -> list[str]:
    """What the robot answers, once it is there."""
    for _ in range(100):
        found = [some(reply.ok).payload.to_string() for reply in session.get("fleet/ant/diagnosis", timeout=10)]
        if found:
            return found
        threading.Event().wait(0.05)
    return []


@pytest.mark.slow
def test_it_ends_when_its_input_does_and_says_how_many_it_published() -> None:
    with zenspark.open(ours(mode="router", listen__endpoints=["tcp/127.0.0.1:0"])) as session:
        command = [sys.executable, "-m", "zenspark.cli.fleet", session.info.locators()[0]]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0
    assert int(ended.stdout.split()[-1]) >= 0


def test_a_battery_is_exchanged_before_it_is_empty() -> None:
    assert fleet.battery_at(0.0) == 100.0
    assert fleet.battery_at(100.0) == 80.0
    assert all(fleet.battery_at(float(seconds)) > fleet.RECHARGE_BELOW_PERCENT - 0.001 for seconds in range(2000))
