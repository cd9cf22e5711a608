"""Every view in both colour schemes and on a phone: axe finds no violation, nothing is wider than the screen.

SQL and Pipeline with tables behind them are in test_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.accessibility import FORMS, check_accessible
from tests.browser.chromium import Chromium, Page
from tests.browser.conftest import check_clean
from tests.browser.processes import NodeProcess
from tests.browser.publishers import Robots

VIEWS = {
    "overview": "document.querySelectorAll('.tile').length > 3",
    "keys?key=fleet/ant/pose": "document.querySelector('.json-leaf') !== null",
    "time?key=fleet/ant/pose": "document.querySelector('.uplot') !== null && document.querySelector('.value') !== null",
    "network": "document.querySelectorAll('.graph canvas').length > 0",
    "query": "document.querySelector('textarea') !== null",
    "sql": "document.querySelector('.empty') !== null",
    "pipeline": "document.querySelector('main').children.length > 0",
}


@pytest.fixture(params=FORMS)
def form(
    request: pytest.FixtureRequest, browser: Chromium, recorder: NodeProcess, robots: Robots
) -> Iterator[tuple[Page, str]]:
    """Open the page in one of the forms."""
    size, scheme = FORMS[request.param]
    with browser.open(recorder.url, size, scheme) as page:
        yield page, recorder.url
        check_clean(page, recorder.url)


def test_views_have_no_accessibility_violations(form: tuple[Page, str]) -> None:
    page, url = form
    for view, shown in VIEWS.items():
        page.go(f"{url}/#/{view}")
        page.wait(shown)
        check_accessible(page, view)
