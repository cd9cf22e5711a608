"""Writes the map of the packages into CONTRIBUTING.md, from their docstrings; with `--check`, only checks it.

The order is that of the layers in the import contracts of pyproject.toml, highest first. The first paragraph of a
package's or module's docstring is its description.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.generated_parts import replace_part, write_or_check

ROOT = Path(__file__).parents[1]
SOURCES = Path("src/zenspark")
TARGET = Path("CONTRIBUTING.md")
BEGIN, END = "<!-- map: written by tools/render_map.py -->\n", "<!-- end of map -->\n"
LAYERS = "each layer knows only the layers below it"


def read_layers(root: Path) -> list[str]:
    """List the packages and modules of the layers, highest first, as the import contract has them."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["name"] == LAYERS)
    return [name.strip().strip("()") for layer in layers for name in layer.split("|")]


def describe(file: Path) -> str:
    """Read the first paragraph of a docstring, as one line."""
    docstring = ast.get_docstring(ast.parse(file.read_text()))
    if not docstring:
        raise SystemExit(f"{file} has no docstring: the map is made from it")
    return " ".join(docstring.split("\n\n")[0].split())


def list_places(root: Path) -> Iterator[tuple[str, str]]:
    """List every layer and the packages inside it, each with its description."""
    sources = root / SOURCES
    for name in read_layers(root):
        module = sources / f"{name}.py"
        if module.exists():
            yield f"{SOURCES}/{name}.py", describe(module)
            continue
        for package in sorted((sources / name).rglob("__init__.py")):
            yield f"{package.parent.relative_to(root)}/", describe(package)


def render(root: Path) -> str:
    """Make the table of the map."""
    rows = [f"| `{place}` | {text.replace('|', chr(92) + '|')} |" for place, text in list_places(root)]
    return "\n".join(["| where | what |", "|---|---|", *rows]) + "\n"


def renewed(text: str, root: Path) -> str:
    """Return the document with a fresh map."""
    return replace_part(text, BEGIN, END, render(root))


def main(arguments: list[str]) -> int:
    return write_or_check(ROOT / TARGET, lambda text: renewed(text, ROOT), arguments, "make map")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
