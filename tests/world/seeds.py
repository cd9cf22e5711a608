"""Which seeds are tried: a few in `make test`, as many as there is time for in `make world`.

`ZENSPARK_WORLD_SECONDS` is how long, for all tests of this folder together; `ZENSPARK_WORLD_SEED` is the first seed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

SECONDS = float(os.environ.get("ZENSPARK_WORLD_SECONDS", "0"))
FIRST_SEED = int(os.environ.get("ZENSPARK_WORLD_SEED", "3"))


def seeds(least: int, share: float) -> Iterator[int]:
    """At least so many seeds, then others as long as a share of the time lasts."""
    began = time.monotonic()
    seed = FIRST_SEED
    while seed < FIRST_SEED + least or time.monotonic() - began < share * SECONDS:
        seed_began = time.monotonic()
        yield seed
        print(f"seed {seed}: {time.monotonic() - seed_began:.0f} s", flush=True)
        seed += 1
