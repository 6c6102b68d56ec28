"""Six learners through one broker: `python tests/system/chaos/independent.py`.

Each trains a policy of its own with two actors, at a fixed rate of steps. Two of the six are killed
with -9 and resumed, several times; the rates of the other four are compared with those just before.
At the end each journal must have the rows of its own actors only. Exit code 1 if one has others, if
a learner does not come back, or if the four keep less than 90 % of their rate.
"""

import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import psutil

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (3, 2, 1)]

from chaos.cast import Member, Processes, actor, free_ports  # noqa: E402
from chaos.results import publish  # noqa: E402
from support.family import children_end  # noqa: E402
from support.waiting import Deadline  # noqa: E402

from farflung.common.net import sockets  # noqa: E402
from farflung.common.net.address import Address  # noqa: E402
from farflung.common.protocol import topics, wire  # noqa: E402
from farflung.common.protocol.messages import Beacon  # noqa: E402
from farflung.learner.storage.audit import Audit  # noqa: E402

POLICIES = tuple(f"p{number}" for number in range(6))
KILLED = POLICIES[:2]
ACTORS, RATE_HZ = 2, 20
FLAGS = ("--env", "CartPole-v1", "--warmup", 200, "--replay-ratio", 4, "--dqn.hidden", 32)
FLAGS += ("--checkpoint-every", 2, "--evaluate-every", 0, "--seed", 1)
BEGINS_S = 300.0  # for six learners at once
PROMISED = 0.9


class Six(Processes):
    """Six learners, a broker in front of them, and two actors for each behind it."""

    def __init__(self, folder: Path) -> None:
        *ports, self.front = free_ports(1 + len(POLICIES))
        places = dict(zip(POLICIES, ports, strict=True))
        words = ("farflung.broker.main", *(f"127.0.0.1:{port}" for port in ports))
        front = f"127.0.0.1:{self.front}"
        flags = ("--rate", RATE_HZ)
        super().__init__(
            folder,
            [Member(one, "learner", folder, partial(command, one, places[one])) for one in places],
            Member("broker", "broker", folder, lambda start: (*words, "--port", self.front)),
            [],
            [
                actor(folder, f"{one}-{number}", "relayed actor", front, "--policy", one, *flags)
                for one in POLICIES
                for number in range(ACTORS)
            ],
        )

    def memory_mb(self) -> dict[str, list[float]]:
        """Return the resident memory of each process, by role."""
        found: dict[str, list[float]] = {}
        for member in self.all:
            if member.process is not None:
                resident = psutil.Process(member.process.pid).memory_info().rss / 1e6
                found.setdefault(member.role, []).append(round(resident, 1))
        return found


def command(policy: str, port: int, start: int) -> tuple[object, ...]:
    """Return the command of a learner."""
    names = ("--policy", policy, "--name", policy, "--resume", "auto", "--keep-journal")
    return ("farflung.learner.main", *names, "--ui", "lines", "--port", port, *FLAGS)


class Rates:
    """The steps that each learner has counted, by its beacons through the broker."""

    def __init__(self, feed: sockets.Socket, six: Six) -> None:
        self.steps: Counter[str] = Counter()
        self._feed, self._six = feed, six

    def listen(self, seconds: float) -> None:
        """Take beacons for so long, and start again what has ended."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._feed.poll(max(1, int(min(left, 0.1) * 1000))):
                beacon = wire.read(wire.open_frame(self._feed.recv_multipart()[-1]))
                if isinstance(beacon, Beacon):
                    self.steps[beacon.policy] = beacon.steps
            for member in self._six.all:
                member.tend()

    def all_grow(self, within_s: float) -> float:
        """Wait until each learner has counted more; return the time."""
        began, deadline = time.monotonic(), Deadline(within_s)
        before = Counter(self.steps)
        while any(self.steps[policy] <= before[policy] for policy in POLICIES):
            assert not deadline.over, (
                f"not all learn: {before}, {self.steps}; {self._six.surprises}"
            )
            self.listen(0.1)
        return time.monotonic() - began

    def measure(self, seconds: float) -> dict[str, float]:
        """Return the steps per second of each learner."""
        self.listen(1.2)  # a beacon a second: this one is new
        before, began = Counter(self.steps), time.monotonic()
        self.listen(seconds)
        took_s = time.monotonic() - began
        return {policy: (self.steps[policy] - before[policy]) / took_s for policy in POLICIES}


def independent(folder: Path, *, trials: int, seconds: float) -> dict[str, object]:
    """Do a whole run in a folder; return the figures to publish."""
    with sockets.context() as context, Six(folder) as six:
        front = Address("127.0.0.1", six.front, six.front + 1)
        feed = sockets.feed_subscriber(context, front, [topics.beacon()], backlog=1000)
        rates = Rates(feed, six)
        try:
            rates.all_grow(BEGINS_S)
            rates.listen(10.0)
            before, during, back = [], [], []
            for _ in range(trials):
                before.append(rates.measure(seconds))
                for member in six.learners[: len(KILLED)]:
                    member.send(signal.SIGKILL)
                during.append(rates.measure(seconds))
                back.append(rates.all_grow(BEGINS_S))
                rates.listen(5.0)
            memory = six.memory_mb()
            six.retire()
        finally:
            feed.close()
    others = [policy for policy in POLICIES if policy not in KILLED]
    kept = {
        policy: sum(rates[policy] for rates in during) / sum(rates[policy] for rates in before)
        for policy in others
    }
    return {
        "steps_per_second": {
            policy: round(statistics.median(rates[policy] for rates in before), 1)
            for policy in POLICIES
        },
        "memory_mb": memory,
        "kills": trials * len(KILLED),
        "kept": {policy: round(share, 3) for policy, share in kept.items()},
        "rows": {policy: rows_of(folder / "runs" / policy) for policy in POLICIES},
        "surprises": six.surprises,
    }


def rows_of(run: Path) -> dict[str, int]:
    """Return the parcels in a journal by the policy in the names of their actors."""
    found = Audit(run)
    list(found.read())
    assert not found.problems, found.problems
    return dict(Counter(actor.partition("-")[0] for actor, _, _ in found._checksums))


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=5, help="times that two learners are killed")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument(
        "--publish", action="store_true", help="write docs/results/independent.json"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, children_end():
        found = independent(Path(temporary).resolve(), trials=asked.trials, seconds=asked.seconds)
    print(json.dumps(found, indent=1))
    if asked.publish:
        publish("independent", found)
    rows, kept = found["rows"], found["kept"]
    assert isinstance(rows, dict)
    assert isinstance(kept, dict)
    apart = all(list(actors) == [policy] for policy, actors in rows.items())
    return 0 if apart and not found["surprises"] and min(kept.values()) >= PROMISED else 1


if __name__ == "__main__":
    sys.exit(main())
