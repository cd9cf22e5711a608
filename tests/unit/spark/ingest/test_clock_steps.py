from __future__ import annotations

from zenspark.spark.ingest.clock_steps import ClockSteps


def test_each_step_back_of_a_second_or_more_is_reported_once() -> None:
    wall, steady = 1000.0, 5.0
    clock = ClockSteps(lambda: wall, lambda: steady)
    found = []
    for wall_step, steady_step in [(1, 1), (-3600, 0.1), (0.2, 0.2), (86_400, 0.2), (-0.5, 0.2), (-86_400, 0.2)]:
        wall, steady = wall + wall_step, steady + steady_step
        found.append(round(clock.back_seconds(), 3))
    assert found == [0.0, 3600.1, 0.0, 0.0, 0.0, 86_400.2]
