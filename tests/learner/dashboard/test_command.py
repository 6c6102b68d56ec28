"""`learner dashboard`: its places, its refusals, and a process from its first line to its end."""

import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App
from support.runs import a_run, point

from farflung.common.net.address import Address
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.cli.dashboard import dashboard
from farflung.learner.dashboard.command import Options, _say_where, _token, split
from farflung.learner.dashboard.server import listen


def test_places_are_addresses_and_folders(tmp_path: Path) -> None:
    """Folders exist here or have a slash in their names; all else is an address."""
    addresses, folders = split([str(tmp_path), "gpu-box", "[::1]:7000", "runs"], None)
    assert addresses == [Address("gpu-box", 5555, 5556), Address("::1", 7000, 7001)]
    assert folders == [tmp_path, Path("runs")]
    assert split([], None) == ([Address("127.0.0.1", 5555, 5556)], [Path("runs")])
    assert split(["box"], 6000)[0] == [Address("box", 5555, 6000)]


@pytest.mark.parametrize(
    ("places", "sentence"),
    [
        (["nowhere/at/all"], "there is no folder nowhere/at/all"),
        (["a:b"], "is not an address"),
        ([f"box-{n}" for n in range(17)], "at most 16 addresses"),
    ],
)
def test_odd_places_are_refused(places: Sequence[str], sentence: str) -> None:
    """In a sentence."""
    with pytest.raises(UsageError, match=sentence):
        split(places, None)


def test_token_is_needed_off_loopback(caplog: pytest.LogCaptureFixture) -> None:
    """A new one is drawn and shown behind a mark that no browser sends."""
    caplog.set_level("INFO")
    assert _token(Options(), Address("127.0.0.1", 1, 0)) == ""
    there = Address("192.0.2.7", 8555, 0)
    token = _token(Options(), there)
    assert len(token) >= 32
    _say_where(there, token, drawn=True)
    assert f"http://192.0.2.7:8555/login#{token}" in caplog.text
    assert "plain HTTP" in caplog.text
    caplog.clear()
    _say_where(there, token, drawn=False)
    assert token not in caplog.text


def test_port_in_use_is_named() -> None:
    """With the way out."""
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"127.0.0.1:{port}: .* another --port"):
            listen("127.0.0.1", port)


def test_missing_package_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor's or broker's installation has no server of pages."""
    for name in [name for name in sys.modules if name.startswith("farflung.learner.dashboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    for name in [name for name in sys.modules if name.startswith("starlette.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=r"pip install 'farflung\[dashboard\]'"):
        dashboard()


def test_commands_of_the_page_parse() -> None:
    """A reader can paste them."""
    text = (Path(__file__).parents[3] / "docs/dashboard.md").read_text()
    shown = [line for line in text.splitlines() if line.startswith("learner dashboard")]
    commands = [shlex.split(line, comments=True)[2:] for line in shown]
    assert len(commands) == 5
    app = App()
    app.default(dashboard)
    for words in commands:
        app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.slow
@pytest.mark.system
def test_process_serves_until_a_signal(tmp_path: Path) -> None:
    """It names its page, shows a run of a folder, and ends with 0 on SIGTERM, without torch."""
    a_run(tmp_path / "runs", "red", point(10, 5.0))
    words = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "farflung",
        "learner",
        "dashboard",
        "--port",
        "0",
    ]
    process: Any = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        said = ""
        while not (found := re.search(r"dashboard: (http://127\.0\.0\.1:\d+/)", said)):
            line = process.stderr.readline()
            assert line, said
            said += line
        with urllib.request.urlopen(f"{found[1]}readyz", timeout=60) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        said += process.communicate(timeout=60)[1]
        assert process.returncode == 0, said
    finally:
        process.kill()
        process.wait()
    assert "starlette.applications" in said
    assert not re.search(r"\| +(torch|onnxruntime|gymnasium|onnx)$", said, re.MULTILINE)
    assert "Traceback" not in said
