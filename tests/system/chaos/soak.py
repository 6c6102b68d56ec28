"""Growth of memory, descriptors and threads: `python tests/system/chaos/soak.py --minutes 20`.

A learner, a broker and an actor on each path run through all of it and are stopped now and then;
the other actors are killed and stopped. Exit code 1 if one of the first grows by more than its
limit after the warm-up, or if an acknowledged parcel is lost.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (3, 2, 1)]

import numpy as np  # noqa: E402
import psutil  # noqa: E402
from chaos import ear as ears  # noqa: E402
from chaos.cast import Cast, Member  # noqa: E402
from chaos.plan import Fault  # noqa: E402
from chaos.results import publish  # noqa: E402
from chaos.run import FLAGS, Stage, compare  # noqa: E402
from support.family import children_end  # noqa: E402

from farflung.common.net import sockets  # noqa: E402

# The growth that is allowed: absolute, and as a part of the mean.
FLAT = {"resident_mb": (3.0, 0.03), "descriptors": (2.0, 0.0), "threads": (0.5, 0.0)}
SAMPLE_S = 1.0
LONGEST_STOP_S = 2.0

Series = dict[str, dict[str, list[tuple[float, float]]]]  # by member and figure: time and value


def faults(cast: Cast, seconds: float, mean_s: float, seed: int) -> list[tuple[Fault, Member]]:
    """Return kills of the later actors, and stops of all processes."""
    random = np.random.default_rng(seed)
    mortals = [*cast.direct[1:], *cast.relayed[1:]]
    found, at_s = [], 0.0
    while (at_s := at_s + random.exponential(mean_s)) < seconds:
        kills = random.random() < 0.6
        members = mortals if kills else cast.all
        member = members[random.integers(len(members))]
        hold_s = 0.0 if kills else random.uniform(0.2, LONGEST_STOP_S)
        found.append(
            (
                Fault(at_s, member.role, 0.0, signal.SIGKILL if kills else signal.SIGSTOP, hold_s),
                member,
            )
        )
    return found


def sample(member: Member) -> dict[str, float]:
    """Return the resources that a process takes now."""
    assert member.process is not None
    process = psutil.Process(member.process.pid)
    with process.oneshot():
        return {
            "resident_mb": process.memory_info().rss / 1e6,
            "descriptors": process.num_fds(),
            "threads": process.num_threads(),
        }


def soak(folder: Path, minutes: float, mean_s: float, seed: int) -> dict[str, object]:
    """Do a whole run in a folder; return the figures to publish."""
    with sockets.context() as context, Cast(folder, flags=(*FLAGS, "--capacity", 5_000)) as cast:
        ear = ears.listening(context, cast.port, folder)
        stage = Stage(cast, ear)
        watched = [cast.learner, cast.broker, cast.direct[0], cast.relayed[0]]
        series: Series = {member.name: defaultdict(list) for member in watched}
        try:
            stage.wait_for_all("at the beginning")
            began, sampled = time.monotonic(), 0.0
            plan = faults(cast, minutes * 60, mean_s, seed)
            while (now := time.monotonic() - began) < minutes * 60:
                while plan and plan[0][0].at_s <= now:
                    fault, member = plan.pop(0)
                    stage.strike(member, fault)
                if now - sampled >= SAMPLE_S:
                    sampled = now
                    for member in watched:
                        for figure, value in sample(member).items():
                            series[member.name][figure].append((now, value))
                stage.pass_time()
            stage.calm()
            stage.wait_for_all("at the end")
            cast.retire()
        finally:
            ear.feed.close()
        verdict = compare(cast)
    slopes = {
        name: {figure: trend(points, figure) for figure, points in figures.items()}
        for name, figures in series.items()
    }
    starts = {member.name: member.starts for member in cast.all}
    return {
        "minutes": minutes,
        "kills": len(stage.story.kills),
        "others": dict(stage.story.others),
        "slopes": slopes,
        "flat": all(trend["flat"] for figures in slopes.values() for trend in figures.values()),
        "starts": starts,
        **verdict,
        "surprises": cast.surprises,
    }


def trend(points: list[tuple[float, float]], figure: str) -> dict[str, object]:
    """Fit a line to the figures after the warm-up, which is a quarter of the time."""
    times, values = np.array(points[len(points) // 4 :]).T
    slope = float(np.polyfit(times, values, 1)[0])
    growth, (absolute, part) = slope * (times[-1] - times[0]), FLAT[figure]
    mean = float(values.mean())
    return {
        "mean": round(mean, 1),
        "per_hour": round(slope * 3600, 2),
        "growth": round(growth, 2),
        "flat": bool(growth <= absolute + part * mean),
    }


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument(
        "--mean", type=float, default=6.0, help="seconds between two faults, on average"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--publish", action="store_true", help="write docs/results/soak.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, children_end():
        found = soak(Path(folder), asked.minutes, asked.mean, asked.seed)
    print(json.dumps(found, indent=1))
    if asked.publish:
        publish("soak", found | {"seed": asked.seed})
    return 0 if found["flat"] and found["audit"] == 0 and not found["surprises"] else 1


if __name__ == "__main__":
    sys.exit(main())
