"""Write the tables of keys in docs/configuration.md from the declarations; with `--check`, only check them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tools.generated_parts import replace_part, write_or_check
from zenspark.cli.up_settings import SETTINGS
from zenspark.config.schema import ConfigField, leaf_keys
from zenspark.config.settings import Settings

TARGET = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
BEGIN, END = "<!-- keys: written by tools/generate_configuration.py -->\n", "<!-- end of keys -->\n"
SETTINGS_BEGIN = "<!-- settings: written by tools/generate_configuration.py -->\n"
SETTINGS_END = "<!-- end of settings -->\n"

USED, WARNED, REFUSED = "used", "named in a warning", "**refused**"


def effect(field: ConfigField, used: bool) -> str:
    """Describe what is done with a value of a key."""
    if used:
        return USED
    return REFUSED if field.key.protects else WARNED


def default(field: ConfigField) -> str:
    """Describe the value of a key that is not set."""
    if field.key.defaults is not None:
        return ", ".join(f"{mode}: `{json.dumps(value)}`" for mode, value in field.key.defaults.items())
    return f"`{json.dumps(field.default)}`"


def table() -> str:
    """Make the table of all keys: default, and what is done with a value."""
    rows = [f"| `{path}` | {default(field)} | {effect(field, used)} |" for path, field, used in leaf_keys(Settings)]
    return "\n".join(["| key | default | a value is |", "|---|---|---|", *rows]) + "\n"


def settings_table() -> str:
    """Make the table of all keys of zenspark.toml: default, flag, meaning."""
    rows = []
    for path, setting in SETTINGS.items():
        flag = f"--{setting.dest.replace('_', '-')}"
        value = "" if setting.default is None else f"`{json.dumps(setting.default)}`"
        rows.append(f"| `{path.replace('/', '.')}` | {value} | `{flag}` | {setting.meaning} |")
    return "\n".join(["| key | default | flag | meaning |", "|---|---|---|---|", *rows]) + "\n"


def renewed(page: str) -> str:
    """Return the page with fresh tables."""
    page = replace_part(page, BEGIN, END, f"\n{table()}\n")
    return replace_part(page, SETTINGS_BEGIN, SETTINGS_END, f"\n{settings_table()}\n")


def main(arguments: list[str]) -> int:
    return write_or_check(TARGET, renewed, arguments, "make configuration")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
