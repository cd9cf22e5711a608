"""The browser and the nodes of these tests: each is started once for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import chromium
from tests.browser.chromium import Chromium, Page
from tests.browser.node import NodeSettings
from tests.browser.processes import NodeProcess
from tests.browser.publishers import Robots
from tests.ports import free_port
from tests.programs import require_program

STATIC = Path(__file__).parents[2] / "src/zenspark/web/static/index.html"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, and keep it in one process: all share a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """Run a Chromium; it is installed from the system's packages if it is absent and that is possible."""
    assert STATIC.exists(), "expected the page in src/zenspark/web/static: make page builds it"
    with chromium.started(require_program(*chromium.NAMES), tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """Run a node that records and replies for the past, without ingestion."""
    settings = NodeSettings(
        zid="a1",
        listen=f"tcp/127.0.0.1:{free_port()}",
        http_port=free_port(),
        lake=str(tmp_path_factory.mktemp("lake")),
        ingest=False,
    )
    with NodeProcess(settings) as node:
        yield node


@pytest.fixture(scope="module")
def robots(recorder: NodeProcess) -> Iterator[Robots]:
    """Run the fleet behind the recorder."""
    with Robots(recorder.settings.listen) as fleet:
        yield fleet


@pytest.fixture
def page(browser: Chromium, recorder: NodeProcess, robots: Robots) -> Iterator[Page]:
    """Open the page of the recorder; after the test it has logged no error and sent no request to another host."""
    with browser.open(recorder.url) as opened:
        yield opened
        check_clean(opened, recorder.url)


def check_clean(page: Page, url: str) -> None:
    """Fail if the page has logged an error, or has sent a request to another host."""
    assert page.errors == []
    ours = (f"{url}/", f"{url.replace('http', 'ws', 1)}/", "data:", "blob:", "about:")
    assert [request[:200] for request in page.requests if not request.startswith(ours)] == []
