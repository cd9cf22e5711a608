"""Publishers of these tests: an eclipse-zenoh client with values of every encoding that the page shows."""

from __future__ import annotations

import contextlib
import json
import math
import struct
import threading
import zlib
from types import TracebackType
from typing import Self

import zenoh

INTERVAL_SECONDS = 0.1
PICTURE_SIZE = 96


def eclipse_session(endpoint: str, mode: str = "client") -> zenoh.Session:
    """Open a session of eclipse-zenoh, connected to one endpoint."""
    config = zenoh.Config()
    config.insert_json5("mode", json.dumps(mode))
    config.insert_json5("connect/endpoints", json.dumps([endpoint]))
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("timestamping/enabled", "true")
    return zenoh.open(config)


def picture(step: int) -> bytes:
    """Return a PNG file: a ball that moves over a plane."""
    rows = bytearray()
    angle = step / 12
    x, y = (PICTURE_SIZE / 2 + PICTURE_SIZE / 3 * turn(angle) for turn in (math.cos, math.sin))
    for row in range(PICTURE_SIZE):
        rows.append(0)  # no filter
        for column in range(PICTURE_SIZE):
            inside = (column - x) ** 2 + (row - y) ** 2 < 90
            rows += bytes((230, 120, 40) if inside else (40 + row, 90 + column // 2, 120))
    header = struct.pack(">IIBBBBB", PICTURE_SIZE, PICTURE_SIZE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


class Robots:
    """Publishes poses (JSON), batteries (text of numbers), states (text), pictures and bytes until closed."""

    names = ("ant", "bee", "cat")

    def __init__(self, endpoint: str) -> None:
        self._stack = contextlib.ExitStack()
        self._session = self._stack.enter_context(eclipse_session(endpoint))
        self._ends = threading.Event()
        self._queryable = self._session.declare_queryable("fleet/ant/diagnosis", self._diagnose)
        self._token = self._session.liveliness().declare_token("fleet/ant/alive")
        self._thread = threading.Thread(target=self._publish, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop, and leave the network."""
        self._ends.set()
        self._thread.join()
        self._stack.close()

    def _diagnose(self, query: zenoh.Query) -> None:
        with query:
            query.reply("fleet/ant/diagnosis", "all fine", encoding=zenoh.Encoding.TEXT_PLAIN)

    def _publish(self) -> None:
        step = 0
        while not self._ends.wait(INTERVAL_SECONDS):
            for number, name in enumerate(self.names):
                self._publish_robot(f"fleet/{name}", step, number)
            step += 1

    def _publish_robot(self, prefix: str, step: int, number: int) -> None:
        put = self._session.put
        angle = step / 20 + number
        pose = {
            "position": {"x": round(4 * math.cos(angle), 3), "y": round(4 * math.sin(angle), 3)},
            "heading": round(math.degrees(angle) % 360, 1),
            "moving": step % 100 > 10,
        }
        put(f"{prefix}/pose", json.dumps(pose), encoding=zenoh.Encoding.APPLICATION_JSON)
        if step % 10 == number:
            put(f"{prefix}/battery", f"{97 - number * 9 - step / 600:.2f}", encoding=zenoh.Encoding.TEXT_PLAIN)
            put(f"{prefix}/camera/front", picture(step), encoding=zenoh.Encoding.IMAGE_PNG)
        if step % 20 == number:
            put(f"{prefix}/state", "driving" if step % 100 > 10 else "waiting", encoding=zenoh.Encoding.TEXT_PLAIN)
            put(
                f"{prefix}/lidar",
                bytes((step + each) % 256 for each in range(600)),
                encoding=zenoh.Encoding.ZENOH_BYTES,
            )
