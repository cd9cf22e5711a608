"""Writes the pictures of the page for the manual: `python -m tests.browser.screenshots [FOLDER]` (docs/images)."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.browser import chromium
from tests.browser.chromium import Page
from tests.browser.node import NodeSettings
from tests.browser.processes import NodeProcess
from tests.browser.publishers import Robots, eclipse_session
from tests.ports import free_port
from tests.programs import find_program

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/images"
LAKE = Path("build/screenshots/lake")
"""In the project's folder, where the node runs: the pictures show it."""
MAX_BYTES = 150_000
WARM_UP_SECONDS = 60
"""How long the fleet publishes before the pictures, so that there is something to see."""
SPARK_TIMEOUT_SECONDS = 300.0
SIZE = (1180, 760)
ROWS_INGESTED = "!/^0?$/.test(document.querySelector('[aria-label=\"Rows in tables\"] output')?.textContent ?? '')"
VIEWS = {
    "overview": ("overview", "document.querySelectorAll('.tile').length > 8"),
    "keys": ("keys?key=fleet/ant/pose", "document.querySelectorAll('.json-leaf .sparkline').length === 3"),
    "time": ("time?key=fleet/ant/pose", "document.querySelectorAll('.uplot, .value').length === 2"),
    "network": ("network", "document.querySelectorAll('.graph canvas').length > 0"),
    "query": ("query?selector=fleet/**", "document.querySelector('textarea') !== null"),
    "sql": ("sql", "document.querySelector('.cm-editor') !== null"),
    "pipeline": ("pipeline", "document.querySelectorAll('[aria-label=\"Last batches\"] tbody tr').length > 0"),
}
AFTER = {
    "time": "document.querySelector('input[type=range]') !== null",
    "query": "document.querySelectorAll('.replies li').length > 0",
    "sql": "document.querySelectorAll('.result tbody tr').length > 0",
}


def prepare(page: Page, name: str) -> None:
    """Do in a view what a user would do first."""
    if name == "query":
        page.click_text("Send")
    elif name == "sql":
        page.click_text("Run")
    elif name == "time":
        page.choose("input[type=range]", "930")
    if name in AFTER:
        page.wait(AFTER[name])


def take(page: Page, url: str, folder: Path, suffix: str = "") -> None:
    """Take the pictures of all views."""
    for name, (route, shown) in VIEWS.items():
        page.go(f"{url}/#/{route}")
        page.wait(shown)
        prepare(page, name)
        time.sleep(1.5)  # curves and graphs have come to rest
        file = folder / f"{name}{suffix}.png"
        page.screenshot(file)
        assert file.stat().st_size < MAX_BYTES, f"{file} has {file.stat().st_size} bytes"
        print(file, file.stat().st_size)


def main(arguments: list[str]) -> int:
    """Run a node and a fleet, and take the pictures. Returns the exit code."""
    folder = Path(arguments[0]) if arguments else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    binary = find_program(*chromium.NAMES)
    if binary is None:
        print("screenshots: expected Chromium: apt-get install chromium", file=sys.stderr)
        return 1
    shutil.rmtree(ROOT / LAKE, ignore_errors=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        settings = NodeSettings(zid="a1", listen=f"tcp/127.0.0.1:{free_port()}", lake=str(LAKE))
        with NodeProcess(settings) as node, Robots(settings.listen), eclipse_session(settings.listen, "peer"):
            other = NodeSettings(zid="b2", listen=f"tcp/127.0.0.1:{free_port()}", connect=[settings.listen])
            with NodeProcess(other), chromium.started(binary, Path(place, "profile")) as browser:
                time.sleep(WARM_UP_SECONDS)
                with browser.open(node.url, SIZE) as page:
                    page.wait(
                        ROWS_INGESTED,
                        SPARK_TIMEOUT_SECONDS,
                    )
                    take(page, node.url, folder)
                with browser.open(node.url, SIZE, "dark") as page:
                    page.go(f"{node.url}/#/overview")
                    page.wait(VIEWS["overview"][1])
                    page.screenshot(folder / "overview-dark.png")
                with browser.open(node.url, chromium.PHONE) as page:
                    page.go(f"{node.url}/#/keys")
                    page.wait("document.querySelectorAll('.key-row').length > 5")
                    page.screenshot(folder / "keys-phone.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
