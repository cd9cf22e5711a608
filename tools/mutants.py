"""Runs tests against changed copies of the project, to find out whether they detect the change.

A `Mutant` is a change of one source file and the tests that should fail with it. Each worker has a copy of the project
in a temporary directory, changes one file there, runs the tests in a process group of its own, and restores the file.
Where the file is compiled, the copy runs interpreted (`ZENSPARK_PURE=1`), so that nothing is built. Outcomes are
recorded in a file as they come; a later run over the same sources goes on where the last one ended.
"""

import contextlib
import hashlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

RUNNER = Path(__file__).with_name("run_tests.py")
IDLE = ("xdist", "xdist.looponfail", "randomly", "cacheprovider", "anyio", "doctest", "junitxml", "pastebin")
OPTIONS = (
    *("-q", "--tb=no", "--no-header", "--hypothesis-seed=0"),
    *(word for name in IDLE for word in ("-p", f"no:{name}")),  # nothing at random, and a faster start
)
TIMEOUT = re.compile(r"Timeout \(\d+:\d\d:\d\d(\.\d+)?\)!")  # printed by faulthandler
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "node_modules", ".mypy_cache", ".ruff_cache", ".pytest_cache", "*.c"
)


class Outcome(StrEnum):
    """Outcome of the tests of a mutant."""

    KILLED = "killed"
    HUNG = "hung"
    """No test had failed when the time was over: detected as well."""
    SURVIVED = "survived"
    BROKEN = "broken"
    """The tests could not be collected, so that nothing was tested."""


class Result(NamedTuple):
    """An outcome, and the first test that failed."""

    outcome: Outcome
    test: str = ""

    def __str__(self) -> str:
        return f"{self.outcome} by {self.test}" if self.test else self.outcome.value


class Mutant(NamedTuple):
    """A change of one file, and tests that should detect it, in stages: a later one runs only if all before passed."""

    name: str
    file: str
    change: Callable[[str], str]
    stages: tuple[tuple[str, ...], ...]
    timeouts: tuple[float, ...] = ()
    """For each stage, seconds after which one test has hung; if not given, only all together have a limit."""


class Copy:
    """A copy of the project in which one file at a time is changed."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.directory = directory
        shutil.copytree(root, directory, ignore=NOT_COPIED, symlinks=True)

    def run(self, mutant: Mutant, limit: float) -> Result:
        """Run the tests of a mutant, for `limit` seconds at most."""
        file = self.directory / mutant.file
        text = file.read_text()
        try:
            rewrite(file, mutant.change(text))
            return self.test(mutant.stages, is_compiled(file), limit, mutant.timeouts)
        finally:
            rewrite(file, text)

    def test(
        self, stages: Iterable[tuple[str, ...]], interpreted: bool, limit: float, timeouts: tuple[float, ...] = ()
    ) -> Result:
        """Run tests, stage by stage, until one fails."""
        result, end = Result(Outcome.SURVIVED), time.monotonic() + limit
        for tests, seconds in zip_longest(stages, timeouts):
            options = ["-x", *(timeout_options(seconds) if seconds else ())]
            result = judged(*self._pytest(options, tests, interpreted, end - time.monotonic()))
            if result.outcome is not Outcome.SURVIVED:
                break
        return result

    def failing(self, tests: Iterable[str], interpreted: bool, limit: float) -> list[str]:
        """Run the tests. Returns those that fail, without the parameters of their cases; all if none could be run."""
        named = list(tests)
        status, output = self.python(["-m", "pytest", *OPTIONS, *named], interpreted, limit)
        if status not in (0, 1):
            return named
        return [name.partition("[")[0] for name in failed(output)]

    def _pytest(
        self, options: Iterable[str], tests: tuple[str, ...], interpreted: bool, limit: float
    ) -> tuple[int | None, str]:
        """Run files, directories or single tests, these in the given order."""
        if not all("::" in test for test in tests):
            return self.python(["-m", "pytest", *OPTIONS, *options, *tests], interpreted, limit)
        names = self.directory.with_suffix(".tests")
        names.write_text("".join(f"{test}\n" for test in tests))
        return self.python(["-P", str(RUNNER), str(names), *OPTIONS, *options], interpreted, limit)

    def python(self, arguments: Iterable[str], interpreted: bool, limit: float) -> tuple[int | None, str]:
        """Run Python in the copy. Returns its exit status, None if it took too long, and its output."""
        environment = os.environ | {
            "PYTHONPATH": f"{self.directory / 'src'}{os.pathsep}{self.directory}",
            "ZENSPARK_PURE": "1" if interpreted else "0",
            "ZENSPARK_REQUIRE_COMPILED": "0",
        }
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=self.directory, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, process_group=0,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=max(limit, 1))
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            with contextlib.suppress(ProcessLookupError):  # also the processes that the tests have started
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        return process.returncode, output


def timeout_options(seconds: float) -> tuple[str, ...]:
    """Return the options with which pytest ends, with a message, when one test has run for so many seconds."""
    return ("-o", f"faulthandler_timeout={seconds:.1f}", "-o", "faulthandler_exit_on_timeout=true")


def judged(status: int | None, output: str) -> Result:
    """Return the outcome that an exit status of pytest means, and the first failed test in its output."""
    if status is None or (status == 1 and TIMEOUT.search(output)):
        return Result(Outcome.HUNG)
    if status == 0:
        return Result(Outcome.SURVIVED)
    outcome = Outcome.KILLED if status == 1 or status < 0 else Outcome.BROKEN
    return Result(outcome, next(iter(failed(output)), ""))


def failed(output: str) -> list[str]:
    """Return the failed tests in the output of pytest."""
    return [line.split()[1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]


def rewrite(file: Path, text: str) -> None:
    """Write a source file and remove its bytecode, whose age in seconds would not distinguish the two texts."""
    file.write_text(text)
    for stale in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        stale.unlink()


def is_compiled(file: Path) -> bool:
    """Whether an extension module compiled from the file would be loaded instead of it."""
    return any(file.parent.glob(f"{file.stem}.*.so"))


class Record:
    """Outcomes so far, in a file; those of other sources are ignored."""

    def __init__(self, file: Path, digest: str) -> None:
        self.file = file
        self.digest = digest
        self.results: dict[str, Result] = {}
        if file.exists():
            document = json.loads(file.read_text())
            if document["digest"] == digest:
                self.results = {name: Result(Outcome(one), test) for name, (one, test) in document["results"].items()}

    def add(self, mutant: Mutant, result: Result) -> None:
        self.results[mutant.name] = result
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps({"digest": self.digest, "results": self.results}, indent=1))


def digest_of(root: Path) -> str:
    """Return a digest of all sources and tests."""
    digest = hashlib.sha256()
    for file in sorted([*(root / "src").rglob("*.py"), *(root / "tests").rglob("*.py")]):
        digest.update(f"{file.relative_to(root)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


class Effort(NamedTuple):
    """Limits of a run: seconds for one mutant, seconds for all (None: no limit), processes."""

    limit: float = 120
    seconds: float | None = None
    jobs: int = 2


def run_all(root: Path, mutants: list[Mutant], effort: Effort) -> Iterator[tuple[Mutant, Result]]:
    """Run mutants in as many copies as there are jobs; none is started once the time is over."""
    if not mutants:
        return
    end = time.monotonic() + (float("inf") if effort.seconds is None else effort.seconds)
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(effort.jobs):
            copies.put(Copy(root, Path(directory, str(number))))

        def run(mutant: Mutant) -> Result | None:
            if time.monotonic() >= end:
                return None
            copy = copies.get()
            try:
                return copy.run(mutant, effort.limit)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(effort.jobs) as executor:
            running = {executor.submit(run, mutant): mutant for mutant in mutants}
            for future in as_completed(running):
                if (result := future.result()) is not None:
                    yield running[future], result


def resumed(root: Path, mutants: list[Mutant], record: Record, effort: Effort) -> list[tuple[Mutant, Result]]:
    """Run the mutants that have no result yet, and print each result. Returns all results, also earlier ones."""
    done = [(mutant, record.results[mutant.name]) for mutant in mutants if mutant.name in record.results]
    if done:
        print(f"{len(done)} of {len(mutants)} mutants have run before")
    for mutant, result in run_all(root, [one for one in mutants if one.name not in record.results], effort):
        record.add(mutant, result)
        done.append((mutant, result))
        print(f"{len(done)}/{len(mutants)} {mutant.name}: {result}", flush=True)
    if len(done) < len(mutants):
        print(f"{len(mutants) - len(done)} mutants are left; the same command goes on with them")
    return done
