"""A headless Chromium, driven over its debugging protocol: pages, input, emulation, errors and requests of a page."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from websockets.sync.client import ClientConnection, connect

from tests.wait import until

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
)
TIMEOUT_SECONDS = 90.0
"""Seconds until something that does not appear on a page is reported, on a machine with much else to do."""
DESKTOP = (1280, 860)
PHONE = (390, 844)

Event = dict[str, Any]


class Chromium:
    """A browser process with a profile of its own."""

    def __init__(self, binary: str, profile: Path) -> None:
        command = [binary, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        environment = {**os.environ, "HOME": str(profile)}
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
        )
        port_file = profile / "DevToolsActivePort"
        until(lambda: port_file.exists() and "\n" in port_file.read_text(), TIMEOUT_SECONDS)
        self._port = int(port_file.read_text().split()[0])

    def open(self, url: str, size: tuple[int, int] = DESKTOP, scheme: str = "light") -> Page:
        """Open a page in a tab of its own, with a storage of its own."""
        with urllib.request.urlopen(self._request("new?about:blank")) as response:
            target = json.load(response)
        page = Page(target["webSocketDebuggerUrl"])
        page.emulate(size, scheme)
        page.go(url)
        return page

    def _request(self, path: str) -> urllib.request.Request:
        return urllib.request.Request(f"http://127.0.0.1:{self._port}/json/{path}", method="PUT")

    def close(self) -> None:
        """End the browser and its child processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, 15)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)
            self._process.wait()


class Page:
    """One tab. Collects errors of the console, uncaught exceptions and the requests of the page."""

    def __init__(self, debugger: str) -> None:
        self._stack = contextlib.ExitStack()
        connection = connect(debugger, max_size=None, open_timeout=TIMEOUT_SECONDS)
        self._socket: ClientConnection = self._stack.enter_context(connection)
        self._ids = itertools.count(1)
        self.errors: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the tab."""
        with contextlib.suppress(Exception):
            self.call("Page.close")
        self._stack.close()

    # --- the protocol

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol and return its result; events that arrive meanwhile are noted."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(TIMEOUT_SECONDS))
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result
            if "method" in message:
                self._note(message["method"], message["params"])

    def _note(self, method: str, event: Event) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(event["url"])
        elif method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(each.get("value", each.get("description"))) for each in event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            entry = event["entry"]
            self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    # --- what a user does

    def emulate(self, size: tuple[int, int], scheme: str) -> None:
        """Set the size of the window, a phone's below 760 pixels, and the colour scheme of the system."""
        width, height = size
        phone = width < 760
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def go(self, url: str) -> None:
        """Load a URL, or change the fragment of the present one."""
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && document.querySelector('main') !== null")

    def reload(self) -> None:
        """Load the present URL again: until the new document is there, the old one still answers."""
        self.evaluate("window.beforeReload = true")
        self.call("Page.reload")
        self.wait("window.beforeReload === undefined && document.querySelector('main') !== null")

    def evaluate(self, expression: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value of an expression, awaited if it is a promise."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def wait(self, expression: str, timeout: float = TIMEOUT_SECONDS) -> Any:  # noqa: ANN401 - any JSON value
        """Wait until an expression is true, and return its value."""
        deadline = time.monotonic() + timeout
        while True:
            with contextlib.suppress(AssertionError):  # while a page loads, its context may vanish
                if found := self.evaluate(expression):
                    return found
            assert time.monotonic() < deadline, f"{expression} did not become true; the page shows:\n{self.text()}"
            time.sleep(0.05)

    def text(self, selector: str = "body") -> str:
        """Return the text that an element shows."""
        found: str | None = self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText")
        return found or ""

    def wait_text(self, text: str, selector: str = "body") -> None:
        """Wait until an element shows a text."""
        self.wait(f"(document.querySelector({json.dumps(selector)})?.innerText ?? '').includes({json.dumps(text)})")

    def click(self, selector: str) -> None:
        """Click into the middle of the first element of a selector, once it is there."""
        quoted = json.dumps(selector)
        self.wait(f"document.querySelector({quoted}) !== null")
        box = self.evaluate(
            f"(() => {{ const e = document.querySelector({quoted}); e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def click_text(self, text: str, selector: str = "button, a, summary") -> None:
        """Click the first element of a selector whose text is this."""
        elements = f"[...document.querySelectorAll({json.dumps(selector)})]"
        script = f"{elements}.find((e) => e.textContent.trim() === {json.dumps(text)})"
        self.wait(f"Boolean({script})")
        self.evaluate(f"{script}.setAttribute('data-target', '')")
        self.click("[data-target]")
        self.evaluate("document.querySelector('[data-target]')?.removeAttribute('data-target')")

    def press(self, key: str, code: int = 0, modifiers: int = 0, text: str = "") -> None:
        """Press and release a key; `modifiers` is 2 for Ctrl, 8 for Shift."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def focus(self, selector: str) -> None:
        """Give the keyboard to the first element of a selector, once it is there."""
        quoted = json.dumps(selector)
        self.wait(f"document.querySelector({quoted}) !== null")
        self.evaluate(f"document.querySelector({quoted}).focus()")

    def type(self, selector: str, text: str) -> None:
        """Replace what an input field contains."""
        self.focus(selector)
        self.evaluate(f"document.querySelector({json.dumps(selector)}).select?.()")
        self.call("Input.insertText", text=text)

    def choose(self, selector: str, value: str) -> None:
        """Choose an option, or move a slider, as a user would: the value and its events."""
        self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};"
            " for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind, {bubbles: true})); })()"
        )

    def screenshot(self, file: Path) -> None:
        """Write what is seen as PNG."""
        data = self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"]
        file.write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def started(binary: str, profile: Path) -> Iterator[Chromium]:
    """Run a browser while the context is open."""
    browser = Chromium(binary, profile)
    try:
        yield browser
    finally:
        browser.close()
