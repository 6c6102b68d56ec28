"""Every known attack alone, from one peer and from fifty, with and without keys, on both ways.

`python tests/hostile/each.py --seconds 6 --publish` attacks a learner and the broker in front of
it; `--bin FOLDER` takes the programs of another installation, so that the same attacks run against
an earlier release; `--only NAME ...` and `--peers 1 50` choose.

Each line has the steps/s of the slower of two honest actors, one at the learner and one at the
broker: before, meanwhile and after; the memory that learner and broker grew by; and the seconds in
which a client that comes meanwhile is answered. Attackers run at the lowest priority in a session
of their own, and the victims at a high one where we may. They are not real-time processes: then
an attacker at the lowest priority has no processor at all on a busy machine, and attacks nothing.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (2, 1)]
sys.path.append(str(Path(__file__).parents[1] / "system"))

from chaos.results import publish  # noqa: E402
from hostile import attacks, siege  # noqa: E402
from hostile.attacks import Needs  # noqa: E402
from hostile.seen import is_answered  # noqa: E402
from hostile.victim import Victim, victim  # noqa: E402
from support import programs  # noqa: E402
from support.family import children_end  # noqa: E402

BEFORE_S, AFTER_S = 4.0, 10.0
JOIN_S = 30.0  # that a client which joins meanwhile may take
STEADY_S = 4.0  # at the end of `AFTER_S`: over which steps/s after an attack are taken


@dataclass(frozen=True, slots=True)
class Line:
    """One attack, and the honest actors meanwhile."""

    attack: str
    guarded: bool  # learner and broker have keys
    keyed: bool  # the peers have an allowed one
    through: bool  # the broker
    peers: int
    before: float
    during: float
    after: float
    learner_mb: float
    broker_mb: float
    join_s: float | None  # None: not within JOIN_S
    ended: bool  # learner or broker


def attacked(target: Victim, plan: siege.Plan, seconds: float) -> Line:
    """Attack once, and return the line."""
    assert target.broker is not None
    before = target.during(BEFORE_S).slowest
    sizes = target.learner.own_mb(), target.broker.own_mb()
    process = siege.start(target, plan, seconds)
    siege.begun([process])
    with target.measuring() as figures:
        end = time.monotonic() + seconds
        join_s = joined(target, plan.through)
        time.sleep(max(0.0, end - time.monotonic()))  # the attack goes on
        broker_mb = target.broker.own_mb() if target.broker.running else 0.0
    siege.wait([process], seconds)
    time.sleep(AFTER_S - STEADY_S)  # the time that they have to recover
    after = target.during(STEADY_S).slowest
    return Line(
        plan.attack.name,
        target.keys_folder is not None,
        plan.keyed,
        plan.through,
        plan.peers,
        before,
        figures.slowest,
        after,
        figures.most_mb - sizes[0],
        broker_mb - sizes[1],
        join_s,
        not (target.learner.running and target.broker.running),
    )


def joined(target: Victim, through: bool) -> float | None:
    """Return the seconds until an honest client's question is answered."""
    began = time.monotonic()
    with target.peer("joiner", "joiner", through=through, learns=False, seed=9) as peer:
        return time.monotonic() - began if is_answered(peer, JOIN_S) else None


def told(line: Line) -> str:
    """Return a line in words."""
    join = "no join" if line.join_s is None else f"join {line.join_s:.1f} s"
    way = f"{line.peers} × {'a key' if line.keyed else 'no key'}, "
    way += f"{'keys' if line.guarded else 'open'}, "
    way += "broker" if line.through else "learner"
    return (
        f"{line.attack} ({way}): {line.before:.0f}, {line.during:.0f}, {line.after:.0f} steps/s, "
        f"+{line.learner_mb:.0f} MB, +{line.broker_mb:.0f} MB, {join}"
        f"{', ENDED' if line.ended else ''}"
    )


@contextmanager
def a_victim(keys: bool) -> Iterator[Victim]:
    """Yield a learner, a broker and an honest actor behind each."""
    with (
        tempfile.TemporaryDirectory() as folder,
        victim(Path(folder), keys=keys, broker=True, actors=1, relayed=1) as target,
    ):
        siege.favour(target)
        yield target


def all_lines(only: list[str], peers: list[int], seconds: float) -> Iterator[Line]:
    """Attack in all ways; yield each line. Each attack has a learner of its own."""
    for name, attack in sorted(attacks.load().items()):
        if only and name not in only:
            continue
        for keys in (False, True):
            keyed = keys and attack.needs is not Needs.NOTHING
            plans = [siege.Plan(attack, n, keyed, way, 1) for n in peers for way in (False, True)]
            while plans:
                with a_victim(keys) as target:
                    while plans:
                        line = attacked(target, plans.pop(0), seconds)
                        yield line
                        if line.ended:
                            break  # the next one has another learner


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--peers", type=int, nargs="*", default=[1, 50])
    parser.add_argument("--only", nargs="*", default=[], help="names of attacks")
    parser.add_argument("--bin", type=Path, help="folder with the programs of another installation")
    parser.add_argument("--publish", metavar="NAME", help="write docs/results/NAME.json")
    asked = parser.parse_args()
    if asked.bin is not None:
        programs.BIN = asked.bin
    lines: list[dict[str, Any]] = []
    with children_end():
        for line in all_lines(asked.only, asked.peers, asked.seconds):
            print(told(line), flush=True)
            lines.append(asdict(line))
    if asked.publish:
        publish(asked.publish, {"seconds": asked.seconds, "lines": lines})
    else:
        print(json.dumps(lines))
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
