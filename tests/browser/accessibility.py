"""Accessibility of what a page shows, as axe finds it, and its forms: both colour schemes, and a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser.chromium import DESKTOP, PHONE, Page

AXE = Path(__file__).parents[2] / "page/node_modules/axe-core/axe.min.js"
FORMS = {"light": (DESKTOP, "light"), "dark": (DESKTOP, "dark"), "phone": (PHONE, "light")}
"""Size of the window and colour scheme of the system, by name."""
LOADED = "typeof axe !== 'undefined'"
NO_TRANSITIONS = "document.getAnimations().every((each) => !(each instanceof CSSTransition))"
"""No colour is on its way to another, which axe would measure half way."""


def check_accessible(page: Page, view: str) -> None:
    """Fail if axe finds a violation in what the page shows now, or if it is wider than the screen."""
    if not page.evaluate(LOADED):
        page.evaluate(AXE.read_text())
    page.wait(NO_TRANSITIONS)
    found = violations(page)
    assert found == [], f"{view}: {found}"
    width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0, f"{view} is {width} pixels wider than the screen"


def violations(page: Page) -> list[Any]:
    """Return what axe finds, in short, except for colours of text over a canvas, which it cannot determine."""
    script = (
        "axe.run(document, {resultTypes: ['violations']}).then((found) =>"
        " found.violations.map((each) => [each.id, each.help, each.nodes.map((node) => node.html.slice(0, 200))]))"
    )
    found: list[Any] = page.evaluate(script)
    return found
