"""The protocol reference shows what was captured, and has the sections that the code refers to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "protocol").glob("*.md"))}
VECTORS = ROOT / "tests" / "vectors"
ARROWS = {"→": "c2s", "←": "s2c"}
HEX = re.compile(r"(?:[0-9a-f]{2})+…?")
REFERENCE = re.compile(r"\b[Pp]rotocol\s+section\s+(\d+(?:\.\d+)?)")
OTHER_FORM = re.compile(r"protocol\.md,?\s+(?:section )?\d|section \d+(?:\.\d+)? of the protocol")
"""Ways to cite a section that are not those of the index, `docs/protocol.md`."""


def section(page: str, title: str) -> str:
    """Return the text from a heading to the next of that level or above."""
    text = PAGES[page]
    found = re.search(rf"^(#+) {re.escape(title)}", text, re.MULTILINE)
    assert found is not None
    end = re.compile(rf"^#{{1,{len(found[1])}}} ", re.MULTILINE).search(text, found.end())
    return text[found.end() : end.start() if end else None]


def test_the_table_of_key_expressions_has_the_captured_facts() -> None:
    rows = re.findall(
        r"^\| `([^`]+)` \| `([^`]+)` \| (yes|no) \| (yes|no) \| (yes|no) \|$", section("keyexpr", "12.4"), re.MULTILINE
    )
    lines = (VECTORS / "keyexpr" / "relations.jsonl").read_text(encoding="utf-8").splitlines()
    facts = [tuple(json.loads(line).values()) for line in lines]
    assert [(a, b, *(word == "yes" for word in words)) for a, b, *words in rows] == facts[: len(rows)]
    assert (len(rows), len(facts)) == (129, 129 + 400)


def captured_runs(block: str) -> Iterator[tuple[str, str]]:
    """Direction and hex digits of each run of bytes; a run ends where the next batch begins, or at an ellipsis."""
    direction, run = "", ""
    for line in block.splitlines():
        if line[:1] in ARROWS:
            yield direction, run
            direction, run = ARROWS[line[0]], ""
        for word in re.split(r"\s{2,}", line[1:].strip())[0].split():
            if not HEX.fullmatch(word):
                break
            run += word.rstrip("…")
            if word.endswith("…"):
                yield direction, run
                run = ""
    yield direction, run


def test_the_annotated_bytes_are_those_of_the_captured_sessions() -> None:
    blocks = re.findall(r"```\n(.*?)```", section("captures", "22. "), re.DOTALL)
    for block, name in zip(blocks, ("pubsub", "queries", "queries"), strict=True):
        streams = {end: (VECTORS / f"streams/{name}_client_router.{end}.bin").read_bytes() for end in ARROWS.values()}
        places = dict.fromkeys(streams, 0)
        shown = 0
        for direction, run in captured_runs(block):
            if run:
                place = streams[direction].find(bytes.fromhex(run), places[direction])
                assert place >= 0, f"{name}, {direction}: {run} is not there, or earlier"
                places[direction] = place + len(run) // 2
                shown += len(run) // 2
        assert shown > 50


def headings() -> list[str]:
    """Return the numbers of all sections, in the order of the index; headings in code blocks are none."""
    index = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    pages = re.findall(r"^\| \[[^]]+\]\(protocol/(\w+)\.md\) ", index, re.MULTILINE)
    assert sorted(pages) == sorted(PAGES)
    texts = (re.sub(r"^```.*?^```$", "", PAGES[page], flags=re.MULTILINE | re.DOTALL) for page in pages)
    return [number for text in texts for number in re.findall(r"^#+ (\d+(?:\.\d+)?)\.? ", text, re.MULTILINE)]


def test_sections_are_numbered_through_all_pages() -> None:
    numbers = [tuple(map(int, number.split("."))) for number in headings()]
    assert numbers == sorted(set(numbers))
    assert [number for number in numbers if len(number) == 1] == [(number,) for number in range(1, 25)]


def citing() -> list[Path]:
    """Return the files that cite sections, this one excepted."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
    return [file for file in files if file != Path(__file__)]


def test_sections_that_the_code_refers_to_exist() -> None:
    rows = {f"21.{row}" for row in re.findall(r"^\| (\d+) \|", section("quirks", "21. "), re.MULTILINE)}
    known = {*headings(), *rows}
    named = {(file, number) for file in citing() for number in REFERENCE.findall(file.read_text(encoding="utf-8"))}
    assert len(named) > 20
    assert {(str(file), number) for file, number in named if number not in known} == set()


def test_sections_are_cited_in_one_form() -> None:
    found = {(str(file), text) for file in citing() for text in OTHER_FORM.findall(file.read_text(encoding="utf-8"))}
    assert found == set()
