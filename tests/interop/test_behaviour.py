"""The same scripts with eclipse-zenoh and with zenspark: the same outcome."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.interop.behaviour import CASES

SCRIPT = Path(__file__).parent / "behaviour.py"


@lru_cache
def outcomes(package: str) -> dict[str, Any]:
    run = subprocess.run([sys.executable, str(SCRIPT), package], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize("name", CASES)
def test_both_do_the_same(name: str) -> None:
    assert outcomes("zenspark")[name] == outcomes("zenoh")[name]
