"""The scene of the demo: a warehouse, the routes of its robots, and pictures of it as JPEG."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw

Point = tuple[float, float]
Colour = tuple[int, int, int]
Box = tuple[float, float, float, float]

WIDTH, HEIGHT = 24.0, 16.0
"""Size of the warehouse in metres."""
SHELVES: tuple[Box, ...] = tuple(
    (left, bottom, left + 7.0, bottom + 2.0) for bottom in (3.0, 7.0, 11.0) for left in (4.0, 13.0)
)
CHARGER: Box = (0.3, 0.3, 1.7, 2.2)
ROUTES: dict[str, tuple[Point, ...]] = {
    "ant": ((3.0, 2.0), (12.0, 2.0), (12.0, 6.0), (3.0, 6.0)),
    "bee": ((12.0, 6.0), (21.0, 6.0), (21.0, 10.0), (12.0, 10.0)),
    "cat": ((2.0, 1.2), (22.5, 1.2), (22.5, 14.8), (2.0, 14.8)),
    "visitor": ((3.0, 10.0), (12.0, 10.0), (12.0, 14.0), (3.0, 14.0)),
}
"""Closed routes between the shelves, by robot."""
SPEEDS_METRES_PER_SECOND = {"ant": 0.9, "bee": 1.2, "cat": 1.6, "visitor": 0.7}
"""Metres per second, by robot."""
ROBOT_COLOURS: dict[str, Colour] = {
    "ant": (214, 69, 65),
    "bee": (230, 168, 23),
    "cat": (52, 120, 190),
    "visitor": (120, 94, 170),
}
FLOOR: Colour = (236, 236, 230)
GRID: Colour = (218, 218, 210)
SHELF: Colour = (150, 126, 100)
DOCK: Colour = (126, 176, 120)
INK: Colour = (40, 40, 40)

MAP_PIXELS_PER_METRE = 20.0
CAMERA_SIZE = (320, 240)
"""Width and height of the picture of a camera in pixels."""
CAMERA_PIXELS_PER_METRE = 48.0
ROBOT_RADIUS_METRES = 0.45
"""Radius of a drawn robot in metres."""
JPEG_QUALITY = 75


class Pose(NamedTuple):
    """Position in metres, heading in radians (0 is along x) and speed in metres per second."""

    x: float
    y: float
    heading: float
    speed: float


def pose_at(name: str, seconds: float) -> Pose:
    """Return the pose of a robot `seconds` after its start."""
    route, speed = ROUTES[name], SPEEDS_METRES_PER_SECOND[name]
    legs = list(zip(route, route[1:] + route[:1], strict=True))
    distance = speed * seconds % sum(math.dist(start, end) for start, end in legs)
    for start, end in legs:
        length = math.dist(start, end)
        if distance <= length:
            fraction = distance / length
            heading = math.atan2(end[1] - start[1], end[0] - start[0])
            x, y = (start[axis] + fraction * (end[axis] - start[axis]) for axis in (0, 1))
            return Pose(x, y, heading, speed)
        distance -= length
    return Pose(*route[0], 0.0, speed)


def render_map(poses: Mapping[str, Pose], trails: Mapping[str, Sequence[Point]]) -> bytes:
    """Draw the whole warehouse from above; `trails` are the last positions of each robot."""
    size = (round(WIDTH * MAP_PIXELS_PER_METRE), round(HEIGHT * MAP_PIXELS_PER_METRE))
    return _View(size, (WIDTH / 2, HEIGHT / 2), MAP_PIXELS_PER_METRE).draw(poses, trails)


def render_camera(name: str, poses: Mapping[str, Pose], trails: Mapping[str, Sequence[Point]]) -> bytes:
    """Draw the surroundings of one robot from above."""
    pose = poses[name]
    return _View(CAMERA_SIZE, (pose.x, pose.y), CAMERA_PIXELS_PER_METRE).draw(poses, trails)


class _View:
    """A picture of a part of the warehouse."""

    def __init__(self, size: tuple[int, int], centre: Point, scale: float) -> None:
        self._image = Image.new("RGB", size, FLOOR)
        self._drawing = ImageDraw.Draw(self._image)
        self._size, self._centre, self._scale = size, centre, scale

    def draw(self, poses: Mapping[str, Pose], trails: Mapping[str, Sequence[Point]]) -> bytes:
        """Draw everything. Returns the JPEG."""
        self._draw_floor()
        for name, trail in trails.items():
            if len(trail) > 1:
                self._drawing.line([self._pixel(point) for point in trail], fill=ROBOT_COLOURS[name], width=2)
        for name, pose in poses.items():
            self._draw_robot(name, pose)
        file = io.BytesIO()
        self._image.save(file, "JPEG", quality=JPEG_QUALITY)
        return file.getvalue()

    def _draw_floor(self) -> None:
        for x in range(int(WIDTH) + 1):
            self._drawing.line([self._pixel((x, 0)), self._pixel((x, HEIGHT))], fill=GRID)
        for y in range(int(HEIGHT) + 1):
            self._drawing.line([self._pixel((0, y)), self._pixel((WIDTH, y))], fill=GRID)
        self._draw_box((0.0, 0.0, WIDTH, HEIGHT), None)
        for box in SHELVES:
            self._draw_box(box, SHELF)
        self._draw_box(CHARGER, DOCK)

    def _draw_box(self, box: Box, fill: Colour | None) -> None:
        left, bottom, right, top = box
        corners = (*self._pixel((left, top)), *self._pixel((right, bottom)))
        self._drawing.rectangle(corners, fill=fill, outline=INK)

    def _draw_robot(self, name: str, pose: Pose) -> None:
        x, y = self._pixel((pose.x, pose.y))
        radius = ROBOT_RADIUS_METRES * self._scale
        self._drawing.ellipse((x - radius, y - radius, x + radius, y + radius), fill=ROBOT_COLOURS[name], outline=INK)
        nose = (x + radius * math.cos(pose.heading), y - radius * math.sin(pose.heading))
        self._drawing.line([(x, y), nose], fill=INK, width=2)
        self._drawing.text((x + radius + 2, y - radius), name, fill=INK)

    def _pixel(self, point: Point) -> Point:
        """Return the pixel of a point; y grows upwards in the warehouse and downwards in a picture."""
        x = self._size[0] / 2 + (point[0] - self._centre[0]) * self._scale
        y = self._size[1] / 2 - (point[1] - self._centre[1]) * self._scale
        return x, y
