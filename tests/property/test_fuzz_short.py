"""The fuzz targets, shortly: the corpus, everything captured, and a thousand runs of the real fuzzer.

The long run is `make fuzz TARGET=...`, which also sees what is reached in the compiled modules. Here it sees that only
interpreted. So a run of the compiled tests fuzzes both builds, and a run of the interpreted ones only that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import zenspark

ROOT = Path(__file__).parents[2]
TARGETS = sorted(file.stem.removeprefix("fuzz_") for file in (ROOT / "fuzz").glob("fuzz_*.py"))
COST = {"config": 20, "connection": 20, "conversation": 10, "journal": 40, "linkstate": 20, "router": 40}
"""How many times longer than the others a target takes for one input: it gets so many times fewer."""
MOST_CUTS = 10_000
"""How many beginnings of seeds are tried, of a target that takes little time."""
BUILDS = ["interpreted"] if zenspark.build_kind() == "interpreted" else ["compiled", "interpreted"]

every_target = pytest.mark.parametrize("target", TARGETS)


def checker(target: str) -> Callable[[bytes], None]:
    found: Callable[[bytes], None] = import_module(f"fuzz.fuzz_{target}").check
    return found


@cache
def captured() -> list[bytes]:
    """All bytes of the vectors that are short enough to be looked at many times."""
    files = sorted((ROOT / "tests" / "vectors").rglob("*.jsonl"))
    vectors = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    messages = {bytes.fromhex(vector["hex"]) for vector in vectors if "hex" in vector}
    streams = {file.read_bytes() for file in (ROOT / "tests" / "vectors").rglob("*.bin")}
    return sorted(data for data in messages | streams if len(data) < 1000)


def corpus(target: str) -> list[bytes]:
    return [file.read_bytes() for file in sorted((ROOT / "fuzz" / "corpus" / target).iterdir())]


@every_target
def test_corpus_inputs_keep_the_invariant(target: str) -> None:
    seeds = corpus(target)
    assert seeds
    for seed in seeds:
        checker(target)(seed)


@every_target
def test_truncated_corpus_inputs_keep_the_invariant(target: str) -> None:
    """At as many places as take about the same time for every target."""
    seeds = corpus(target)
    step = max(1, sum(map(len, seeds)) * COST.get(target, 1) // MOST_CUTS)
    for seed in seeds:
        for end in range(len(seed) - 1, 0, -step):
            checker(target)(seed[:end])


@every_target
@pytest.mark.parametrize("choice", range(6))
def test_captured_inputs_keep_the_invariant(target: str, choice: int) -> None:
    for data in captured()[choice :: COST.get(target, 1)]:
        for prefix in (bytes([choice]), bytes([choice, 3]), bytes([choice, len(data) & 0xFF, len(data) >> 8])):
            checker(target)(prefix + data)


@every_target
def test_empty_and_tiny_inputs_keep_the_invariant(target: str) -> None:
    for size in range(4):
        checker(target)(bytes(size))


@every_target
@pytest.mark.parametrize("build", BUILDS)
def test_short_fuzzer_run_finds_no_failure(target: str, build: str, tmp_path: Path) -> None:
    if find_spec("atheris") is None:
        pytest.skip("atheris is not installed: there are wheels for CPython on Linux x86_64 only")
    command = [
        sys.executable,
        "-m",
        f"fuzz.fuzz_{target}",
        f"-runs={1000 // COST.get(target, 1)}",
        "-seed=1",
        "-timeout=20",
        f"-artifact_prefix={tmp_path}/",
        str(tmp_path),  # new inputs go into the first directory
        str(ROOT / "fuzz" / "corpus" / target),
    ]
    environment = os.environ | {"ZENSPARK_PURE": "1" if build == "interpreted" else "0"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    assert "Done " in run.stderr
