"""Every view of the page, with a node that records and eclipse-zenoh publishers behind it."""

from __future__ import annotations

import csv
import io
import json
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest

from tests.browser.chromium import Page
from tests.browser.node import NodeSettings
from tests.browser.processes import NodeProcess
from tests.browser.publishers import Robots, eclipse_session
from tests.ports import free_port
from tests.wait import until

NUMBER = "document.querySelector('.big-number output')?.textContent"
ANT = "fleet/ant"
FRAMES = (
    "new Promise((done) => { let frames = 0;"
    " const next = () => ++frames > 30 ? done(true) : requestAnimationFrame(next); next(); })"
)
"""Waits for thirty frames."""


def open_key(page: Page, url: str, key: str) -> None:
    page.go(f"{url}/#/keys?key={key}")
    page.wait_text(key, ".key-detail h2")


def test_overview_shows_rates_that_change(page: Page, recorder: NodeProcess) -> None:
    page.wait_text("Messages per second", ".tiles")
    rate = "document.querySelector('[aria-label=\"Messages per second\"] output').textContent"
    page.wait(f"parseFloat({rate}) > 5")
    before = page.evaluate(rate)
    page.wait(f"{rate} !== {json.dumps(before)}")
    recorded = "Number(document.querySelector('[aria-label=\"Rows recorded\"] output').textContent.replace(',', ''))"
    rows = page.evaluate(recorded)
    page.wait(f"{recorded} > {rows}")
    assert "a1" in page.text(".facts")
    assert recorder.settings.listen in page.text(".facts")
    assert page.evaluate("document.querySelectorAll('.tile .sparkline').length") >= 4


def test_keys_are_a_tree_and_values_change(page: Page, recorder: NodeProcess) -> None:
    page.click("a[href='#/keys']")
    page.wait_text("camera", ".key-rows")
    open_key(page, recorder.url, f"{ANT}/battery")
    first = page.wait(NUMBER)
    page.wait(f"{NUMBER} !== {json.dumps(first)}")
    page.wait("document.querySelector('.big-number .sparkline') !== null")


def test_keys_are_loading_until_the_first_arrive(page: Page, recorder: NodeProcess) -> None:
    page.evaluate(
        "window.shown = []; const look = () => shown.push(document.querySelector('.keys')?.innerText ?? '');"
        " new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true })"
    )
    page.click("a[href='#/keys']")
    page.wait_text("camera", ".key-rows")
    shown = page.evaluate("window.shown")
    assert max(text.count("Loading …") for text in shown) == 1
    assert [text for text in shown if "No key was seen" in text] == []


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (f"{ANT}/pose", "document.querySelector('.json-leaf .sparkline') !== null"),
        (f"{ANT}/state", "/driving|waiting/.test(document.querySelector('.value-text')?.textContent ?? '')"),
        (f"{ANT}/camera/front", "document.querySelector('.value-image')?.naturalWidth === 96"),
        (f"{ANT}/lidar", "document.querySelectorAll('.hex-row').length === 16"),
    ],
    ids=["json", "text", "image", "bytes"],
)
def test_values_are_shown_by_their_encoding(page: Page, recorder: NodeProcess, key: str, shown: str) -> None:
    open_key(page, recorder.url, key)
    page.wait(shown)
    page.click_text("Bytes")
    page.wait("document.querySelectorAll('.hex-row').length > 0")
    page.click_text("Recent")
    page.wait("document.querySelectorAll('.key-detail tbody tr').length > 0")
    assert "Published by" not in page.text(".key-detail")


def test_keys_are_found_by_key_expression(page: Page, recorder: NodeProcess) -> None:
    page.go(f"{recorder.url}/#/keys")
    page.wait_text("camera", ".key-rows")
    page.type("input[type=search]", "fleet/*/pose")
    page.wait_text("3 keys of ", ".keys-status")
    page.click_text("List")
    page.wait_text(f"{ANT}/pose", ".key-rows")
    assert "battery" not in page.text(".key-rows")
    page.type("input[type=search]", "fleet/pose*")
    page.wait_text("$*", ".keys-status")
    page.type("input[type=search]", "lidar")
    page.wait_text("3 keys of ", ".keys-status")


def test_pause_stops_the_view(page: Page, recorder: NodeProcess) -> None:
    open_key(page, recorder.url, f"{ANT}/pose")
    heading = "document.querySelector('.value-json')?.textContent"
    before = page.wait(heading)
    page.wait(f"{heading} !== {json.dumps(before)}")
    page.click_text("Pause")
    page.wait_text("paused", ".keys-status")
    page.evaluate(FRAMES)  # what was on its way when it was pressed
    held = page.evaluate(heading)
    page.evaluate(FRAMES)
    assert page.evaluate(heading) == held
    page.click_text("Resume")
    page.wait(f"{heading} !== {json.dumps(held)}")


def test_arrow_keys_move_in_the_tree(page: Page, recorder: NodeProcess) -> None:
    page.go(f"{recorder.url}/#/keys?search=fleet/**")  # not keys of other tests
    page.wait_text("camera", ".key-rows")
    page.focus(".key-rows")
    current = "document.querySelector('.key-row.active .c-name')?.textContent"
    for key, expected in (
        ("ArrowDown", "fleet"),
        ("ArrowRight", "ant"),
        ("ArrowRight", "battery"),
        ("ArrowLeft", "ant"),
    ):
        page.press(key)
        page.wait(f"{current} === {json.dumps(expected)}")
    rows = "Number(document.querySelector('.key-rows .key-row').getAttribute('aria-setsize'))"
    before = page.evaluate(rows)
    page.press("ArrowLeft")
    page.wait(f"{rows} < {before}")
    page.press("ArrowRight")
    page.wait(f"{rows} === {before}")
    page.press("ArrowRight")
    page.wait(f"{current} === 'battery'")
    page.press("Enter")
    page.wait_text(f"{ANT}/battery", ".key-detail h2")


def test_skip_link_moves_the_focus_to_main(page: Page) -> None:
    page.press("Tab", 9)
    page.wait("document.activeElement.className === 'skip'")
    page.press("Enter", 13, text="\r")
    page.wait("document.activeElement.id === 'main'")


def count_past_samples(url: str, key: str) -> int:
    """Request the recorded history of a key, as the page does."""
    with urllib.request.urlopen(f"{url}/_api/past?key={key}") as reply:
        return len(json.load(reply)["samples"])


def test_slider_shows_an_old_value(page: Page, recorder: NodeProcess) -> None:
    assert until(lambda: count_past_samples(recorder.url, f"{ANT}/battery") > 3)
    page.go(f"{recorder.url}/#/time?key={ANT}/battery")
    page.wait("document.querySelectorAll('.uplot canvas').length === 1")
    newest = page.wait(f"Number({NUMBER})")
    page.click_text("◀")
    page.wait(f"Number({NUMBER}) > {newest}")
    older = page.evaluate(f"Number({NUMBER})")
    marks = "(document.querySelector('.slider-marks path')?.getAttribute('d') ?? '')"
    before = page.evaluate(marks)
    page.choose("select", "60")
    page.wait(f"{marks} !== '' && {marks} !== {json.dumps(before)}")
    # where the first samples are: marks of the slider from its left
    first = page.wait(
        "(() => { const path = document.querySelector('.slider-marks path')?.getAttribute('d') ?? '';"
        " const found = path.match(/M(\\d+)/); return found && Number(found[1]) + 1; })()"
    )
    page.choose("input[type=range]", str(first + 20))
    page.wait(f"Number({NUMBER}) >= {older}")


def test_any_range_of_the_past_can_be_chosen(page: Page, recorder: NodeProcess) -> None:
    assert until(lambda: count_past_samples(recorder.url, f"{ANT}/battery") > 3)
    now = datetime.now(UTC)
    start, end = (f"{now + timedelta(hours=hours):%Y-%m-%dT%H:%M:%S.000Z}" for hours in (-200, 1))
    page.go(f"{recorder.url}/#/time?key={ANT}/battery&from={start}&to={end}")
    page.wait("document.querySelectorAll('.uplot canvas').length === 1")
    field = "document.querySelector('.toolbar input[type=datetime-local]').value"
    assert page.evaluate(f"new Date({field}).toISOString()") == start
    limits = "[...new URLSearchParams(location.hash.split('?')[1]).entries()]"
    assert dict(page.evaluate(limits)) == {"key": f"{ANT}/battery", "from": start, "to": end}
    drag(page, ".chart .u-over", 0.5, 0.999)
    page.wait(f"Object.fromEntries({limits}).from > {json.dumps(start)}")
    page.wait("document.querySelectorAll('.uplot canvas').length === 1")
    page.choose(".toolbar input[type=datetime-local]", "2020-01-01T00:00:00")
    page.wait(f"/^20(19|20)-/.test(Object.fromEntries({limits}).from)")
    page.choose("select", "300")
    page.wait("!location.hash.includes('from=')")


def drag(page: Page, selector: str, start: float, end: float) -> None:
    """Drag over an element, between shares of its width."""
    left, top, width, height = page.wait(
        f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
        " const r = e.getBoundingClientRect(); return r.width > 0 && [r.x, r.y, r.width, r.height]; })()"
    )
    for kind, share in (("mouseMoved", start), ("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
        at = {"x": left + width * share, "y": top + height / 2}
        page.call("Input.dispatchMouseEvent", type=kind, button="left", buttons=1, clickCount=1, **at)


def test_past_can_be_exported(page: Page, recorder: NodeProcess) -> None:
    page.go(f"{recorder.url}/#/time?key={ANT}/pose")
    page.wait("document.querySelector('select[aria-label=\"Numeric field\"]')?.options.length === 3")
    page.choose("select[aria-label='Numeric field']", "heading")
    page.wait("document.querySelector('.chart')?.getAttribute('aria-label') === 'heading over time'")
    links = page.evaluate("[...document.querySelectorAll('.exports a')].map((link) => [link.textContent, link.href])")
    assert [name for name, _ in links] == ["CSV", "JSON", "Parquet"]
    with urllib.request.urlopen(links[0][1]) as response:
        rows = list(csv.DictReader(io.TextIOWrapper(response)))
    assert {row["key"] for row in rows} == {f"{ANT}/pose"}


def test_router_and_token_come_and_go(page: Page, recorder: NodeProcess) -> None:
    page.go(f"{recorder.url}/#/network")
    page.wait_text("2 nodes")
    page.wait("document.querySelectorAll('.graph canvas').length > 0")
    page.wait_text("fleet/ant/diagnosis", "[aria-label=Declarations]")
    settings = NodeSettings(zid="b2", listen=f"tcp/127.0.0.1:{free_port()}", connect=[recorder.settings.listen])
    with NodeProcess(settings):
        page.wait_text("3 nodes")
        page.wait_text("b2", "[aria-label=Nodes]")
    page.wait_text("2 nodes")
    with eclipse_session(recorder.settings.listen) as session:
        with session.liveliness().declare_token("visitor/alive"):
            page.wait_text("visitor/alive", "[aria-label=Events]")
        page.wait_text("token disappeared", "[aria-label=Events]")
    page.wait_text("session closed", "[aria-label=Events]")
    page.wait("document.querySelectorAll('.lane .bar.ended').length > 0")


def test_query_shows_replies_with_latency_and_replier(page: Page, recorder: NodeProcess) -> None:
    page.go(f"{recorder.url}/#/query")
    page.type("input.mono", "fleet/*/diagnosis")
    page.click_text("Send")
    page.wait_text("all fine", ".replies")
    assert page.evaluate("/^[\\d.]+ (µs|ms|s)$/.test(document.querySelector('.reply-latency').textContent)")
    assert len(page.text(".reply-replier")) == 8
    selector = f"{ANT}/pose?_time=[now(-1m)..]"
    with eclipse_session(recorder.settings.listen) as session:
        until(lambda: len(list(session.get(selector))) > 5)  # the page sends the query once: so many must be recorded
    page.type("input.mono", selector)
    page.click_text("Send")
    page.wait("document.querySelectorAll('.replies li').length > 5")
    page.click(".replies summary")
    page.wait("document.querySelector('.replies .json') !== null")


def test_page_publishes_and_deletes(page: Page, recorder: NodeProcess) -> None:
    with eclipse_session(recorder.settings.listen) as session:
        samples = session.declare_subscriber("demo/hello")
        page.go(f"{recorder.url}/#/query")
        page.type("input[placeholder='demo/hello']", "demo/hello")
        page.type("textarea", "from the page")
        page.click_text("Put")
        page.wait_text("Published demo/hello.")
        sample = samples.recv()
        assert (sample.payload.to_string(), str(sample.encoding)) == ("from the page", "text/plain")
        page.click_text("Delete")
        page.wait_text("Deleted demo/hello.")
        assert str(samples.recv().kind) == "SampleKind.DELETE"


def test_scheme_can_be_changed_and_stays(page: Page, recorder: NodeProcess) -> None:
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)
    page.click("button[aria-label*='dark colour scheme']")
    page.wait(f"{background} !== {json.dumps(light)}")
    page.reload()
    page.wait_text("Messages per second")
    assert page.evaluate(background) != light
    page.click("button[aria-label*='light colour scheme']")
    page.wait(f"{background} === {json.dumps(light)}")


@pytest.mark.parametrize("view", ["sql", "pipeline"])
def test_views_load_where_nothing_was_ingested(page: Page, recorder: NodeProcess, robots: Robots, view: str) -> None:
    page.go(f"{recorder.url}/#/{view}")
    page.wait("!document.querySelector('main').innerText.includes('Loading')")
