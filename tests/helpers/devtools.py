"""A headless Chromium that shows a file, driven by the DevTools protocol, without a driver."""

from __future__ import annotations

import base64
import json
import os
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from helpers.browser import OPTIONS, program
from helpers.operations import background, wait_for

COMPLAINTS = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")


class Tab:
    """A page that is open; ``complaints`` are errors and warnings of its console, and requests that failed."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._number = socket, 0
        self.complaints: list[str] = []
        for domain in ("Page", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **options: Any) -> Any:
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

    def run(self, expression: str) -> Any:
        """Return the value of an expression in JavaScript, or what its promise resolves to."""
        options = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        answer = self.ask("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def open(self, path: Path) -> None:
        """Show a page, and wait until its plots are drawn."""
        self.ask("Page.navigate", url=path.as_uri())
        unready = "document.readyState !== 'complete' || document.querySelector('.plot:not([data-ready])')"
        wait_for(lambda: not self.run(f"Boolean({unready})"), 60, lambda: f"not drawn: {self.complaints}")
        time.sleep(0.3)  # plots are drawn with the next frames

    def press(self, at: tuple[float, float], to: tuple[float, float] | None = None) -> None:
        """Move the mouse to a point of the window, and, with a second one, drag it there."""
        steps = [] if to is None else [((at[0] + to[0]) / 2, (at[1] + to[1]) / 2), to]
        self._mouse("mouseMoved", at, "none")
        for kind, point in [("mousePressed", at), *(("mouseMoved", step) for step in steps)] if steps else []:
            self._mouse(kind, point, "left")
        if to is not None:
            self._mouse("mouseReleased", to, "left")

    def _mouse(self, kind: str, at: tuple[float, float], button: str) -> None:
        held = int(button == "left")
        place = {"x": at[0], "y": at[1], "button": button, "buttons": held, "clickCount": held}
        self.ask("Input.dispatchMouseEvent", type=kind, **place)

    def size(self, width: int, height: int) -> None:
        """Give the window another size."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def media(self, **features: str) -> None:
        """Prefer something, such as ``prefers_color_scheme="dark"``."""
        listed = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.ask("Emulation.setEmulatedMedia", features=listed)

    def picture(self, path: Path) -> None:
        """Save the whole page as it looks."""
        answer = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def printed(self, path: Path) -> None:
        """Save the page as PDF."""
        answer = self.ask("Page.printToPDF", printBackground=False)
        path.write_bytes(base64.b64decode(answer["data"]))


@contextmanager
def tab_of_chromium(folder: Path) -> Iterator[Tab]:
    """Yield an empty page of a Chromium that knows nothing yet; it ends with the context."""
    chromium, profile = program("chromium", "chromium"), folder / "profile"
    profile.mkdir()
    port_file = profile / "DevToolsActivePort"
    command = [chromium, *OPTIONS, "--no-sandbox", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
    environment = {**os.environ, "HOME": str(folder)}
    with background(command, folder / "chromium.log", env=environment):
        wait_for(lambda: port_file.exists() and port_file.read_text().count("\n") > 0, 60, lambda: "no Chromium")
        port = port_file.read_text().split("\n")[0]
        here = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with here.open(f"http://127.0.0.1:{port}/json/list", timeout=60) as answer:
            address = next(one["webSocketDebuggerUrl"] for one in json.load(answer) if one["type"] == "page")
        with connect(address, max_size=2**28, proxy=None) as socket:
            yield Tab(socket)
