"""How fast does a router take declarations and find routes, and does that stay so when a million keys are declared?

How much memory do they take?

    make bench                                                  this and all others, compiled
    python bench/bench_route.py --json new.json                 this one alone
    python bench/compare.py old.json new.json                   two branches, each run with --json

A good result: the time for a declaration, and for the first lookup of a route ("uncached"), grows by less than 3 times
from 10^3 to 10^6 declared keys; one that was made before ("cached") costs the same whatever else is declared. Memory is
what the process has grown by: a declaration includes the key, its announcement to the other router, and the indices.

The router has 500 clients with ten interests each and one neighbouring router, to which every declaration is announced.
Keys are in random order, as from a network.
"""

import gc
import random
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import zenspark
from bench.command import parser, report
from bench.compare import Result
from zenspark.router.face import Face
from zenspark.router.router import Router
from zenspark.wire.codec import encode_link_states
from zenspark.wire.messages import Declare, DeclareSubscriber, Interest, LinkState, NetworkOam
from zenspark.wire.values import InterestMode, WhatAmI, WireExpr, ZenohId

SIZES = [10**3, 10**4, 10**5, 10**6]
FACES = 500
INTERESTS = 10
TURNS = 10
SAMPLE = 100
"""Declarations and lookups in a turn."""


class BusyRouter:
    """A router with clients that declare subscribers."""

    def __init__(self) -> None:
        self.dice = random.Random(7)
        self.router = Router(ZenohId(1), WhatAmI.ROUTER)
        self.local = self.router.add_local()
        neighbour, _ = self.router.add_face(ZenohId(2), WhatAmI.ROUTER, 0.0)
        states = [
            LinkState(psid=0, sn=2, zid=ZenohId(2), whatami=1, links=(1,)),
            LinkState(psid=1, sn=0, zid=ZenohId(1), whatami=1),
        ]
        self.router.receive(neighbour, NetworkOam(id=NetworkOam.LINK_STATE, zbuf=encode_link_states(states)), 0.0)
        self.router.handle_timeout(1.0)
        self.faces = [self.router.add_face(ZenohId(10 + at), WhatAmI.CLIENT, 1.0)[0] for at in range(FACES)]
        for at, face in enumerate(self.faces):
            for number in range(INTERESTS):
                self.router.receive(face, make_interest(number, f"fleet/robot{at:03}/{number}/**"), 1.0)
        self.keys: list[str] = []

    def declare(self, count: int) -> None:
        """Declare subscribers of more keys, by the clients in turn."""
        for _ in range(count):
            number = len(self.keys)
            key = f"fleet/robot{self.dice.randrange(FACES):03}/{self.dice.randrange(20)}/{number}"
            self.keys.append(key)
            self.router.receive(self.faces[number % FACES], make_declare(number, key), 1.0)

    def look_up(self, keys: list[str]) -> None:
        face: Face = self.local
        for key in keys:
            self.router.routes.push_next_hops(face, key)


def make_interest(number: int, key: str) -> Interest:
    return Interest(id=number, mode=InterestMode.CURRENT_FUTURE, subscribers=True, wire_expr=WireExpr(0, key))


def make_declare(number: int, key: str) -> Declare:
    return Declare(body=DeclareSubscriber(id=number, wire_expr=WireExpr(0, key)))


def us_each(work: Callable[[], object]) -> float:
    start = time.process_time()  # other processes of this machine must not count
    work()
    return (time.process_time() - start) / SAMPLE * 1e6


def memory() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def growth(name: str, least: list[float], most: list[float]) -> Result:
    """Compare the times with the most keys and with the least."""
    return Result.of(
        f"{name}, most to least keys", [b / a for a, b in zip(sorted(least), sorted(most), strict=True)], "x"
    )


def measure(sizes: list[int]) -> Iterator[Result]:
    busy = BusyRouter()
    taken: dict[str, list[list[float]]] = {name: [] for name in ("declaration", "uncached lookup", "cached lookup")}
    empty = memory()
    for size in sizes:
        busy.declare(size - len(busy.keys) - TURNS * SAMPLE)
        declared: list[float] = []
        first: list[float] = []
        again: list[float] = []
        for _ in range(TURNS):
            declared.append(us_each(lambda: busy.declare(SAMPLE)))
            keys = busy.dice.sample(busy.keys, SAMPLE)
            busy.router.routes.clear()
            first.append(us_each(lambda: busy.look_up(keys)))  # noqa: B023
            busy.look_up(keys)  # the second lookup of a key caches its route
            again.append(us_each(lambda: busy.look_up(keys)))  # noqa: B023
        for name, times in zip(taken, (declared, first, again), strict=True):
            taken[name].append(times)
            yield Result.of(f"{name}, {size:,} keys", times, "us")
        yield Result.of(f"declarations, {size:,} keys", [1e6 / time for time in declared], "/s")
        used = (memory() - empty) / size
        yield Result(f"memory a declaration, {size:,} keys", used, "B", (used, used))
    for name, turns in taken.items():
        yield growth(name, turns[0], turns[-1])


def main() -> None:
    options = parser(__doc__).parse_args()
    print(f"zenspark {zenspark.__version__}, {zenspark.build_kind()}")
    gc.disable()  # a collection in the midst of a turn would be measured as a slow lookup
    report("route", measure(SIZES), options.json)


if __name__ == "__main__":
    main()
