"""Honest actors over time, and the rounds of a siege."""

import resource
import statistics
import subprocess
import threading
import time
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import psutil
from hostile.peer import Peer
from hostile.victim import Victim

from farflung.common.net import sockets
from farflung.common.protocol import topics
from farflung.common.protocol.learner_tracker import RETRY_S

AFTER = 0.95  # of the steps/s before an attack: the target after it
BACK_S = 10.0  # in which steps/s are to be back
WINDOW_S = 4.0  # over which steps/s after an attack are taken
LOOK_S = 0.25


class Ledger:
    """The acknowledged steps of all honest actors over time."""

    def __init__(self, target: Victim) -> None:
        self._target, self._over = target, threading.Event()
        self._times: list[float] = []
        self._steps: list[int] = []
        self._thread = threading.Thread(target=self._note, daemon=True)

    def __enter__(self) -> "Ledger":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _note(self) -> None:
        while not self._over.wait(LOOK_S):
            steps = sum(self._target.steps().values())
            self._steps.append(steps)
            self._times.append(time.monotonic())

    def rate(self, begin: float, end: float) -> float:
        """Return the steps a second between two moments."""
        first, last = (min(bisect_left(self._times, t), len(self._times) - 1) for t in (begin, end))
        past_s = self._times[last] - self._times[first]
        return (self._steps[last] - self._steps[first]) / past_s if past_s else 0.0

    def back_after(self, began: float, wanted: float, ended: float) -> float | None:
        """Return the seconds after which steps came as fast as wanted; None if they did not."""
        at = began
        while at + WINDOW_S <= ended:
            if self.rate(at, at + WINDOW_S) >= wanted:
                return at - began
            at += LOOK_S
        return None


class Spent:
    """The processor time of processes from now until they have ended."""

    def __init__(self, processes: list["subprocess.Popen[bytes]"]) -> None:
        self._began = time.monotonic()
        self._before_s = _ended_s() + sum(map(_running_s, processes))

    @property
    def processors(self) -> float:
        """The processors that they used, by the time that went by.

        With next to none, a busy machine let attackers do nothing, and their attack says nothing.
        """
        return (_ended_s() - self._before_s) / (time.monotonic() - self._began)


def _ended_s() -> float:
    """Return the processor time of all our processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _running_s(process: "subprocess.Popen[bytes]") -> float:
    """Return the processor time of a process so far."""
    try:
        used = psutil.Process(process.pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(used.user + used.system)


@dataclass(slots=True)
class Round:
    """Some attacks at once, and the honest actors meanwhile."""

    attacks: list[str]
    peers: int
    ways: list[str]
    before: float
    during: float
    back_s: float | None  # None: not within BACK_S
    beacon_gap_s: float
    memory_mb: float
    descriptors: int
    processors: float = 0.0  # that the attackers used
    failed: int = 0  # attackers that did not begin: their part of the round says nothing

    @property
    def part(self) -> float:
        """The part of the steps/s before that was left during the attack."""
        return self.during / self.before if self.before else 0.0


def told(one: Round) -> str:
    """Return a line about a round."""
    back = "not back" if one.back_s is None else f"back after {one.back_s:.1f} s"
    failed = f", {one.failed} ATTACKERS FAILED" if one.failed else ""
    ways = "; ".join(f"{name} ({way})" for name, way in zip(one.attacks, one.ways, strict=True))
    return (
        f"{one.part:4.0%} of {one.before:.0f} steps/s, {back}, beacons {one.beacon_gap_s:.1f} s, "
        f"{one.memory_mb:.0f} MB, {one.descriptors} descriptors, attackers on {one.processors:.2f} "
        f"processors{failed}: {ways}"
    )


def by_attack(rounds: list[Round]) -> dict[str, dict[str, Any]]:
    """Return the worst of all rounds that an attack took part in, for each attack."""
    found: dict[str, dict[str, Any]] = {}
    for name in sorted({name for one in rounds for name in one.attacks}):
        mine = [one for one in rounds if name in one.attacks]
        times = [one.back_s for one in mine]
        found[name] = {
            "rounds": len(mine),
            "during_median": round(statistics.median(one.part for one in mine), 2),
            "during_worst": round(min(one.part for one in mine), 2),
            "back_s": None if None in times else round(max(t for t in times if t is not None), 1),
            "beacon_gap_s": round(max(one.beacon_gap_s for one in mine), 1),
            "memory_mb": round(max(one.memory_mb for one in mine)),
        }
    return found


def spread(values: list[float]) -> dict[str, float]:
    """Return median and worst of parts."""
    return {"median": round(statistics.median(values), 3), "worst": round(min(values), 3)}


def is_answered(peer: Peer, within_s: float) -> bool:
    """Return whether a question for a snapshot is answered in time, asked again as actors do."""
    end = time.monotonic() + within_s
    with sockets.feed_subscriber(peer._context, peer.address, [], keys=peer.keys) as feed:
        while (left_s := end - time.monotonic()) > 0:
            nonce = peer.identity()
            feed.subscribe(topics.snapshot(peer.policy, peer.name, peer.incarnation, nonce))
            if feed.poll(round(1000 * min(RETRY_S, left_s))):
                return True
    return False
