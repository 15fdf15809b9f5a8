"""A headless Chromium, driven by the WebDriver protocol of Debian's chromedriver."""

import base64
import json
import os
import shutil
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers.operations import background, wait_for
from helpers.servers import free_port

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key of references to elements (W3C WebDriver, section 12)."""
OPTIONS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,1600",
    # Pages must do without anything from elsewhere.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
HERE = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class BrowserError(Exception):
    """What the driver says of a command that it could not carry out."""


class Browser:
    """A window."""

    def __init__(self, driver, options):
        self._session = driver
        asked = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        self._session = f"{driver}/session/{self._ask('/session', asked)['sessionId']}"

    def _ask(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._session}{path}", data, headers, method=method)  # noqa: S310
        try:
            with HERE.open(request, timeout=120) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise BrowserError(json.loads(error.read())["value"]["message"]) from None

    def open(self, url):
        self._ask("/url", {"url": url})

    def run(self, script, *arguments):
        """Return what a function body in JavaScript returns."""
        return self._ask("/execute/sync", {"script": script, "args": list(arguments)})

    @property
    def text(self):
        """The words that the page shows."""
        return self.run("return document.body ? document.body.innerText : ''")

    def shows(self, words, seconds=120):
        """Wait until the page shows these words."""
        wait_for(lambda: words in self.text, seconds, lambda: f"no {words!r} at {self.address}: {self.text}")

    @property
    def address(self):
        return self._ask("/url")

    def find(self, selector, seconds=60):
        """Return the first element that a CSS selector finds, as soon as there is one."""

        def found():
            return self._ask("/elements", {"using": "css selector", "value": selector})

        return wait_for(found, seconds, lambda: f"no {selector} at {self.address}: {self.text}")[0][ELEMENT]

    def write(self, selector, text):
        """Type into a field as a user does."""
        self._ask(f"/element/{self.find(selector)}/value", {"text": text})

    def click(self, selector):
        self._ask(f"/element/{self.find(selector)}/click", {})

    def press(self, words):
        """Click the innermost element that shows exactly these words, as soon as it is there."""
        script = """
            const found = [...document.querySelectorAll("body *")]
                .findLast(element => element.offsetParent && element.innerText.trim() === arguments[0]);
            if (found) found.click();
            return Boolean(found)"""
        wait_for(lambda: self.run(script, words), 60, lambda: f"no {words!r} to click at {self.address}: {self.text}")

    def complaints(self):
        """Return what the console tells since it was last asked, requests that failed included."""
        return [line["message"] for line in self._ask("/se/log", {"type": "browser"})]

    def picture(self, path):
        """Save what the window shows."""
        Path(path).write_bytes(base64.b64decode(self._ask("/screenshot")))

    def close(self):
        self._ask("", method="DELETE")


def program(name, package):
    """Find a program on the path; skip the test where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install {package})")
    return found


@contextmanager
def browser_at_work(folder):
    """Yield a window of a Chromium that knows nothing yet; it ends with the context."""
    chromium, driver = program("chromium", "chromium"), program("chromedriver", "chromium-driver")
    port = free_port()
    profile = Path(folder) / "profile"
    profile.mkdir()
    # Chromium's sandbox refuses root.
    arguments = [*OPTIONS, f"--user-data-dir={profile}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    environment = {**os.environ, "HOME": str(folder)}
    with background([driver, f"--port={port}"], Path(folder) / "chromedriver.log", env=environment) as process:
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: process.poll() is not None or ready(url), 60, lambda: "chromedriver does not answer")
        browser = Browser(url, {"binary": chromium, "args": arguments})
        try:
            yield browser
        finally:
            browser.close()


def ready(driver):
    try:
        with HERE.open(f"{driver}/status", timeout=10) as answer:
            return json.loads(answer.read())["value"]["ready"]
    except OSError:
        return False
