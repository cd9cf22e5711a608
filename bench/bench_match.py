"""How fast are key expressions compared, and does a lookup in the tree stay fast when a million are stored?

    make bench                                                  this and all others, compiled
    python bench/bench_match.py --json new.json                 this one alone
    python bench/compare.py old.json new.json                   two branches, each run with --json

A good result: every comparison takes less time than eclipse-zenoh's own `KeyExpr` in the same run (ratio below 1), and
the lookup of a key among 10^6 expressions takes at most 3 times as long as among 10^3. With ZENSPARK_PURE=1 it runs
interpreted, and shows the gain of compilation.

The stored expressions are those of a fleet: `fleet/<robot>/<sensor>/<field>`, three in a hundred with wildcards, put in
in random order, so that neighbours in the tree are no neighbours in memory. Lookups are in random order, too, each with
a new string as it would arrive from the network: "key" finds all that intersect one key, "including" all that include
`fleet/<robot>/*/<field>`, "included" all that `fleet/<robot>/<sensor>/**` includes, about ten. Measurements take turns,
so a busy machine disturbs all of them alike.
"""

import gc
import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from timeit import Timer

import zenoh

import zenspark
from bench.command import parser, report
from bench.compare import Result
from zenspark.key.match import includes, intersects
from zenspark.key.tree import KeyTree

PAIRS = {
    "equal": ("fleet/robot00123/imu/accel_x", "fleet/robot00123/imu/accel_x"),
    "unequal": ("fleet/robot00124/imu/accel_x", "fleet/robot00123/imu/accel_x"),
    "star": ("fleet/*/imu/accel_x", "fleet/robot00123/imu/accel_x"),
    "trailing **": ("fleet/**", "fleet/robot00123/imu/accel_x"),
    "inner **": ("fleet/**/accel_x", "fleet/robot00123/imu/accel_x"),
    "dollar": ("fleet/robot$*/imu/acc$*", "fleet/robot00123/imu/accel_x"),
    "both wild": ("fleet/*/imu/**", "fleet/robot00123/**/accel_x"),
    "verbatim": ("@/**/router/**", "@/a1b2c3d4/router/config/mode"),
}
COMPARISONS_PER_TURN = 5_000
COMPARISON_TURNS = 15

SIZES = [10**3, 10**4, 10**5, 10**6]
SENSORS = ["imu", "lidar", "camera", "gps", "battery", "wheel_left", "wheel_right", "arm", "gripper", "thermal"]
FIELDS = ["x", "y", "z", "stamp", "status", "temperature", "rate", "quality", "frame", "error"]
FLEET_WIDE = ["fleet/**", "**/error", "fleet/*/imu/*", "fleet/*/gps/**"]
PER_ROBOT = ["{robot}/**", "{robot}/*/{field}", "{robot}/{sensor:.2}$*/{field}"]
Find = Callable[[KeyTree[int], str], object]
LOOKUPS: dict[str, tuple[str, Find]] = {
    "key": ("{robot}/{sensor}/{field}", KeyTree.intersecting),
    "including": ("{robot}/*/{field}", KeyTree.including),
    "included": ("{robot}/{sensor}/**", KeyTree.included),
}
LOOKUPS_PER_TURN = 5_000
LOOKUP_TURNS = 11
SEED = 7


# --- comparisons ----------------------------------------------------------------------------------------------------


def measure_comparisons() -> Iterator[Result]:
    timers = {}
    for (kind, pair), (verb, ours) in itertools.product(
        PAIRS.items(), [("intersects", intersects), ("includes", includes)]
    ):
        # Two objects also where the texts are equal: from the network they would never be one.
        a, b = (text.encode().decode() for text in pair)
        timers[f"{verb}, {kind}"] = (
            Timer("compare(a, b)", globals={"compare": ours, "a": a, "b": b}),
            Timer("a(b)", globals={"a": getattr(zenoh.KeyExpr(a), verb), "b": zenoh.KeyExpr(b)}),
        )
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in timers}
    for _ in range(COMPARISON_TURNS):
        for name, (ours_timer, theirs_timer) in timers.items():
            turns[name].append((ns_each(ours_timer), ns_each(theirs_timer)))
    for name, both in turns.items():
        yield Result.of(name, [ours for ours, _ in both], "ns")
        yield Result.of(f"{name}, ours / eclipse-zenoh", [ours / theirs for ours, theirs in both], "x")


def ns_each(timer: Timer) -> float:
    return timer.timeit(COMPARISONS_PER_TURN) / COMPARISONS_PER_TURN * 1e9


# --- lookups --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fleet:
    """So many robots that their publications and subscriptions have about `size` key expressions."""

    size: int

    @cached_property
    def robots(self) -> list[str]:
        return [f"fleet/robot{number:05}" for number in range(self.size // (len(SENSORS) * len(FIELDS)) + 1)]

    def expressions(self, dice: random.Random) -> list[str]:
        """Make exactly `size` expressions, in random order."""
        keys = map("/".join, itertools.product(self.robots, SENSORS, FIELDS))
        chosen = dict.fromkeys(itertools.islice(keys, self.size - self.size * 3 // 100))
        chosen.update(dict.fromkeys(FLEET_WIDE))
        while len(chosen) < self.size:
            chosen[self.fill(dice.choice(PER_ROBOT), dice)] = None
        return dice.sample(list(chosen), self.size)

    def fill(self, pattern: str, dice: random.Random) -> str:
        return pattern.format(robot=dice.choice(self.robots), sensor=dice.choice(SENSORS), field=dice.choice(FIELDS))


def measure_lookups() -> Iterator[Result]:
    dice = random.Random(SEED)
    trees: dict[Fleet, KeyTree[int]] = {Fleet(size): KeyTree() for size in SIZES}
    for fleet, tree in trees.items():
        insertion = ns_per_insertion(tree, fleet.expressions(dice))
        yield Result(f"insert, {fleet.size:,}", insertion, "ns", (insertion, insertion))
    for name, (pattern, find) in LOOKUPS.items():
        turns: dict[int, list[float]] = {size: [] for size in SIZES}
        for _ in range(LOOKUP_TURNS):
            for fleet, tree in trees.items():
                keys = [fleet.fill(pattern, dice) for _ in range(LOOKUPS_PER_TURN)]
                turns[fleet.size].append(ns_per_lookup(tree, find, keys))
        yield from (Result.of(f"look up {name}, {size:,}", turns[size], "ns") for size in SIZES)
        ratios = [most / least for least, most in zip(turns[SIZES[0]], turns[SIZES[-1]], strict=True)]
        yield Result.of(f"look up {name}, {SIZES[-1]:,} / {SIZES[0]:,}", ratios, "x")


def ns_per_insertion(tree: KeyTree[int], expressions: list[str]) -> float:
    start = time.perf_counter_ns()
    for number, expression in enumerate(expressions):
        tree.insert(expression, number)
    return (time.perf_counter_ns() - start) / len(expressions)


def ns_per_lookup(tree: KeyTree[int], find: Find, keys: list[str]) -> float:
    start = time.perf_counter_ns()
    for key in keys:
        find(tree, key)
    return (time.perf_counter_ns() - start) / len(keys)


def main() -> None:
    options = parser(__doc__).parse_args()
    print(f"zenspark {zenspark.__version__}, {zenspark.build_kind()}")
    gc.disable()  # a collection in the midst of a turn would be measured as a slow lookup
    report("match", itertools.chain(measure_comparisons(), measure_lookups()), options.json)


if __name__ == "__main__":
    main()
