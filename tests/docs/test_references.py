"""Documents name files, modules and sections that exist."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from zenspark.cli import COMMANDS, command_parser

ROOT = Path(__file__).parents[2]
HISTORY = ROOT / "CHANGELOG.md"
"""It names what was once there, too."""
DOCUMENTS = sorted({*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")} - {HISTORY})
FILE = re.compile(r"[\w*./-]*\w\.(?:py|pxd|pyi|toml|md|ts|js|html|jsonl|json5)")
MODULE = re.compile(r"(?:zenspark|pyspark_zenoh)(?:\.\w+)+")
BASES = ("src", "src/zenspark", "docs", "tests")
OF_THE_USER = frozenset(
    {"config.json5", "node.json5", "zenspark.json5", "zenspark.toml", "router.json5", "robot.json5"}
)
"""Files that a reader has, in examples."""

NO_MODULES = {
    "zenspark.net.messages": "a logger",
    "zenspark.schema": "a property of tables",
    "zenspark.toml": "the configuration file of `zenspark up`",
}


@cache
def tracked() -> frozenset[str]:
    """Every file of the repository, and every folder."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:  # an unpacked archive
        return frozenset(str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if ".venv" not in path.parts)
    files = listed.stdout.splitlines()
    return frozenset(files) | {str(parent) for file in files for parent in Path(file).parents}


def quoted(document: Path) -> Iterator[str]:
    """Everything in backticks outside of code blocks."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`([^`\n]+)`", text)


def exists(path: str) -> bool:
    """Whether a file is there: relative to one of the folders that documents refer to, or anywhere if it has no folder.

    `*` is any name.
    """
    folders = "|".join(f"{base}/" for base in BASES) if "/" in path else ".*/"
    pattern = re.compile(f"(?:{folders})?{_wild(path)}")
    return any(pattern.fullmatch(file) for file in tracked())


def _wild(path: str) -> str:
    return "[^/]*".join(map(re.escape, path.split("*")))


def is_defined(name: str) -> bool:
    """Whether a dotted name is a module, or a name that a module defines or imports."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        base = Path("src", *parts[:count])
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if (ROOT / file).exists():
                rest = parts[count:]
                return not rest or re.search(rf"\b{rest[0]}\b", (ROOT / file).read_text()) is not None
    return False


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_named_in_a_document_exist(document: Path) -> None:
    named = {one.split("::")[0] for one in quoted(document) if FILE.fullmatch(one.split("::")[0])}
    assert {path for path in named if path not in OF_THE_USER and not exists(path)} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_named_in_a_document_exist(document: Path) -> None:
    named = {one.removesuffix("()") for one in quoted(document) if MODULE.fullmatch(one.removesuffix("()"))}
    assert {name for name in named if name not in NO_MODULES and not is_defined(name)} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_a_document_lead_somewhere(document: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    links = {link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link}
    assert {link for link in links if not _leads_somewhere(document, link)} == set()


def _leads_somewhere(document: Path, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = (document.parent / file).resolve() if file else document
    return target.exists() and (not anchor or anchor in _anchors(target))


def _anchors(document: Path) -> set[str]:
    """Names of the headings of a document, as forges make them."""
    headings = re.findall(r"^#+ +(.+)$", document.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-") for heading in headings}


def command_lines(document: Path) -> Iterator[list[str]]:
    """Arguments of every `zenspark COMMAND` at the prompt in code blocks, up to a pipe or a redirection."""
    for block in re.findall(r"^```.*?^```$", document.read_text(), flags=re.MULTILINE | re.DOTALL):
        for line in re.findall(r"^\$ zenspark (\w.*)$", block, flags=re.MULTILINE):
            words = shlex.split(line, comments=True)
            yield words[: next((at for at, word in enumerate(words) if word in "|>&"), None)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_command_lines_of_a_document_are_accepted(document: Path) -> None:
    for command, *arguments in command_lines(document):
        assert command in COMMANDS
        command_parser(command).parse_args(arguments)  # exits if there is no such flag
