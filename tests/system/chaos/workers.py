"""Kills and stops of workers and of their learner: `python tests/system/chaos/workers.py`.

A learner takes gradients of three workers. One of the four processes is killed every few seconds,
in an order from a seed, and started again; the learner resumes. After each kill one of the four
stands still for a while (SIGSTOP). Exit code 1 if the books of
gradients do not balance in any status, if an update is no applied gradient or one is counted twice,
if learning does not go on after a kill, or if the audit of the run finds a problem.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (3, 2, 1)]

from chaos.results import publish  # noqa: E402
from support.contexts import fresh_context  # noqa: E402
from support.family import children_end  # noqa: E402
from support.programs import Learner, Program, Shell  # noqa: E402

from farflung.common.net.address import Address  # noqa: E402
from farflung.learner.observe.status import Status  # noqa: E402

FLAGS = ("--gradients", "only", "--publish-every", 1, "--max-staleness", 6, "--name", "workers")
FLAGS += ("--warmup", 64, "--batch-size", 32, "--replay-ratio", 8, "--dqn.hidden", 32)
FLAGS += ("--checkpoint-every", 2)
WORKERS = ("one", "two", "three")
LEARNER = "learner"
UPDATES = 30  # after a fault: learning goes on
STOPPED_S = 4.0  # at most: longer than a beacon, a report, and TCP's first repetitions


class Stage:
    """A learner and its workers, with what must be true of their books."""

    def __init__(self, shell: Shell) -> None:
        self.kills: Counter[str] = Counter()
        self.stops: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.looks = self.applied = 0  # of the epochs before this one: as last seen
        self._shell, self._base = shell, 0  # updates at the beginning of this epoch
        self._seen = Status("")
        self.learner = shell.learner(*FLAGS).listens()
        self._address: Address = self.learner.address
        self._workers = {name: self._worker(name) for name in WORKERS}

    def goes_on(self) -> None:
        """Wait for further updates, and look at the books of each status until then."""
        first = self._seen.updates if self._seen.epoch else 0
        self.learner.shows(lambda status: self._look(status) and status.updates >= first + UPDATES)

    def kill(self, name: str) -> None:
        """Kill a process with -9 and start it again."""
        self.kills["learner" if name == LEARNER else "worker"] += 1
        process: Program = self.learner if name == LEARNER else self._workers[name]
        process.process.kill()
        process.ended()
        if name != LEARNER:
            self._workers[name] = self._worker(name)
            return
        self.applied += self._seen.gradients.applied
        self.learner = self._resumed()

    def stop(self, name: str, seconds: float) -> None:
        """Let a process stand still, then go on where it was."""
        self.stops["learner" if name == LEARNER else "worker"] += 1
        process: Program = self.learner if name == LEARNER else self._workers[name]
        process.send(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            process.send(signal.SIGCONT)

    def end(self) -> dict[str, Any]:
        """End the learner; return the last figures of the run, in which nothing is under way."""
        self.learner.process.terminate()
        self.learner.ended()
        folder = self._shell.folder / "runs" / "workers"
        last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
        if last["gradients/applied"] != last["train/n_updates"] - self._base:
            self.wrong.append(f"updates since {self._base} and applied gradients differ: {last}")
        audit = self._shell.start("learner", "audit", folder)
        if audit.ended() != 0:
            self.wrong.append(audit.said)
        self.applied += int(last["gradients/applied"])
        return {"updates": int(last["train/n_updates"]), "steps": int(last["time/total_timesteps"])}

    def _look(self, status: Status) -> bool:
        self._seen, books = status, status.gradients
        self.looks += 1
        refused = sum(books.refused.values())
        if books.received != books.applied + books.waiting + books.repeated + refused:
            self.wrong.append(f"the books do not balance: {books}")
        if books.applied > status.updates - self._base:
            self.wrong.append(f"{books.applied} applied, {status.updates - self._base} updates")
        return True

    def _resumed(self) -> Learner:
        folder, port = self._shell.folder / "runs" / "workers", self._address.port
        learner = self._shell.learner("--resume", folder, port=port).listens()
        found = learner.says(r"resumed: epoch \d+, \d+ steps, (\d+) updates")
        self._base = int(found[1])
        self._seen = Status("", updates=self._base, epoch=1)
        return learner

    def _worker(self, name: str) -> Program:
        address = self._address
        words = ("worker", address, "--feed-port", address.feed_port, "--name", name)
        started: Program = self._shell.start("learner", *words)
        return started


def workers(folder: Path, *, kills: int, mean_s: float, seed: int) -> dict[str, Any]:
    """Kill and stop processes of one run; return the figures to publish."""
    rng, began = random.Random(seed), time.monotonic()  # an order, not a secret
    with fresh_context() as context:
        shell = Shell(folder, context)
        try:
            stage = Stage(shell)
            stage.goes_on()
            for _ in range(kills):
                stage.kill(rng.choice((LEARNER, *WORKERS)))
                stage.goes_on()
                stage.stop(rng.choice((LEARNER, *WORKERS)), rng.uniform(0, STOPPED_S))
                stage.goes_on()
                time.sleep(rng.expovariate(1 / mean_s))  # the faults come at any moment
            last = stage.end()
        finally:
            shell.close()
    return {
        "kills": kills,
        "kills_by_role": dict(stage.kills),
        "stops_by_role": dict(stage.stops),
        "applied": stage.applied,
        "statuses": stage.looks,
        "wrong": stage.wrong,
        **last,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--mean", type=float, default=2.0, help="seconds until the next kill")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--publish", action="store_true", help="write docs/results/workers.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, children_end():
        folder = Path(temporary).resolve()
        found = workers(folder, kills=asked.kills, mean_s=asked.mean, seed=asked.seed)
    print(json.dumps(found, indent=1))
    if asked.publish:
        publish("workers", found | {"seed": asked.seed})
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
