"""Tests of `tests/ports.py`."""

from __future__ import annotations

import multiprocessing

from tests import ports


def _narrow_the_range() -> None:
    """Leave so few ports that random choices of several processes would repeat some."""
    ports.LAST = ports.FIRST + 400


def _free_ports(count: int) -> list[int]:
    return [ports.free_port() for _ in range(count)]


def test_processes_that_run_at_once_never_get_the_same_port() -> None:
    with multiprocessing.get_context("spawn").Pool(4, _narrow_the_range) as pool:
        found = [port for part in pool.map(_free_ports, [25] * 4, chunksize=1) for port in part]
    assert len(found) == len(set(found)) == 100
