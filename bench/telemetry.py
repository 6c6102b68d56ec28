"""Steps and updates per second with all telemetry ÷ with none, in turns within one run.

`OMP_NUM_THREADS=1 python bench/telemetry.py [--pairs N] [--seconds S] [--publish] [--quick]` prints
one JSON line; by default it takes five and a half minutes. One learner trains without waiting, for
an actor of 16 CartPoles, so that both keep a processor busy. Telemetry is on and off in turns, the
order reversed from pair to pair: no other run, no other process and no other place in memory takes
part in a ratio.

On: the status four times a second with its verdict, lines on the screen, metrics.jsonl, TensorBoard
and the feed; the dashboard beside the learner, a page that is subscribed to its stream, Prometheus
once a second, and a status asked for once a second, as `learner status` asks. Off: none of it, and
the dashboard stands still. Rates are those between the learner's beacons, which it sends anyway.
With real-time priority the dashboard keeps its own, the lowest.
"""

import argparse
import http.client
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import _measure
import psutil

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.sockets import Context, Socket
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Beacon, Telemetry
from farflung.learner.observe.watch import receive

HERE = Path(__file__).parent
FLAGS = ("--env", "CartPole-v1", "--envs", "16", "--actors", "1", "--replay-ratio", "inf")
FLAGS += ("--evaluate-every", "0", "--checkpoint-every", "0", "--port", "0", "--dashboard", "0")
ENOUGH = 6  # pairs: fewer have no limits of 95 %
AIM = 0.98  # of the rates without telemetry
SETTLE_S = 0.5  # after a turn of the switch
START_S, LEARNS_S = 300.0, 10.0
FEW = 0.25  # of the statuses with telemetry: one may come late on a busy machine
LOOK_S = 0.05


class Rates(NamedTuple):
    """Rates of one window."""

    steps: float  # per second
    updates: float


class Window(NamedTuple):
    """One window with telemetry or without it."""

    rates: Rates
    statuses: int  # that were published in it


class Run:
    """A run whose telemetry can be switched, and the askers of its telemetry."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path, context: Context) -> None:
        self._process, self._log = process, log
        port, feed = self._said(r"127\.0\.0\.1:(\d+) \(feed on port (\d+)\)").groups()
        self._page = int(self._said(r"dashboard: http://127\.0\.0\.1:(\d+)/")[1])
        self._address = Address("127.0.0.1", int(port), int(feed))
        self._context = context
        self._on, self._over = threading.Event(), threading.Event()
        self.asked = dict.fromkeys(("status", "metrics", "events"), 0)
        self.failed: list[str] = []
        self._dashboard = self._found()

    def _said(self, pattern: str) -> re.Match[str]:
        end = time.monotonic() + START_S
        while time.monotonic() < end and self._process.poll() is None:
            if found := re.search(pattern, self._log.read_text()):
                return found
            time.sleep(LOOK_S)
        raise SystemExit(f"the learner did not say {pattern}:\n{self._log.read_text()[-2000:]}")

    def _found(self) -> psutil.Process:
        """Return the dashboard's process, with the priority that it has without ours."""
        children = psutil.Process(self._process.pid).children()
        [found] = [child for child in children if "dashboard" in child.cmdline()]
        end = time.monotonic() + START_S
        while time.monotonic() < end and not self._answers():
            time.sleep(LOOK_S)
        for thread in found.threads():
            os.sched_setscheduler(thread.id, os.SCHED_OTHER, os.sched_param(0))
        return found

    def _answers(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            return len(self._get("/readyz")) > 0
        return False

    def _get(self, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._page, timeout=START_S)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()

    @contextmanager
    def watched(self) -> Iterator[Socket]:
        """Ask for telemetry while it is on; yield the beacons."""
        asks = {"status": self._ask_status, "metrics": self._ask_metrics}
        threads = [threading.Thread(target=self._follow)]
        threads += [threading.Thread(target=self._each_second, args=each) for each in asks.items()]
        for thread in threads:
            thread.daemon = True
            thread.start()
        wanted = [topics.beacon("default"), topics.telemetry()]
        try:
            with sockets.feed_subscriber(self._context, self._address, wanted) as feed:
                yield feed
        finally:
            self.switch(on=True)  # a dashboard that stands still cannot end
            self._over.set()
            for thread in threads:
                thread.join(2.0)

    def switch(self, *, on: bool) -> None:
        """Turn telemetry on or off."""
        assert self._process.stdin is not None
        self._process.stdin.write("on\n" if on else "off\n")
        self._process.stdin.flush()
        self._dashboard.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
        (self._on.set if on else self._on.clear)()

    def _each_second(self, name: str, ask: Callable[[], bool]) -> None:
        while not self._over.wait(1.0):
            if self._on.is_set():
                try:
                    self.asked[name] += ask()
                except Exception as error:  # it is told at the end, and no figure is made of it
                    if self._on.is_set() and not self._over.is_set():
                        self.failed.append(f"{name}: {error}")

    def _ask_status(self) -> bool:
        with sockets.context() as context:
            return receive(context, self._address, START_S).updates > 0

    def _ask_metrics(self) -> bool:
        return b"farflung_up" in self._get("/metrics")  # once the dashboard has heard the run

    def _follow(self) -> None:
        """Read the stream of events, as an open page does."""
        connection = http.client.HTTPConnection("127.0.0.1", self._page, timeout=START_S)
        with suppress(OSError):
            connection.request("GET", "/api/stream")
            answer = connection.getresponse()
            while not self._over.is_set() and (line := answer.readline()):
                self.asked["events"] += line.startswith(b"event:")


def main() -> None:
    """Measure, and report."""
    asked = arguments()
    windows: dict[str, list[Window]] = {"on": [], "off": []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=".")))
        process, log = stack.enter_context(learner(folder))
        run = Run(process, log, stack.enter_context(sockets.context()))
        feed = stack.enter_context(run.watched())
        run.switch(on=True)
        learning = window(feed, LEARNS_S, lambda beacon: beacon.updates > 0)
        if not learning.rates.updates:
            raise SystemExit(f"it learns nothing:\n{log.read_text()[-2000:]}")
        for number in range(asked.pairs):
            for name in ("on", "off") if number % 2 == 0 else ("off", "on"):
                run.switch(on=name == "on")
                windows[name].append(window(feed, asked.seconds))
            pair = windows["on"][-1], windows["off"][-1]
            _measure.progress(f"pair {number + 1}: " + " and ".join(map(told, pair)))
        if run.failed or not all(run.asked.values()):
            raise SystemExit(f"telemetry did not answer: {run.asked}, {run.failed[-3:]}")
    published = {name: sum(each.statuses for each in arm) for name, arm in windows.items()}
    if published["off"] >= FEW * published["on"]:
        raise SystemExit(f"the arms are not what they are called: statuses {published}")
    rates = {name: [each.rates for each in arm] for name, arm in windows.items()}
    _measure.report("telemetry", judged(rates, run.asked, asked), publishes=asked.publish)


def arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each window")
    parser.add_argument("--publish", action="store_true", help="write docs/results")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    if asked.quick:
        asked.pairs, asked.seconds = 2, 3.0
    return asked


@contextmanager
def learner(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """Start a learner; yield it and the file of what it says, and end it."""
    log = folder / "learner.log"
    command = [
        sys.executable,
        str(HERE / "_switched.py"),
        *FLAGS,
        "--run-dir",
        str(folder / "runs"),
    ]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, text=True
        )
    try:
        yield process, log
    finally:
        process.terminate()
        process.wait(START_S)


def window(
    feed: Socket, seconds: float, begun: Callable[[Beacon], bool] = lambda beacon: True
) -> Window:
    """Return the rates between the first and the last beacon of so many seconds.

    On a busy machine it lasts until there are two.
    """
    began = time.monotonic()
    end, settled, last_end = began + seconds, began + SETTLE_S, began + START_S
    heard: list[tuple[float, Beacon]] = []
    statuses = 0
    while (left_s := (end if len(heard) > 1 else last_end) - time.monotonic()) > 0:
        if not feed.poll(max(1, round(1000 * left_s))):
            continue
        now, message = time.monotonic(), wire.read(wire.open_frame(feed.recv_multipart()[-1]))
        if now < settled:
            continue
        statuses += isinstance(message, Telemetry)
        if isinstance(message, Beacon) and begun(message):
            heard.append((now, message))
    if len(heard) < 2:
        return Window(Rates(0.0, 0.0), statuses)
    (since, first), (until, last) = heard[0], heard[-1]
    past_s = until - since
    steps, updates = last.steps - first.steps, last.updates - first.updates
    return Window(Rates(steps / past_s, updates / past_s), statuses)


def told(one: Window) -> str:
    """Return the rates of a window in words."""
    rates = one.rates
    return f"{rates.steps:,.0f} steps/s, {rates.updates:,.1f} updates/s"


def judged(
    figures: dict[str, list[Rates]], answered: dict[str, int], asked: argparse.Namespace
) -> dict[str, object]:
    """Return the ratios, their spread, and if the aim is met for sure."""
    found: dict[str, object] = {
        "pairs": asked.pairs,
        "seconds": asked.seconds,
        "aim": AIM,
        "answered": answered,
    }
    for name in Rates._fields:
        on, off = ([getattr(rates, name) for rates in figures[arm]] for arm in ("on", "off"))
        rates = {
            f"{arm}_per_second": round(statistics.median(each), 1)
            for arm, each in (("on", on), ("off", off))
        }
        found[name] = _measure.ratio(on, off) | {"interval": interval(on, off)} | rates
    limits = [found[name]["interval"] for name in Rates._fields]  # type: ignore[index]
    below = any(high < AIM for _, high in limits)
    holds = all(low >= AIM for low, _ in limits)
    found["holds"] = holds if asked.pairs >= ENOUGH and (holds or below) else "inconclusive"
    return found


def interval(on: Sequence[float], off: Sequence[float]) -> list[float]:
    """Return the limits between which the median of the ratios is, with 95 % confidence.

    They are ratios themselves, by their ranks, so nothing is assumed of how ratios are spread.
    """
    ratios = sorted(one / other for one, other in zip(on, off, strict=True))
    aside = max(0, round(len(ratios) / 2 - 0.98 * len(ratios) ** 0.5) - 1)
    return [round(ratios[aside], 3), round(ratios[-1 - aside], 3)]


if __name__ == "__main__":
    main()
