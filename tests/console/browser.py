"""A real Chromium, driven over the pipe of its DevTools protocol: no driver, no library, no port."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import LIMIT_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = "no Chromium here (Debian: apt-get install chromium)"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)


class Browser:
    """One tab, or the one of several that is worked in. Commands are answered in order; events are kept in `events`."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._held = b""
        self._count = 0
        self._session = ""
        self._targets: dict[str, str] = {}
        self.events: list[dict[str, Any]] = []

    def open_tab(self) -> str:
        """Open a tab and work in it. Returns what `turn_to` and `close_tab` take."""
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._targets[self._session] = target
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self._session

    @property
    def tab(self) -> str:
        """Return the tab that is worked in."""
        return self._session

    def turn_to(self, tab: str) -> None:
        """Work in another tab. To the tabs both are still in sight, as two windows are."""
        self._session = tab

    def close_tab(self, tab: str) -> None:
        """Close another tab than the one that is worked in."""
        self.call("Target.closeTarget", targetId=self._targets.pop(tab))

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._count:
                assert "error" not in found, found["error"]
                return dict(found["result"])
            self.events.append(found)

    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def js(self, expression: str) -> Any:
        """Return the value of an expression; promises are awaited."""
        told = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def until(self, expression: str, limit_s: float = LIMIT_S) -> None:
        deadline = time.monotonic() + limit_s
        while not self.js(f"!!({expression})"):
            assert time.monotonic() < deadline, f"{expression} did not come true; the page says {self.text()[:600]!r}"
            time.sleep(0.05)

    def text(self) -> str:
        return str(self.js("document.body.innerText"))

    def press(self, key: str, *, shift: bool = False) -> None:
        codes = {"Tab": 9, "Enter": 13, "ArrowRight": 39, "ArrowLeft": 37, "Escape": 27}
        given = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key], "modifiers": 8 if shift else 0}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **given, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def complaints(self) -> list[str]:
        """Return what the page logged as errors, exceptions and violations of its policy."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:400])
            elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"])
        return found

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._held:
            read = os.read(self._read, 1 << 16)
            assert read, "Chromium went away"
            self._held += read
        message, _, self._held = self._held.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """Chromium reads commands from descriptor 3 and answers on 4."""
    assert CHROMIUM is not None, MISSING
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()

    def take_descriptors() -> None:
        high = [os.dup(command_read), os.dup(answer_write)]
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    process = subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}"],
        preexec_fn=take_descriptors,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(command_read)
    os.close(answer_write)
    browser = Browser(answer_read, command_write)
    try:
        browser.open_tab()
        yield browser
    finally:
        process.terminate()
        process.wait(10)
        os.close(answer_read)
        os.close(command_write)
