"""Parts of documents that tools generate: each stands between two marks, and is written, or compared with `--check`."""

import sys
from collections.abc import Callable
from pathlib import Path


def replace_part(page: str, begin: str, end: str, text: str) -> str:
    """Return the page with another text between two marks."""
    head, mark, rest = page.partition(begin)
    assert mark, f"the page has no place for {begin.strip()}"
    return f"{head}{begin}{text}{end}{rest.partition(end)[2]}"


def write_or_check(target: Path, renew: Callable[[str], str], arguments: list[str], command: str) -> int:
    """Write the renewed page; with `--check`, return 1 if it differs, and name the command that writes it."""
    page = target.read_text()
    renewed = renew(page)
    if "--check" not in arguments:
        target.write_text(renewed)
    elif renewed != page:
        print(f"{target.name} is not fresh: run `{command}`", file=sys.stderr)
        return 1
    return 0
