"""Violates the statements of conformance rows in a copy of the project, and runs the tests the rows name.

    python -m tools.mutate_conformance [--sample N] [--seconds S] [--limit S] [--jobs N] [ID ...]

Every mutation of every row, or of the rows named, or N mutations that are always the same ones and have quick tests.
Prints the outcome of each; exits 1 if the tests of a row passed although its statement was violated, could not be run,
or fail without any mutation.
"""

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path

from tools.conformance import ROOT, Mutation, Row, read_pages
from tools.mutants import Copy, Effort, Mutant, Outcome, Record, digest_of, is_compiled, resumed

RECORD = Path("build/mutations/rows.json")
QUICK = ("tests/conformance/", "tests/unit/")
DETECTED = (Outcome.KILLED, Outcome.HUNG)


def mutants(rows: list[Row]) -> list[Mutant]:
    """Make one mutant for each mutation; rows that share it and its tests share the mutant. Quick tests come first."""
    found: dict[tuple[Mutation, tuple[str, ...]], list[str]] = {}
    for row in rows:
        tests = tuple(sorted(row.tests, key=lambda test: (not test.startswith(QUICK), test)))
        for mutation in row.mutations:
            found.setdefault((mutation, tests), []).append(row.id)
    return [
        Mutant(f"{', '.join(ids)} ({short_digest((mutation, tests))})", mutation.file, mutation.applied, (tests,))
        for (mutation, tests), ids in found.items()
    ]


def short_digest(value: object) -> str:
    """Make a digest that distinguishes a mutation from an earlier one of the same row."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:6]


def sample(chosen: list[Mutant], size: int) -> list[Mutant]:
    """Select mutants with quick tests, the same ones as long as no row changes."""
    quick = [one for one in chosen if all(test.startswith(QUICK) for test in tests_of(one))]
    return sorted(quick, key=lambda one: short_digest(one.name))[:size]


def failing_anyway(root: Path, chosen: list[Mutant]) -> set[str]:
    """Return the tests that fail without a mutation: they cannot show whether they detect one."""
    failing: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copy = Copy(root, Path(directory, "unchanged"))
        for interpreted in (False, True):
            alike = [one for one in chosen if is_compiled(root / one.file) is interpreted]
            tests = dict.fromkeys(test for one in alike for test in tests_of(one))
            failing |= set(copy.failing(tests, interpreted, limit=3600)) if tests else set()
    return failing


def tests_of(mutant: Mutant) -> list[str]:
    return [test for stage in mutant.stages for test in stage]


def options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="violates conformance rows and runs the tests they name")
    parser.add_argument("ids", nargs="*", metavar="ID", help="rows; all if none is named")
    parser.add_argument("--sample", type=int, metavar="N", help="only N mutations with quick tests, always the same")
    parser.add_argument("--seconds", type=float, help="seconds after which no mutant is started")
    parser.add_argument("--limit", type=float, default=Effort().limit, help="seconds for one mutant (%(default)s)")
    parser.add_argument("--jobs", type=int, default=Effort().jobs, help="processes at once (%(default)s)")
    return parser.parse_args(arguments)


def main(arguments: list[str], root: Path = ROOT) -> int:
    chosen = options(arguments)
    rows = [row for page in read_pages(root) for row in page.rows if not chosen.ids or row.id in chosen.ids]
    picked = mutants(rows) if chosen.sample is None else sample(mutants(rows), chosen.sample)
    failing = failing_anyway(root, picked)
    sound = [mutant for mutant in picked if failing.isdisjoint(tests_of(mutant))]
    record = Record(root / RECORD, digest_of(root))
    results = resumed(root, sound, record, Effort(chosen.limit, chosen.seconds, chosen.jobs))
    missed = [f"{mutant.name}: {result}" for mutant, result in results if result.outcome not in DETECTED]
    print(f"{len(results) - len(missed)} of {len(results)} mutations were noticed", *missed, sep="\n")
    for test in sorted(failing):
        print(f"{test} fails without any mutation")
    return 1 if missed or failing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
