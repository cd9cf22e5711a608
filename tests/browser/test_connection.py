"""The page and its node: restarts, logins, nodes without a pipeline, and many keys."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import zenoh

from tests.browser.chromium import Chromium, Page
from tests.browser.conftest import check_clean
from tests.browser.node import NodeSettings
from tests.browser.processes import NodeProcess
from tests.browser.publishers import eclipse_session
from tests.ports import free_port
from tests.wait import until

TOKEN = "let me in"
MANY = 10_000


@pytest.fixture
def router() -> Iterator[NodeProcess]:
    """Run a router without a pipeline, read-only."""
    settings = NodeSettings(zid="c3", listen=f"tcp/127.0.0.1:{free_port()}", http_port=free_port(), write=False)
    with NodeProcess(settings) as node:
        yield node


def test_page_survives_a_restart_of_the_node(browser: Chromium, router: NodeProcess) -> None:
    with browser.open(router.url) as page:
        page.wait("document.querySelector('.lamp.connected') !== null")
        assert page.errors == []
        router.stop()
        page.wait_text("Not connected")
        router.start()
        page.wait("document.querySelector('.lamp.connected') !== null")
        assert "Not connected" not in page.text()
        page.go(f"{router.url}/#/keys")
        with eclipse_session(router.settings.listen) as session:

            def is_shown_after_put() -> bool:
                session.put("after/restart", "back")  # again: the node subscribes when the page requests keys
                return "restart" in page.text("main")

            assert until(is_shown_after_put)
        assert [error for error in page.errors if "ERR_CONNECTION" not in error and "WebSocket" not in error] == []


def test_views_of_a_router_without_pipeline_show_hints(browser: Chromium, router: NodeProcess) -> None:
    with browser.open(router.url) as page:
        page.wait_text("This node records nothing")
        for view, sentence in (
            ("sql", "This node has no tables"),
            ("pipeline", "No pipeline runs in this node"),
            ("query", "This page only reads"),
            ("keys", "No key was seen yet"),
        ):
            page.go(f"{router.url}/#/{view}")
            page.wait_text(sentence)
        check_clean(page, router.url)


def test_login_form_opens_the_page(browser: Chromium) -> None:
    settings = NodeSettings(zid="d4", listen=f"tcp/127.0.0.1:{free_port()}", token=TOKEN)
    with NodeProcess(settings) as node, browser.open(node.url) as page:
        log_in(page, "wrong")
        page.wait("document.querySelector('.failure') !== null")
        log_in(page, TOKEN)
        page.wait_text("Messages per second")
        page.wait("document.querySelector('.lamp.connected') !== null")
        page.reload()
        page.wait_text("Messages per second")
        assert TOKEN not in page.evaluate("JSON.stringify(localStorage) + document.cookie")


def test_login_form_has_the_methods_of_the_node_and_opens_no_websocket(browser: Chromium) -> None:
    settings = NodeSettings(zid="e5", listen=f"tcp/127.0.0.1:{free_port()}", user="ann", password=TOKEN)
    with NodeProcess(settings) as node, browser.open(node.url) as page:
        page.wait_text("Log in")
        labels = page.evaluate("[...document.querySelectorAll('.login .field span')].map((each) => each.textContent)")
        assert labels == ["User", "Password"]
        assert page.evaluate("document.querySelector('.login .segments') === null")
        assert "Not connected" not in page.text()
        check_clean(page, node.url)
        assert [url for url in page.requests if url.startswith("ws")] == []
        page.type("input[autocomplete=username]", "ann")
        log_in(page, "wrong")
        page.wait_text("wrong user or password", ".failure")
        log_in(page, TOKEN)
        page.wait("document.querySelector('.lamp.connected') !== null")


def log_in(page: Page, token: str) -> None:
    page.type("input[type=password]", token)
    page.click_text("Log in")


def test_ten_thousand_keys_do_not_freeze_the_page(browser: Chromium, router: NodeProcess) -> None:
    ends = threading.Event()
    with eclipse_session(router.settings.listen) as session, browser.open(f"{router.url}/#/keys?form=list") as page:
        publisher = threading.Thread(target=publish_many, args=(session, ends))
        publisher.start()
        try:
            page.wait_text("10,000 keys", ".keys-status")
            rows = page.evaluate("document.querySelectorAll('.key-rows .key-row').length")
            assert 10 < rows < 80, "only rows in sight are in the document"
            # a page that freezes draws few frames: each that takes longer than a second is one
            script = (
                "new Promise((done) => { let last = performance.now(), longest = 0, frames = 0; const next = (now) =>"
                " { longest = Math.max(longest, now - last); last = now;"
                " if (++frames < 60) requestAnimationFrame(next); else done(Math.round(longest)); };"
                " requestAnimationFrame(next); })"
            )
            print("longest frame in ms:", page.evaluate(script))
            page.evaluate("document.querySelector('.key-rows').scrollTop = 5000 * 32")
            page.wait("Number(document.querySelector('.key-rows .key-row').getAttribute('aria-posinset')) > 4900")
            page.type("input[type=search]", "site/7/**")
            page.wait_text("100 keys of ", ".keys-status")
        finally:
            ends.set()
            publisher.join()
        check_clean(page, router.url)


def publish_many(session: zenoh.Session, ends: threading.Event) -> None:
    """Publish each of many keys again and again, as fast as the network takes them."""
    publishers = [
        session.declare_publisher(
            f"site/{number % 100}/sensor/{number}", congestion_control=zenoh.CongestionControl.BLOCK
        )
        for number in range(MANY)
    ]
    step = 0
    while not ends.is_set():
        for publisher in publishers:
            publisher.put(str(step))
            if ends.is_set():
                return
        step += 1
