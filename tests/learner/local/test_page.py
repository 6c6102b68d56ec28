"""The dashboard beside a learner: when there is one, and at which port."""

import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from support.learners import a_config

from farflung.common.net.address import Address
from farflung.common.process.errors import UsageError
from farflung.learner.local import page

ADDRESS = Address("127.0.0.1", 5555, 5556)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the port of each page in place of starting it."""
    ports: list[int] = []

    def start(port: int, *words: object) -> Any:
        ports.append(port)

    monkeypatch.setattr(page, "_start", start)
    return ports


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    """Let the lines of this process be shown by a terminal, or not."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: answer, raising=False)


def test_page_is_for_a_person_at_a_terminal(
    started: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Elsewhere there is one where a port is named, and with `off` there is none."""
    on_a_terminal(monkeypatch, False)
    page.open_page(a_config(), ADDRESS, tmp_path)
    page.open_page(a_config(dashboard="off"), ADDRESS, tmp_path)
    assert started == []
    page.open_page(a_config(dashboard="0"), ADDRESS, tmp_path)
    on_a_terminal(monkeypatch, True)
    page.open_page(a_config(), ADDRESS, tmp_path)
    page.open_page(a_config(dashboard="off"), ADDRESS, tmp_path)
    assert len(started) == 2


def test_usual_port_may_be_taken_and_a_named_one_does_not(
    started: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """Another run may have the usual one; neither case is an error."""
    caplog.set_level("INFO")
    on_a_terminal(monkeypatch, True)
    with socket.create_server((page.HOST, 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(page, "PORT", port)
        page.open_page(a_config(), ADDRESS, tmp_path)
        [other] = started
        assert other not in (0, port)
        assert f"dashboard: http://127.0.0.1:{other}/" in caplog.text
        page.open_page(a_config(dashboard=str(port)), ADDRESS, tmp_path)()
        assert len(started) == 1
        assert f"no dashboard at port {port}" in caplog.text


def test_missing_package_is_one_line(
    started: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """With the command that installs it; the learner goes on."""
    caplog.set_level("INFO")
    monkeypatch.setattr(page, "PACKAGES", ("no_such_package",))
    page.open_page(a_config(dashboard="0"), ADDRESS, tmp_path)()
    assert started == []
    [line] = [record.getMessage() for record in caplog.records]
    assert "no_such_package" in line
    assert "pip install 'farflung[dashboard]'" in line


@pytest.mark.parametrize("wish", ["on", "-1", "65536", "8 555", "٣", ""])
def test_odd_port_is_refused(wish: str) -> None:
    """Before a learner starts."""
    with pytest.raises(UsageError, match="a port, auto or off"):
        a_config(dashboard=wish)
