"""The dashboard beside a learner: named by it, steering it, and ending with it."""

import json
import os
import re
import signal
import socket
import urllib.request

import pytest
from support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.system]

FLAGS = ("--warmup", 100, "--replay-ratio", 1, "--checkpoint-every", 0, "--actors", 1)


def document(address, **request):
    """Return the JSON at an address."""
    with urllib.request.urlopen(urllib.request.Request(address, **request), timeout=60) as answer:
        return json.load(answer)


def command(page, run, name, *words):
    """Send a command as the page does; return its answer."""
    headers = {
        "Content-Type": "application/json",
        "Origin": page,
        "X-Farflung-Token": document(f"{page}/api/token")["token"],
    }
    body = json.dumps({"name": name, "words": words}).encode()
    return document(f"{page}/api/runs/{run}/commands", data=body, headers=headers)["said"]


def is_open(port):
    """Return whether a port of loopback accepts."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_page_beside_a_learner_shows_it_steers_it_and_ends_with_it(shell):
    """Also where the learner is killed: the page's standard input closes."""
    learner = shell.learner(*FLAGS, "--name", "one", "--dashboard", 0).listens()
    port = int(learner.says(r"dashboard: http://127\.0\.0\.1:(\d+)/")[1])
    page = f"http://127.0.0.1:{port}"

    def live():
        if not is_open(port):
            return []
        return [run["id"] for run in document(f"{page}/api/runs")["runs"] if run["heard"]]

    [run] = eventually(live, "the learner on its page")
    detail = document(f"{page}/api/runs/{run}")
    assert detail["steering"]["allowed"] is True
    assert detail["run"]["name"] == "one"
    learner.shows(lambda status: status.updates > 5)
    assert command(page, run, "pause").endswith("done")
    learner.shows(lambda status: status.state == "pause")
    assert command(page, run, "set", "weight=2").endswith("done")
    assert command(page, run, "resume").endswith("done")
    status = learner.shows(lambda status: status.state == "run")
    assert status.steered == {"weight": 2.0}
    said = (shell.folder / "runs/one/logs/learner.log").read_text()
    assert (
        len(re.findall(r"INFO (?:pause|set weight=2\.0|resume): asked for by dashboard-", said))
        == 3
    )
    own = (shell.folder / "runs/one/logs/dashboard.log").read_text()
    assert "asked for by a browser at 127.0.0.1" in own
    os.kill(learner.pid, signal.SIGKILL)
    eventually(lambda: not is_open(port), "the end of the page")


def test_port_that_is_taken_ends_no_learner(shell):
    """It says so in one line, and trains."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        learner = shell.learner(*FLAGS, "--name", "one", "--dashboard", port).listens()
        learner.says(rf"no dashboard at port {port}: Address already in use")
        learner.shows(lambda status: status.updates > 0)
