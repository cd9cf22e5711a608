"""A small simulated fleet of robots, for `zenspark up --demo`.

Runs as `python -m zenspark.cli.fleet ENDPOINT`, in a process connected by TCP like any publisher. It ends at end of
file on standard input.
"""

from __future__ import annotations

import json
import math
import random
import signal
import sys
import threading
from collections.abc import Iterator

from zenspark.api.ext.serialization import Float32, z_serialize
from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.config.config import Config
from zenspark.types.encoding import Encoding
from zenspark.types.ids import SourceInfo
from zenspark.types.query import Query

ROBOTS = ("ant", "bee", "cat")
TICKS_PER_SECOND = 20
CAMERA_INTERVAL_TICKS = 10
BATTERY_INTERVAL_TICKS = 20
VISIT_TICKS = (20, 80)
"""First and last tick of a visitor, whose keys are deleted afterwards."""
PICTURE_BYTES = 4096


class Robot:
    """A robot that drives in circles and publishes pose, camera and battery."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._random = random.Random(name)
        self._name = name
        self._radius = self._random.uniform(2, 5)
        self._sn = 0

    def tick(self, number: int) -> None:
        """Publish the samples of a tick."""
        angle = number / TICKS_PER_SECOND / self._radius
        pose = {"x": round(self._radius * math.cos(angle), 3), "y": round(self._radius * math.sin(angle), 3)}
        self._put("pose", json.dumps(pose).encode(), Encoding.APPLICATION_JSON, json.dumps({"tick": number}).encode())
        if number % CAMERA_INTERVAL_TICKS == 0:
            self._put("camera", self._random.randbytes(PICTURE_BYTES), Encoding.IMAGE_JPEG)
        if number % BATTERY_INTERVAL_TICKS == 0:
            level = z_serialize(Float32(100 - number / TICKS_PER_SECOND / 60)).to_bytes()
            self._put("battery", level, Encoding.ZENOH_SERIALIZED)

    def _put(self, what: str, payload: bytes, encoding: Encoding, attachment: bytes | None = None) -> None:
        source = SourceInfo(self._session.id, self._sn)
        self._sn += 1
        self._session.put(
            f"fleet/{self._name}/{what}",
            payload,
            encoding=encoding,
            attachment=attachment,
            timestamp=self._session.new_timestamp(),
            source_info=source,
        )

    def diagnose(self, query: Query) -> None:
        """Reply to a diagnosis query."""
        with query:
            query.reply(f"fleet/{self._name}/diagnosis", "all fine", encoding=Encoding.TEXT_PLAIN)


def drive(endpoint: str, ends: threading.Event) -> None:
    """Publish until `ends` is set."""
    with _session(endpoint) as session:
        robots = [Robot(session, name) for name in ROBOTS]
        visitor = Robot(session, "visitor")
        queryable = session.declare_queryable(f"fleet/{ROBOTS[0]}/diagnosis", robots[0].diagnose)
        for number in _ticks(ends):
            for robot in robots:
                robot.tick(number)
            if VISIT_TICKS[0] <= number < VISIT_TICKS[1]:
                visitor.tick(number)
            elif number == VISIT_TICKS[1]:
                session.delete("fleet/visitor/**", timestamp=session.new_timestamp())
        queryable.undeclare()


def _ticks(ends: threading.Event) -> Iterator[int]:
    number = 0
    while not ends.wait(1 / TICKS_PER_SECOND):
        yield number
        number += 1


def _session(endpoint: str) -> Session:
    config = Config.from_json5('{mode: "client", scouting: {multicast: {enabled: false}}}')
    config.insert_json5("connect/endpoints", json.dumps([endpoint]))
    return open_session(config)


def main() -> None:
    """Publish until end of file on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process
    ends = threading.Event()
    driving = threading.Thread(target=drive, args=(sys.argv[1], ends))
    driving.start()
    sys.stdin.read()
    ends.set()
    driving.join()


if __name__ == "__main__":
    main()
