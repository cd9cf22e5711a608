"""Random networks one after the other, each mixed and all of zenspark; what `make networks` runs.

A finding is a difference from the model that comes again and that a network of eclipse-zenoh alone does not show. What
does not come again, and what eclipse-zenoh does, too, is counted and reported, but is none.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.networks.network import Outcome, run
from tests.networks.processes import Pool
from tests.networks.scenario import Scenario, scenario

BASELINES = 3
"""Runs of eclipse-zenoh alone until what it does not show is a finding: it does not show everything every time."""
ATTEMPTS = 3
"""Runs of a network in which a process of eclipse-zenoh fails; some of its routers panic when a session closes."""


@dataclass
class Verdict:
    """What became of one seed."""

    scenario: Scenario
    outcomes: list[Outcome] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    not_repeated: set[str] = field(default_factory=set)
    same_in_eclipse: set[str] = field(default_factory=set)
    failures: int = 0

    @property
    def seconds(self) -> float:
        return sum(outcome.seconds for outcome in self.outcomes)

    def __str__(self) -> str:
        notes = [f"FINDING {finding}" for finding in self.findings]
        notes += [f"not repeated: {kind}" for kind in sorted(self.not_repeated)]
        notes += [f"same in all-eclipse: {kind}" for kind in sorted(self.same_in_eclipse)]
        notes += [f"eclipse-zenoh failed {self.failures} times"] * (self.failures > 0)
        head = f"seed {self.scenario.seed}: {self.scenario} ({len(self.outcomes)} runs, {self.seconds:.1f} s)"
        return "\n    ".join([head, *notes])


class Judge:
    """Runs a scenario as often as a verdict needs."""

    def __init__(self, drawn: Scenario, pool: Pool, is_verbose: bool = False) -> None:
        self.pool = pool
        self.verdict = Verdict(drawn)
        self._is_verbose = is_verbose

    def judge(self) -> Verdict:
        """The scenario as it was drawn, and with zenspark alone."""
        drawn = self.verdict.scenario
        variants = {each.packages: each for each in (drawn, drawn.of("z"))}
        for packages, variant in variants.items():
            if "z" in packages:
                self._judge(variant)
        return self.verdict

    def _judge(self, variant: Scenario) -> None:
        first = self._run(variant)
        if not first.differences:
            return
        again = self._run(variant)
        repeated = first.kinds & again.kinds
        self.verdict.not_repeated |= first.kinds - repeated
        elsewhere: set[str] = set()
        for _ in range(BASELINES):
            if not repeated <= elsewhere:
                elsewhere |= self._run(variant.of("e")).kinds
        self.verdict.same_in_eclipse |= repeated & elsewhere
        for difference in again.differences:
            if difference.kind in repeated - elsewhere:
                self.verdict.findings.append(f"{variant.packages} {difference}")

    def _run(self, variant: Scenario) -> Outcome:
        for _ in range(ATTEMPTS):
            outcome = run(variant, self.pool)
            self.verdict.outcomes.append(outcome)
            self._print(outcome)
            if not outcome.failure:
                break
            self.verdict.failures += 1
        return outcome

    def _print(self, outcome: Outcome) -> None:
        if self._is_verbose:
            print(f"  {outcome.packages} {outcome.seconds:.1f} s {outcome.failure}", flush=True)
            for difference in outcome.differences:
                print(f"    {difference}", flush=True)


@dataclass
class Report:
    """What many seeds gave."""

    verdicts: int = 0
    runs: int = 0
    findings: list[Verdict] = field(default_factory=list)
    not_repeated: Counter[str] = field(default_factory=Counter)
    same_in_eclipse: Counter[str] = field(default_factory=Counter)
    failures: int = 0

    def add(self, verdict: Verdict) -> None:
        self.verdicts += 1
        self.runs += len(verdict.outcomes)
        self.failures += verdict.failures
        self.not_repeated.update(verdict.not_repeated)
        self.same_in_eclipse.update(verdict.same_in_eclipse)
        if verdict.findings:
            self.findings.append(verdict)

    def __str__(self) -> str:
        lines = [f"{self.verdicts} scenarios, {self.runs} networks, {len(self.findings)} with a finding"]
        lines += [f"same in all-eclipse: {kind}, {count} scenarios" for kind, count in self.same_in_eclipse.items()]
        lines += [f"not repeated: {kind}, {count} scenarios" for kind, count in self.not_repeated.items()]
        lines += [f"eclipse-zenoh failed {self.failures} times"]
        lines += [f"finding in seed {verdict.scenario.seed}" for verdict in self.findings]
        return "\n".join(lines)


def search(first: int, scenarios: int, seconds: float, is_verbose: bool = False) -> Report:
    """Judge so many seeds, or as many as there is time for."""
    deadline = time.monotonic() + seconds
    report = Report()
    with Pool() as pool:
        for seed in range(first, first + scenarios):
            verdict = Judge(scenario(seed), pool, is_verbose).judge()
            report.add(verdict)
            print(verdict, flush=True)
            if time.monotonic() > deadline:
                break
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--scenarios", type=int, default=500, help="how many seeds at most")
    parser.add_argument("--seconds", type=float, default=3600, help="how long at most")
    parser.add_argument("--verbose", action="store_true", help="print every run with its differences")
    options = parser.parse_args()
    report = search(options.seed, options.scenarios, options.seconds, options.verbose)
    print(report)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
