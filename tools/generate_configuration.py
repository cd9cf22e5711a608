"""Write the table of keys in docs/configuration.md from the declarations; with `--check`, only say if it is fresh."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from zenspark.config.schema import ConfigField, leaf_keys
from zenspark.config.settings import Settings

TARGET = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
BEGIN, END = "<!-- keys: written by tools/generate_configuration.py -->\n", "<!-- end of keys -->\n"

USED, WARNED, REFUSED = "used", "named in a warning", "**refused**"


def effect(field: ConfigField, used: bool) -> str:
    """What becomes of a value of a key."""
    if used:
        return USED
    return REFUSED if field.key.protects else WARNED


def default(field: ConfigField) -> str:
    """What counts while a key is not set."""
    if field.key.defaults is not None:
        return ", ".join(f"{mode}: `{json.dumps(value)}`" for mode, value in field.key.defaults.items())
    return f"`{json.dumps(field.default)}`"


def table() -> str:
    """Every key, its default, and what becomes of a value."""
    rows = [f"| `{path}` | {default(field)} | {effect(field, used)} |" for path, field, used in leaf_keys(Settings)]
    return "\n".join(["| key | default | a value is |", "|---|---|---|", *rows]) + "\n"


def renewed(page: str) -> str:
    """The page with the table of today."""
    head, begin, rest = page.partition(BEGIN)
    tail = rest.partition(END)[2]
    assert begin, f"{TARGET.name} has no place for the table"
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


def main(arguments: list[str]) -> int:
    page = TARGET.read_text()
    if "--check" not in arguments:
        TARGET.write_text(renewed(page))
        return 0
    if renewed(page) == page:
        return 0
    print("docs/configuration.md is not what the declarations say: run `make configuration`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
