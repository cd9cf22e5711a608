"""A hundred clients that come and go: whether memory, descriptors, threads and latency of a router stay as they are.

    python -m tests.hostile.soak --seconds 600

Half of them are eclipse-zenoh and half zenspark, of all roles; half of them leave by a reset. Meanwhile they publish,
query and reply, and an honest client queries another one through the router: that is the latency. What has a median in
the last quarter of the time above that of the second quarter, by more than a tolerance, grows: then the exit code is 1.
A good result is a table with `flat` in all rows, and a router that holds no more descriptors at the end than before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.growth import Measure, table, verdicts
from tests.hostile.honest import KEY, REPLY, eclipse_session, query_with_eclipse, zenspark_session
from tests.hostile.routers import MIB, router
from tests.wait import TIMEOUT_SECONDS, until

SESSIONS = 100
SAMPLE_SECONDS = 1.0
LATENCY = Measure("latency of a query", "ms", 50)
MEASURES = (
    Measure("RSS of the router", "MiB", 16),
    Measure("descriptors of the router", "descriptors", 20),
    Measure("threads of the router", "threads", 2),
    LATENCY,
)


class Outcome(NamedTuple):
    """What was measured, every second, and what the clients did."""

    measured: dict[str, list[float]]
    done: Counter[str]
    unreplied: int
    """Honest queries without a reply."""
    left: int
    """Descriptors the router has more than before, when all clients are gone."""
    log: str


def run(seconds: float, seed: int = 1) -> Outcome:
    """Churn and measure."""
    found: dict[str, list[float]] = defaultdict(list)
    unreplied = 0
    with (
        router() as process,
        eclipse_session(process.locator) as querier,
        zenspark_session(process.locator) as responder,
    ):
        of_router = psutil.Process(process.process.pid)
        with responder.declare_queryable(KEY, lambda query: query.reply(query.key_expr, REPLY)):
            until(lambda: query_with_eclipse(querier, KEY))
            at_rest = of_router.num_fds()
            with churning(process.locator, seed) as clients:
                clients.wait_until_joined()
                ends_at = time.monotonic() + seconds
                while (left := ends_at - time.monotonic()) > 0:
                    time.sleep(min(SAMPLE_SECONDS, left))
                    started = time.monotonic()
                    unreplied += not query_with_eclipse(querier, KEY)
                    latency = (time.monotonic() - started) * 1000
                    values = [process.memory / MIB, of_router.num_fds(), of_router.num_threads(), latency]
                    for measure, value in zip(MEASURES, values, strict=True):
                        found[measure.name].append(value)
                done = clients.stop()
            with contextlib.suppress(AssertionError):
                until(lambda: of_router.num_fds() <= at_rest)
            return Outcome(found, done, unreplied, of_router.num_fds() - at_rest, process.log)


class Clients:
    """The processes whose sessions come and go."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def wait_until_joined(self) -> None:
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "joined\n"

    def stop(self) -> Counter[str]:
        """Have all of them leave; what they have done."""
        done: Counter[str] = Counter()
        for process in self._processes:
            output, _ = process.communicate("stop\n", timeout=4 * TIMEOUT_SECONDS)
            done.update(json.loads(output))
        return done


@contextlib.contextmanager
def churning(locator: str, seed: int) -> Iterator[Clients]:
    flags = ["--sessions", str(SESSIONS // 2), "--seed", str(seed)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.churn", library, locator, *flags],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for library in ("zenoh", "zenspark")
    ]
    try:
        yield Clients(processes)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def main(arguments: Sequence[str]) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default: 600)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    outcome = run(given.seconds, given.seed)
    results = verdicts(MEASURES, outcome.measured)
    print(summary(outcome, given.seconds))
    print(table(results))
    is_well = not outcome.unreplied and outcome.left <= 0 and "Traceback" not in outcome.log
    return int(not is_well or any(verdict.has_grown for verdict in results))


def summary(outcome: Outcome, seconds: float) -> str:
    """What has happened, in words."""
    done = ", ".join(f"{count} {name}" for name, count in sorted(outcome.done.items()))
    return (
        f"{seconds:.0f} s: {done}; {outcome.unreplied} honest queries without a reply,"
        f" {max(0, outcome.left)} descriptors left behind, {outcome.log.count('Traceback')} exceptions logged"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
