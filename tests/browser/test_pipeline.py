"""SQL and Pipeline with a node that ingests into tables with Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.browser.accessibility import FORMS, check_accessible
from tests.browser.chromium import Chromium, Page
from tests.browser.conftest import check_clean
from tests.browser.node import NodeSettings
from tests.browser.processes import NodeProcess
from tests.browser.publishers import Robots
from tests.ports import free_port

QUERY = "select key, count(*) as n from samples group by key order by n desc"
REFRESHED = "/refresh.*derived tables refreshed/s.test(document.querySelector('[aria-label^=Maintenance]')?.innerText)"
"""The table of maintenance has a run of the task refresh."""
SPARK_TIMEOUT_SECONDS = 300.0
"""Seconds until Spark has written its first batch, on a machine with much else to do."""


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """Run a node with all that `zenspark up` has, and a fleet behind it."""
    lake = str(tmp_path_factory.mktemp("lake"))
    settings = NodeSettings(zid="a1", listen=f"tcp/127.0.0.1:{free_port()}", http_port=free_port(), lake=lake)
    with NodeProcess(settings) as node, Robots(settings.listen):
        yield node


ROWS = "parseInt(document.querySelector('[aria-label=\"Rows in tables\"] output')?.textContent ?? '0')"


@pytest.fixture
def page(browser: Chromium, pipeline: NodeProcess) -> Iterator[Page]:
    """Open the page once the first rows are in the tables."""
    with browser.open(pipeline.url) as opened:
        opened.wait(f"{ROWS} > 0", SPARK_TIMEOUT_SECONDS)
        yield opened
        check_clean(opened, pipeline.url)


def run_sql(page: Page, query: str) -> None:
    """Write a query into the editor and run it."""
    page.wait_text("samples", "[aria-label=Tables]")
    page.focus(".cm-content")
    page.press("a", 65, modifiers=2)
    page.call("Input.insertText", text=query)
    page.press("Enter", 13, modifiers=2)


def test_sql_result_is_shown_as_table_and_chart(page: Page, pipeline: NodeProcess) -> None:
    page.go(f"{pipeline.url}/#/sql")
    run_sql(page, QUERY)
    page.wait("document.querySelectorAll('.result tbody tr').length === 15")
    assert page.text(".result tbody td").startswith("fleet/")
    page.click_text("Chart")
    page.wait("document.querySelectorAll('.uplot canvas').length === 1")


def test_sql_error_is_one_line(page: Page, pipeline: NodeProcess) -> None:
    page.go(f"{pipeline.url}/#/sql")
    page.wait_text("samples", "[aria-label=Tables]")
    page.focus(".cm-content")
    page.press("a", 65, modifiers=2)
    page.call("Input.insertText", text="select * from sampels")
    page.click_text("Run")
    page.wait("(document.querySelector('.failure')?.textContent ?? '').includes('sampels')")
    page.errors.clear()  # the browser logs the status 400


def test_queries_are_saved_and_completed(page: Page, pipeline: NodeProcess) -> None:
    page.go(f"{pipeline.url}/#/sql")
    page.wait_text("samples", "[aria-label=Tables]")
    page.type("input[aria-label='Name of the query']", "mine")
    page.click_text("Save")
    page.wait_text("mine", ".queries")
    page.reload()
    page.wait_text("mine", ".queries")
    page.click("button[aria-label='Delete mine']")
    page.wait("!document.querySelector('.queries').innerText.includes('mine')")
    page.focus(".cm-content")
    page.press("a", 65, modifiers=2)
    page.call("Input.insertText", text="select * from sam")
    page.press(" ", 32, modifiers=2)
    page.wait_text("samples", ".cm-tooltip-autocomplete")


def test_pipeline_shows_batches_and_tables(page: Page, pipeline: NodeProcess) -> None:
    page.go(f"{pipeline.url}/#/pipeline")
    page.wait_text("samples", ".lake")
    page.wait("document.querySelectorAll('[aria-label=\"Last batches\"] tbody tr').length > 0")
    batches = page.text("[aria-label='Last batches']")
    page.wait(f"document.querySelector('[aria-label=\"Last batches\"]').innerText !== {json.dumps(batches)}")
    for panel in ("Lag", "Rows written per second", "Gaps and repetitions by source", "Losses and errors"):
        assert page.evaluate(f"document.querySelector('section[aria-label={json.dumps(panel)}]') !== null"), panel
    page.wait(REFRESHED)
    assert "compaction" in page.text("[aria-label^=Maintenance]")


@pytest.mark.parametrize("form", FORMS)
def test_views_with_data_have_no_accessibility_violations(browser: Chromium, pipeline: NodeProcess, form: str) -> None:
    size, scheme = FORMS[form]
    with browser.open(pipeline.url, size, scheme) as page:
        page.wait(f"{ROWS} > 0", SPARK_TIMEOUT_SECONDS)
        check_accessible(page, "overview")
        page.go(f"{pipeline.url}/#/sql")
        run_sql(page, QUERY)
        page.wait("document.querySelectorAll('.result tbody tr').length === 15")
        check_accessible(page, "sql, a table")
        page.click_text("Chart")
        page.wait("document.querySelectorAll('.uplot canvas').length === 1")
        check_accessible(page, "sql, a chart")
        page.go(f"{pipeline.url}/#/pipeline")
        page.wait("document.querySelectorAll('[aria-label=\"Last batches\"] tbody tr').length > 0")
        page.wait(REFRESHED)
        check_accessible(page, "pipeline")
        check_clean(page, pipeline.url)
