"""What `help` shows of the data pipeline: the modules that the manual tells users to import from."""

from __future__ import annotations

import builtins
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit import public_api
from tests.unit.pipeline_api import GIVEN, Things, examples, public_methods, public_objects, run_example
from tests.unit.public_api import free_names
from tests.unit.test_init import missing_sections, undocumented

ROOT = Path(__file__).parents[2]
MANUAL = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
IMPORT = re.compile(r"from ((?:zenspark|pyspark_zenoh)[\w.]*) import (\w+(?:, \w+)*)")
GENERATED = "zenspark.wire.codec"
"""A module that `make codec` writes, and docs/decode.md documents."""

PUBLIC = dict(public_objects())
METHODS = dict(public_methods())


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_docstring_names_every_parameter(name: str) -> None:
    assert undocumented(name, PUBLIC[name]) == []


@pytest.mark.parametrize("name", sorted(PUBLIC | METHODS))
def test_docstring_has_result_errors_and_example(name: str) -> None:
    assert missing_sections((PUBLIC | METHODS)[name]) == []


def imported_names() -> Iterator[tuple[str, str]]:
    """Yield module and name of every import from the package in the manual."""
    for page in MANUAL:
        for module, names in IMPORT.findall(page.read_text(encoding="utf-8")):
            yield from ((module, name) for name in names.split(", "))


def test_names_that_the_manual_imports_are_documented() -> None:
    imported = set(imported_names())
    assert len(imported) >= 12
    documented = [*PUBLIC.values(), *(found for _, found in public_api.public_objects())]
    assert [
        f"{module}.{name}"
        for module, name in sorted(imported)
        if module != GENERATED
        and not any(getattr(importlib.import_module(module), name) is each for each in documented)
    ] == []


# --- examples -------------------------------------------------------------------------------------

EXAMPLES = dict(examples())
WITH_SPARK = {"spark", "query", "samples", "rules"}
"""Names in examples that tests/spark/test_examples.py runs."""
NOT_RUN = {
    "pyspark_zenoh.DefaultSource": "it connects to a router of another machine; tests/spark/test_manual.py reads so",
    "zenspark.journal.Slice.rows_of_block": "its arguments are bytes of a file",
    "zenspark.spark.engine.spark_session": "tests/spark/conftest.py starts Spark with it",
} | {name: "it starts Spark as a process of its own" for name in EXAMPLES if "spark.pipeline" in name}


def needs(name: str) -> set[str]:
    """Return the names that an example uses and does not define."""
    return free_names("".join(line.source for line in EXAMPLES[name])) - {*GIVEN, *dir(builtins)}


RUN = [name for name in sorted(EXAMPLES) if name not in NOT_RUN and not needs(name) & WITH_SPARK]
RUN_WITH_SPARK = [name for name in sorted(EXAMPLES) if name not in NOT_RUN and needs(name) & WITH_SPARK]


@pytest.fixture
def things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Things]:
    monkeypatch.chdir(tmp_path)
    made = Things()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_docstring_example_prints_its_output(name: str, things: Things) -> None:
    things.lake, things.journal  # noqa: B018 - made, as some examples open them by path
    names = GIVEN | {each: getattr(things, each) for each in needs(name)}
    assert run_example(name, EXAMPLES[name], names) == ""


def test_wrong_examples_are_found() -> None:
    right, wrong = (doctest.Example("print(1 + 1)\n", want) for want in ("2\n", "3\n"))
    assert run_example("sum", [right], {}) == ""
    assert "Got:\n    2" in run_example("sum", [wrong], {})
    assert run_example("sum", [doctest.Example("print(2)\n", "")], {}) == ""
    assert "NameError" in run_example("sum", [doctest.Example("missing()\n", "")], {})
