"""Steps to solve CartPole with and without kills: `python tests/system/chaos/solve.py`.

For each seed there is one run without and one with faults: every 2,500 environment steps the
learner or one of its actors is killed with SIGKILL, and the learner starts again with `--resume
auto`. Exit code 1 if the median with faults is more than 1.5 times that without.
"""

import argparse
import json
import random
import re
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (3, 2, 1)]

import psutil  # noqa: E402
from chaos import ear as ears  # noqa: E402
from chaos.cast import Member, free_ports  # noqa: E402
from chaos.results import publish  # noqa: E402
from support.family import children_end  # noqa: E402
from support.waiting import Deadline  # noqa: E402

from farflung.common.net import sockets  # noqa: E402

LIMIT = 200_000  # environment steps
BETWEEN_STEPS = 2_500  # from one kill to the next
ORDER = ("actor", "learner", "actor")
WITHIN_S = 300.0
ALLOWED = 1.5


def solve(seed: int, folder: Path, *, faults: bool) -> dict[str, object]:
    """Do one run to its end; return its steps, and the roles that were killed on the way."""
    [port] = free_ports(1)
    flags = ("--env", "CartPole-v1", "--actors", 2, "--until", "evaluation >= 475")
    flags += ("--evaluate-every", 2_000, "--steps", LIMIT, "--seed", seed, "--port", port)
    flags += ("--name", "solve", "--resume", "auto", "--checkpoint-every", 1, "--ui", "lines")
    learner = Member("learner", "learner", folder, lambda start: ("farflung.learner.main", *flags))
    kills: list[str] = []
    began, deadline, due = time.monotonic(), Deadline(WITHIN_S), BETWEEN_STEPS
    with sockets.context() as context:
        ear = ears.listening(context, port, folder)
        learner.start()
        try:
            while (
                learner.process is None
                or learner.process.poll() is None
                or learner.ending is not None
            ):
                if deadline.over:
                    raise AssertionError(
                        f"not over within {WITHIN_S:g} s of a quiet machine; "
                        f"{learner.log.read_text()[-2000:]}"
                    )
                ear.listen(0.02)
                if learner.ending is not None:
                    learner.tend()
                if faults and ear.steps >= due and learner.ending is None:
                    kills.append(ORDER[len(kills) % len(ORDER)])
                    strike(learner, kills[-1], random.Random(seed * 1000 + len(kills)))
                    due = ear.steps + BETWEEN_STEPS
        finally:
            ear.feed.close()
            said = learner.log.read_text(errors="replace")
            code = learner.process.poll() if learner.process is not None else None
            learner.end(signal.SIGKILL)
    counted = re.search(r"^(\d+) steps, (\d+) updates", said, re.MULTILINE)
    if code or counted is None:
        raise AssertionError(f"the learner ended with exit code {code}: {said[-4000:]}")
    wall_s = round(time.monotonic() - began, 1)
    return {
        "seed": seed,
        "solved": "solved: " in said,
        "steps": int(counted[1]),
        "kills": kills,
        "wall_s": wall_s,
    }


def strike(learner: Member, role: str, chance: random.Random) -> None:
    """Kill the learner, or one of the processes that it started."""
    if role == "learner":
        learner.send(signal.SIGKILL)
        return
    assert learner.process is not None
    children = [
        child
        for child in psutil.Process(learner.process.pid).children()
        if child.status() != psutil.STATUS_ZOMBIE
    ]
    if children:
        chance.choice(children).kill()


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--publish", action="store_true", help="write docs/results/solve.json")
    asked = parser.parse_args()
    arms: dict[bool, list[dict[str, object]]] = {False: [], True: []}
    for seed in range(asked.seeds):
        for faults, results in arms.items():
            with tempfile.TemporaryDirectory() as folder, children_end():
                results.append(solve(seed, Path(folder), faults=faults))
            print(json.dumps({"faults": faults} | results[-1]), flush=True)
    medians = {
        faults: statistics.median(int(str(result["steps"])) for result in results)
        for faults, results in arms.items()
    }
    ratio = round(medians[True] / medians[False], 2)
    solved = all(result["solved"] for results in arms.values() for result in results)
    found = {
        "ratio": ratio,
        "median_without": medians[False],
        "median_with": medians[True],
        "solved": solved,
    }
    print(json.dumps(found))
    if asked.publish:
        publish("solve", found | {"without": arms[False], "with": arms[True]})
    return 0 if solved and ratio <= ALLOWED else 1


if __name__ == "__main__":
    sys.exit(main())
