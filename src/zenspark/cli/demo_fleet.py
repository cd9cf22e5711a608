"""A small simulated fleet of robots in a warehouse, for `zenspark demo`.

Runs as `python -m zenspark.cli.demo_fleet ENDPOINT`, in a process connected by TCP like any publisher. Every second it
prints the number of samples published so far on standard output; it ends at end of file on standard input.
"""

from __future__ import annotations

import contextlib
import json
import math
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator

from zenspark.api.ext.serialization import Float32, z_serialize
from zenspark.api.open import open as open_session
from zenspark.api.session import Session
from zenspark.cli.demo_scene import Point, Pose, pose_at, render_camera, render_map
from zenspark.config.config import Config
from zenspark.types.encoding import Encoding
from zenspark.types.enums import CongestionControl
from zenspark.types.ids import SourceInfo
from zenspark.types.query import Query

ROBOTS = ("ant", "bee", "cat")
VISITOR = "visitor"
TICKS_PER_SECOND = 20
PICTURE_INTERVAL_TICKS = 10
BATTERY_INTERVAL_TICKS = 20
VISIT_TICKS = (20, 80)
"""First and last tick of a visitor, whose keys are deleted afterwards."""
TRAIL_POINTS = 60
BATTERY_PERCENT_PER_SECOND = 0.2
RECHARGE_BELOW_PERCENT = 20.0
BATTERY_ENCODING = Encoding.ZENOH_SERIALIZED.with_schema("float32")
"""Encoding with the type as schema, so that every reader can decode the number."""


def battery_at(seconds: float) -> float:
    """Return the charge in percent; a battery that is almost empty is exchanged."""
    return 100.0 - seconds * BATTERY_PERCENT_PER_SECOND % (100.0 - RECHARGE_BELOW_PERCENT)


class Fleet:
    """Robots that drive on their routes and publish pose, camera and battery, and a map of all of them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._trails: dict[str, deque[Point]] = {}
        self.published = 0
        """Number of samples published; also the sequence number of the next one."""

    def tick(self, number: int) -> None:
        """Publish the samples of a tick."""
        seconds = number / TICKS_PER_SECOND
        names = [*ROBOTS, VISITOR] if VISIT_TICKS[0] <= number < VISIT_TICKS[1] else [*ROBOTS]
        poses = {name: pose_at(name, seconds) for name in names}
        for name, pose in poses.items():
            self._trails.setdefault(name, deque(maxlen=TRAIL_POINTS)).append((pose.x, pose.y))
            self._publish_pose(name, pose, number)
            if number % BATTERY_INTERVAL_TICKS == 0:
                level = z_serialize(Float32(battery_at(seconds))).to_bytes()
                self._put(f"{name}/battery", level, BATTERY_ENCODING)
        if number % PICTURE_INTERVAL_TICKS == 0:
            self._publish_pictures(poses)
        if number == VISIT_TICKS[1]:
            source = SourceInfo(self._session.id, self.published)
            self._session.delete(
                f"fleet/{VISITOR}/**",
                congestion_control=CongestionControl.BLOCK,
                timestamp=self._session.new_timestamp(),
                source_info=source,
            )
            self.published += 1
            del self._trails[VISITOR]

    def _publish_pose(self, name: str, pose: Pose, number: int) -> None:
        heading = round(math.degrees(pose.heading))
        document = {"x": round(pose.x, 2), "y": round(pose.y, 2), "heading": heading, "speed": pose.speed}
        self._put(
            f"{name}/pose",
            json.dumps(document).encode(),
            Encoding.APPLICATION_JSON,
            json.dumps({"tick": number}).encode(),
        )

    def _publish_pictures(self, poses: dict[str, Pose]) -> None:
        trails = {name: list(trail) for name, trail in self._trails.items()}
        self._put("map", render_map(poses, trails), Encoding.IMAGE_JPEG)
        for name in poses:
            self._put(f"{name}/camera", render_camera(name, poses, trails), Encoding.IMAGE_JPEG)

    def _put(self, subkey: str, payload: bytes, encoding: Encoding, attachment: bytes | None = None) -> None:
        self._session.put(
            f"fleet/{subkey}",
            payload,
            encoding=encoding,
            attachment=attachment,
            congestion_control=CongestionControl.BLOCK,
            timestamp=self._session.new_timestamp(),
            source_info=SourceInfo(self._session.id, self.published),
        )
        self.published += 1


def reply_diagnosis(query: Query) -> None:
    """Reply to a diagnosis query."""
    with query:
        query.reply(query.key_expr, "all fine", encoding=Encoding.TEXT_PLAIN)


def drive(endpoint: str, stop_event: threading.Event, report: Callable[[int], None] = lambda _: None) -> None:
    """Publish until `stop_event` is set; `report` gets the number of published samples every second and at the end."""
    with _session(endpoint) as session:
        fleet = Fleet(session)
        queryable = session.declare_queryable(f"fleet/{ROBOTS[0]}/diagnosis", reply_diagnosis)
        for number in _ticks(stop_event):
            fleet.tick(number)
            if number % TICKS_PER_SECOND == 0:
                report(fleet.published)
        queryable.undeclare()
    report(fleet.published)


def _ticks(stop_event: threading.Event) -> Iterator[int]:
    number = 0
    while not stop_event.wait(1 / TICKS_PER_SECOND):
        yield number
        number += 1


def _session(endpoint: str) -> Session:
    config = Config.from_json5('{mode: "client", scouting: {multicast: {enabled: false}}}')
    config.insert_json5("connect/endpoints", json.dumps([endpoint]))
    return open_session(config)


def _print_count(count: int) -> None:
    with contextlib.suppress(OSError):  # the reader has ended
        print(count, flush=True)


def main() -> None:
    """Publish until end of file on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process
    stop_event = threading.Event()
    thread = threading.Thread(target=drive, args=(sys.argv[1], stop_event, _print_count))
    thread.start()
    sys.stdin.read()
    stop_event.set()
    thread.join()


if __name__ == "__main__":
    main()
