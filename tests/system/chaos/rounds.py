"""Kills of runs in rounds: `python tests/system/chaos/rounds.py`.

In the first run learner, broker and actors are killed, stopped and ended in any order. In the
second one only learner and broker are: then it must have the parameters and the rows of one
process after as many steps. Both are audited. Exit code 1 if an acknowledged parcel is lost,
doubled or changed, if a process ended in a way that no fault explains, or if the bits differ.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (3, 2, 1)]

from chaos import ear as ears  # noqa: E402
from chaos.cast import ROOT, Cast  # noqa: E402
from chaos.plan import KILLS, schedule  # noqa: E402
from chaos.results import publish  # noqa: E402
from chaos.run import Stage, compare, holds  # noqa: E402
from support.family import children_end  # noqa: E402
from support.waiting import run_to_end  # noqa: E402

from farflung.common.net import sockets  # noqa: E402

TAUGHT = ("--round-actors", 4, "--envs", 2, "--warmup", 500, "--replay-ratio", 4)
TAUGHT += ("--dqn.hidden", 32, "--seed", 1)
FLAGS = ("--mode", "sync", "--checkpoint-every", 2, *TAUGHT)
KEEP_BITS = {"learner": 0.6, "broker": 0.4}  # another start of an actor plays other steps
BITS = re.compile(r"^(\d+) steps, .*\nparameters: (\w+)\nreplay: (\w+)", re.MULTILINE)
WITHIN_S = 3600.0


def rounds(
    folder: Path, roles: Mapping[str, float], *, kills: int, mean_s: float, seed: int
) -> dict[str, object]:
    """Do a whole run in a folder, and kill these roles; return the figures to publish."""
    began = time.monotonic()
    folder.mkdir()
    with sockets.context() as context, Cast(folder, flags=FLAGS) as cast:
        ear = ears.listening(context, cast.port, folder)
        stage = Stage(cast, ear)
        try:
            stage.wait_for_all("at the beginning")
            stage.play(schedule(seed, kills, mean_s, roles))
            stage.wait_for_all("at the end")
            cast.retire()
        finally:
            ear.feed.close()
        found = compare(cast)
    log = cast.learner.log.read_text(errors="replace")
    ends = BITS.findall(log)
    assert ends, f"the learner said no bits at its end: {cast.surprises}\n{log[-3000:]}"
    steps, *bits = ends[-1]
    return found | {
        "kills": len(stage.story.kills),
        "kills_by_role": dict(Counter(stage.story.kills)),
        "others": dict(stage.story.others),
        "steps": int(steps),
        "bits": bits,
        "surprises": cast.surprises,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }


def in_one_process(folder: Path, steps: object) -> list[str]:
    """Return the bits of the sequential mode after so many steps."""
    words = ("--mode", "sequential", "--steps", steps, "--run-dir", folder, "--evaluate-every", 0)
    command = (sys.executable, "-m", "farflung.learner.main", *words, "--ui", "lines", *TAUGHT)
    known = {name: text for name, text in os.environ.items() if not name.startswith("FARFLUNG_")}
    variables = known | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    said = run_to_end(command, WITHIN_S, env=variables).stdout
    found = BITS.search(said)
    assert found is not None, said
    return [found[2], found[3]]


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40, help="in each of the two runs")
    parser.add_argument(
        "--mean", type=float, default=5.0, help="seconds between two faults, on average"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--publish", action="store_true", help="write docs/results/rounds.json")
    asked = parser.parse_args()
    faults = {"kills": asked.kills, "mean_s": asked.mean, "seed": asked.seed}
    with tempfile.TemporaryDirectory() as temporary, children_end():
        folder = Path(temporary).resolve()
        every = rounds(folder / "all", KILLS, **faults)
        kept = rounds(folder / "kept", KEEP_BITS, **faults)
        same = kept["bits"] == in_one_process(folder / "one", kept["steps"])
    found = {"all_roles": every, "learner_and_broker": kept, "same_bits": same}
    print(json.dumps(found, indent=1))
    if asked.publish:
        publish("rounds", found | {"seed": asked.seed})
    return 0 if holds(every) and holds(kept) and same else 1


if __name__ == "__main__":
    sys.exit(main())
