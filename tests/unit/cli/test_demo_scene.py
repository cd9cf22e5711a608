from __future__ import annotations

import io

import pytest
from PIL import Image

from zenspark.cli.demo_scene import (
    CAMERA_SIZE,
    HEIGHT,
    MAP_PIXELS_PER_METRE,
    ROBOT_COLOURS,
    ROUTES,
    SHELVES,
    SPEEDS_METRES_PER_SECOND,
    WIDTH,
    pose_at,
    render_camera,
    render_map,
)


@pytest.mark.parametrize("name", ROUTES)
def test_a_robot_stays_in_the_warehouse_and_out_of_the_shelves(name: str) -> None:
    for tenths in range(0, 1200, 3):
        pose = pose_at(name, tenths / 10)
        assert 0 < pose.x < WIDTH
        assert 0 < pose.y < HEIGHT
        for left, bottom, right, top in SHELVES:
            assert not (left < pose.x < right and bottom < pose.y < top)


def test_a_robot_drives_at_its_speed() -> None:
    first, second = pose_at("ant", 1.0), pose_at("ant", 2.0)
    assert second.x - first.x == pytest.approx(SPEEDS_METRES_PER_SECOND["ant"])
    assert (first.heading, first.speed) == (0.0, SPEEDS_METRES_PER_SECOND["ant"])
    assert pose_at("cat", 0.0)[:2] == ROUTES["cat"][0]


def is_near(found: object, expected: tuple[int, int, int]) -> bool:
    assert isinstance(found, tuple)
    return all(abs(one - other) < 40 for one, other in zip(found, expected, strict=True))


def test_pictures_are_jpegs_that_show_the_robots_where_they_are() -> None:
    poses = {name: pose_at(name, 7.0) for name in ROUTES}
    trails = {name: [pose_at(name, 6.0)[:2], pose_at(name, 7.0)[:2]] for name in ROUTES}
    with Image.open(io.BytesIO(render_map(poses, trails))) as picture:
        assert picture.format == "JPEG"
        assert picture.size == (WIDTH * MAP_PIXELS_PER_METRE, HEIGHT * MAP_PIXELS_PER_METRE)
        for name, pose in poses.items():
            x, y = pose.x * MAP_PIXELS_PER_METRE, (HEIGHT - pose.y) * MAP_PIXELS_PER_METRE
            assert is_near(picture.getpixel((int(x) - 4, int(y) + 4)), ROBOT_COLOURS[name])
    with Image.open(io.BytesIO(render_camera("bee", poses, {"bee": [(1.0, 1.0)]}))) as picture:
        assert (picture.format, picture.size) == ("JPEG", CAMERA_SIZE)
        middle = (CAMERA_SIZE[0] // 2 - 8, CAMERA_SIZE[1] // 2 + 8)
        assert is_near(picture.getpixel(middle), ROBOT_COLOURS["bee"])
