"""What docs/spark.md shows is what happens: its Python is run in order, and what it prints compared."""

from __future__ import annotations

import contextlib
import io
import re
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.interop.reference import ours, unused
from tests.spark.conftest import Recorded
from zenspark.api.open import open as open_session
from zenspark.types.query import Query

pytestmark = pytest.mark.spark

MANUAL = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def on_query(query: Query) -> None:
    query.reply("fleet/r1/name", "rover", encoding="text/plain")
    query.reply("fleet/r2/name", "digger", encoding="text/plain")


def test_python_prints_what_is_shown(spark: SparkSession, recorded: Recorded, tmp_path: Path) -> None:
    endpoint = unused()
    names = {"journal": str(recorded(1000)), "endpoint": endpoint, "lake": str(tmp_path / "lake")}
    blocks = [*BLOCK.findall(MANUAL.read_text()), ("end", "")]
    shown = 0
    with open_session(ours(mode="router", listen__endpoints=[endpoint])) as network:
        network.declare_queryable("fleet/*/name", on_query)
        for (language, code), (following, text) in pairwise(blocks):
            if language == "python":
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(code, str(MANUAL), "exec"), names)
                expected = text if following == "text" else ""
                assert [line.rstrip() for line in printed.getvalue().strip().splitlines()] == expected.splitlines()
                shown += bool(expected)
    assert shown >= 5
