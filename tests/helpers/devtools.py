"""A headless Chromium that shows a file, driven by the DevTools protocol, without a driver."""

import json
import os
import time
import urllib.request
from contextlib import contextmanager

from websockets.sync.client import connect

from helpers.browser import OPTIONS, program
from helpers.operations import background, wait_for

COMPLAINTS = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")


class Tab:
    """A page that is open; ``complaints`` are errors and warnings of its console, and requests that failed."""

    def __init__(self, socket):
        self._socket, self._number = socket, 0
        self.complaints = []
        for domain in ("Page", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **options):
        """Return what the browser answers to a command."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": options}))
        while True:
            answer = json.loads(self._socket.recv(timeout=60))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            told = answer.get("params", {})
            kind = told.get("entry", {}).get("level") or told.get("type") or "error"
            if answer.get("method") in COMPLAINTS and kind in ("error", "warning", "assert"):
                self.complaints.append(json.dumps(told)[:2000])

    def run(self, expression):
        """Return the value of an expression in JavaScript, or what its promise resolves to."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def open(self, path):
        """Show a page, and wait until its plots are drawn."""
        self.ask("Page.navigate", url=path.as_uri())
        ready = "document.readyState === 'complete' && !document.querySelector('.plot:not([data-ready])')"
        wait_for(lambda: self.run(ready), 60, lambda: f"not drawn: {self.complaints}")
        time.sleep(0.3)  # plots are drawn with the next frames

    def drag(self, *points):
        """Move the mouse to a point of the window, and drag it to the others."""
        start, *others = points
        moves = [("mousePressed", *start), *(("mouseMoved", *other) for other in others)] if others else []
        moves += [("mouseReleased", *others[-1])] if others else []
        for number, (kind, x, y) in enumerate([("mouseMoved", *start), *moves]):
            held = {"button": "left", "buttons": 1, "clickCount": 1} if number else {}
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **held)

    def size(self, width, height):
        """Give the window another size."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)


@contextmanager
def tab_of_chromium(folder):
    """Yield an empty page of a Chromium that knows nothing yet; it ends with the context."""
    profile = folder / "profile"
    profile.mkdir()
    port = profile / "DevToolsActivePort"
    chromium = [program("chromium", "chromium"), *OPTIONS, "--no-sandbox"]
    command = [*chromium, "--remote-debugging-port=0", f"--user-data-dir={profile}"]
    with background(command, folder / "chromium.log", env={**os.environ, "HOME": str(folder)}):
        wait_for(lambda: port.exists() and "\n" in port.read_text(), 60, lambda: "no Chromium")
        here = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with here.open(f"http://127.0.0.1:{port.read_text().split()[0]}/json/list", timeout=60) as answer:
            address = next(one["webSocketDebuggerUrl"] for one in json.load(answer) if one["type"] == "page")
        with connect(address, max_size=2**28, proxy=None) as socket:
            yield Tab(socket)
