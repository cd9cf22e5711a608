"""Any text has one canonical form or none, and two key expressions relate as sets do: both builds, both orders.

Lines of the input are key expressions, of which the first two are compared. How to run: see harness.py.
"""

from __future__ import annotations

from fuzz.harness import run
from zenspark.errors import UsageError
from zenspark.key import KeyExpr, SetIntersectionLevel, canonicalize


def canonical(text: str) -> str | None:
    """Return the canonical form, which is valid and its own canonical form; None for a text that has none."""
    try:
        found = canonicalize(text)
    except UsageError:
        assert not is_valid(text), text
        return None
    assert canonicalize(found) == found, text
    assert is_valid(found), text
    assert is_valid(text) == (found == text), text
    return found


def is_valid(text: str) -> bool:
    try:
        KeyExpr(text)
    except UsageError:
        return False
    return True


def compare(a: KeyExpr, b: KeyExpr) -> None:
    assert a.includes(a), a
    assert a.intersects(a), a
    assert a.intersects(b) == b.intersects(a), (a, b)
    assert a.intersects(b) or not a.includes(b), (a, b)
    assert a == b or not (a.includes(b) and b.includes(a)), (a, b)
    if not b.is_wild:
        assert a.intersects(b) == a.includes(b), (a, b)
    level = a.relation_to(b)
    assert (level >= SetIntersectionLevel.INTERSECTS) == a.intersects(b), (a, b)
    assert (level >= SetIntersectionLevel.INCLUDES) == a.includes(b), (a, b)
    assert (level is SetIntersectionLevel.EQUALS) == (a == b), (a, b)


def check(data: bytes) -> None:
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    found = [text for line in lines[:2] if (text := canonical(line)) is not None]
    if len(found) == 2:
        compare(KeyExpr(found[0]), KeyExpr(found[1]))
        compare(KeyExpr(found[1]), KeyExpr(found[0]))


def main() -> None:
    run(check)


if __name__ == "__main__":
    main()
