"""docs/pipeline.md has the columns of the sample schema, with their types and in their order."""

from __future__ import annotations

import re
from pathlib import Path

from zenspark.arrow.schema import SCHEMA

DOCUMENT = Path(__file__).parents[2] / "docs" / "pipeline.md"


def test_the_table_of_the_sample_schema_has_its_columns() -> None:
    section = DOCUMENT.read_text().split("## The sample schema\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", section, re.MULTILINE)
    assert rows == [(field.name, str(field.type)) for field in SCHEMA]
