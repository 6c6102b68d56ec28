"""Headless Chromium over its debugging pipe: no driver, no port, no other package."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.waiting import Deadline, eventually

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--disable-extensions", "--hide-scrollbars"),
)
ANSWER_S = 60.0  # of a command, on a quiet machine
LOOK_S = 0.2  # between two looks at a page


def program() -> str | None:
    """Return the path of Chromium; None where it is not installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class NotThere(Exception):
    """A command that the page could not follow, such as one that came while it was left."""


class Page:
    """One page: what it requests, what it complains about, and what is in it."""

    def __init__(self, process: "subprocess.Popen[bytes]", reader: int, writer: int) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._process, self._reader, self._writer = process, reader, writer
        self._number, self._unread = 0, b""
        self._session = ""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        found = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **words: Any) -> dict[str, Any]:
        """Send a command and return its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": words}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        deadline = Deadline(ANSWER_S)
        while not deadline.over:
            for news in self._messages(deadline.left_s):
                if news.get("id") == self._number:
                    if "error" in news:
                        raise NotThere(news["error"]["message"])
                    return dict(news["result"])
                self._note(news)
        raise AssertionError(f"no answer to {method}")

    def open(self, address: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show an address in a window of this size."""
        self.size(width, height)
        self.colours(dark)
        self.send("Page.navigate", url=address)

    def size(self, width: int, height: int) -> None:
        """Change the size of the window; a narrow one is that of a phone."""
        phone = width < 600
        words = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.send("Emulation.setDeviceMetricsOverride", **words)

    def colours(self, dark: bool) -> None:
        """Prefer dark colours or light ones."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def value(self, script: str) -> Any:
        """Return the value of an expression on the page."""
        found = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise NotThere(json.dumps(found["exceptionDetails"]))
        return found["result"].get("value")

    def wait_for(self, script: str) -> Any:
        """Wait until an expression is true on the page; return its value."""

        def value() -> Any:
            try:
                return self.value(script)
            except NotThere:  # the page is on its way
                return None

        return eventually(value, script, ANSWER_S, LOOK_S)

    def picture(self, path: Path, whole: bool = False) -> None:
        """Write the page as it looks; with `whole`, what is below the window too."""
        found = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def _messages(self, within_s: float) -> list[dict[str, Any]]:
        if not select.select([self._reader], [], [], within_s)[0]:
            return []
        news = os.read(self._reader, 1 << 20)
        assert news, f"Chromium ended: {self._process.poll()}"
        *messages, self._unread = (self._unread + news).split(b"\0")
        return [json.loads(message) for message in messages]

    def _note(self, news: dict[str, Any]) -> None:
        method, words = news.get("method"), news.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(words["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(words["exceptionDetails"]))
        elif method == "Log.entryAdded" and words["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{words['entry']['text']} {words['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and words["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(words["args"]))


@contextmanager
def browser() -> Iterator[Page]:
    """Start Chromium with a fresh profile; end it afterwards."""
    found = program()
    assert found is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # Chromium reads commands from descriptor 3 and writes to 4.
    words = 'exec "$0" "$@" 3<&"$READS" 4>&"$WRITES"'
    environment = {**os.environ, "READS": str(theirs_in), "WRITES": str(theirs_out)}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = ["bash", "-c", words, found, *FLAGS, "--remote-debugging-pipe"]
        process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}"],
            env=environment,
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Page(process, ours_in, ours_out)
        finally:
            os.close(ours_in)
            os.close(ours_out)
            process.terminate()
            process.wait(20)
