"""Which seeds are tried: a few in `make test`, as many as there is time for in `make world`.

`ZENSPARK_WORLD_SECONDS` is how long, for all tests of this folder together; `ZENSPARK_WORLD_SEED` is the first seed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

SECONDS = float(os.environ.get("ZENSPARK_WORLD_SECONDS", "0"))
FIRST_SEED = int(os.environ.get("ZENSPARK_WORLD_SEED", "3"))


def seeds(share: float, first: int = 0, step: int = 1) -> Iterator[int]:
    """One seed, then others as long as a share of the time lasts; every `step`th from the `first` on."""
    began = time.monotonic()
    seed = start = FIRST_SEED + first
    while seed == start or time.monotonic() - began < share * SECONDS:
        seed_began = time.monotonic()
        yield seed
        print(f"seed {seed}: {time.monotonic() - seed_began:.0f} s", flush=True)
        seed += step
