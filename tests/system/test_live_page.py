"""The page in Chromium, of a real run: charts, an environment that raises, a learner that dies."""

import json
import urllib.request
from collections.abc import Iterator
from functools import partial

import pytest
from support.browser import Page, browser, program
from support.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.skipif(program() is None, reason="Chromium is not installed"),
]

FLAGS = ("--env", "habitats/Moody-v0", "--import", "habitats", "--warmup", 100, "--horizon", 8)
FLAGS += ("--replay-ratio", 1, "--checkpoint-every", 1, "--name", "shown")
TOLD_S = 2.0  # from an exception of an environment to its traceback on the page
# Figures on the page and those of the API, asked for from the page, at one moment.
ALIKE = """
(async () => {
  const { count, figure } = await import("/static/text.js");
  const run = await (await fetch("/api/runs/RUN")).json();
  const { curves } = await (await fetch("/api/runs/RUN/curves")).json();
  const tiles = document.querySelector(".tiles").textContent;
  const [chart] = [...document.querySelectorAll(".chart")]
    .filter((each) => each.textContent.startsWith("Return"));
  const newest = curves["rollout/ep_rew_mean"].mean.filter((each) => each != null).at(-1);
  return run.status.updates > 20
    && tiles.includes(count(run.status.steps))
    && tiles.includes(`${count(run.status.updates)} in all`)
    && chart.querySelector(".legend").textContent.includes(`return ${figure(newest)}`);
})()
"""
# Charts whose lines have ink in their middle, where neither axes nor labels are.
DRAWN = """
[...document.querySelectorAll(".chart canvas")].filter((canvas) => {
  const { width, height } = canvas;
  const pixels = canvas.getContext("2d").getImageData(width / 4, 0, width / 2, height).data;
  return pixels.some((value) => value > 0);
}).length
"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """A browser."""
    with browser() as found:
        yield found


def document(address: str) -> dict:
    """Return the JSON at an address."""
    with urllib.request.urlopen(address, timeout=60) as answer:
        return json.load(answer)


@pytest.fixture
def begin(shell, free_address, habitats):
    """Return a function that starts a learner at the same ports each time."""

    def start(*flags):
        return shell.learner(*flags, port=free_address.port, **habitats).listens()

    return start


def told_of(address: str, run: str, words: str) -> bool:
    """Return whether the dashboard's status has a problem with these words in its traceback."""
    status = document(f"{address}/api/runs/{run}")["status"]
    return any(words in "\n".join(each["lines"]) for each in status["problem_texts"])


def test_page_of_a_run_has_its_values_its_trouble_and_its_return(
    page: Page, shell, begin, habitats
) -> None:
    """No complaint of the browser, and no request elsewhere, in all of it."""
    learner = begin(*FLAGS)
    steady = shell.actor(learner.address, "--import", "habitats", "--name", "steady", **habitats)
    port, feed = learner.address.port, learner.address.feed_port
    dashboard = shell.start(
        "learner", "dashboard", f"127.0.0.1:{port}", "--feed-port", feed, "--port", 0
    )
    address = dashboard.says(r"(http://127\.0\.0\.1:\d+)/")[1]
    [run] = eventually(
        lambda: [each["id"] for each in document(f"{address}/api/runs")["runs"] if each["heard"]],
        "the run on its page",
        60.0,
    )
    page.open(f"{address}/#run={run}&tab=overview")
    page.wait_for(ALIKE.replace("RUN", run))
    page.wait_for(f"{DRAWN} >= 3")

    page.value(f"location.hash = '#run={run}&tab=problems'")
    words = {"TROUBLE": "raise once", **habitats}
    actor = shell.actor(learner.address, "--import", "habitats", "--name", "sad", **words)
    actor.says("the pole has snapped")
    eventually(partial(told_of, address, run, "the pole has snapped"), "it", TOLD_S, 0.05)
    page.wait_for("document.querySelector('details pre')?.textContent.includes('habitats.py')")
    page.wait_for(
        "document.querySelector('details pre').textContent.includes('the pole has snapped')"
    )
    assert any("the pole has snapped" in each for each in learner.shows(bool).problems)

    page.value(f"location.hash = '#run={run}&tab=overview'")
    learner.kill()
    page.wait_for("document.querySelector('#notice').textContent.includes('has not been heard')")
    assert page.value("document.querySelector('#state').textContent") == "silent"
    again = begin("--resume", shell.folder / "runs/shown")
    page.wait_for("document.querySelector('#notice').hidden")
    page.wait_for("document.querySelector('#state').textContent === 'running'")
    again.learns_on()
    page.wait_for(ALIKE.replace("RUN", run))
    assert document(f"{address}/api/runs/{run}")["status"]["epoch"] == 2
    assert steady.running
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith((address, "about:"))] == []
