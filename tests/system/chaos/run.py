"""Kills, stops and ends of real processes in any order, then an audit.

`python tests/system/chaos/run.py --kills 200`. Exit code 1 if an acknowledged parcel is lost,
doubled or changed, or if a process ended in a way that no fault explains.
"""

import argparse
import io
import json
import re
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (3, 2, 1)]

from chaos import ear as ears  # noqa: E402
from chaos.cast import Cast, Member, Processes  # noqa: E402
from chaos.ear import Ear, Recovery  # noqa: E402
from chaos.plan import KILLS, Fault, orders, schedule  # noqa: E402
from chaos.results import publish  # noqa: E402
from support.family import children_end  # noqa: E402
from support.waiting import Deadline  # noqa: E402

from farflung.common.net import sockets  # noqa: E402
from farflung.learner.storage.audit import audit  # noqa: E402

FLAGS = ("--warmup", 500, "--replay-ratio", 16, "--checkpoint-every", 2)
FLAGS += ("--dqn.hidden", 32, "--seed", 1)
AUDITED = re.compile(
    r"acknowledged: (\d+)(?: \((\d+) of other runs\))?; "
    r"lost: (\d+); duplicated: (\d+); changed: (\d+)"
)
TICK_S = 0.02
BACK_S = 60.0  # for all actors to be counted, at the beginning and at the end


@dataclass
class Story:
    """The faults of a run, and the recoveries from them."""

    kills: list[str] = field(default_factory=list)  # roles in order
    others: Counter[str] = field(default_factory=Counter)
    recoveries: list[Recovery] = field(default_factory=list)


class Stage:
    """A cast, and an ear for its learner's beacons."""

    def __init__(self, cast: Processes, ear: Ear) -> None:
        self.cast, self.ear, self.story = cast, ear, Story()
        self._held: list[tuple[float, Member]] = []

    def pass_time(self) -> None:
        """Listen for a moment; continue processes that were stopped, restart those that ended."""
        self.ear.listen(TICK_S)
        now = time.monotonic()
        for until, member in [held for held in self._held if held[0] <= now]:
            member.send(signal.SIGCONT)
            self._held.remove((until, member))
        for member in self.cast.all:
            member.tend()

    def wait_for_all(self, what: str) -> None:
        """Wait until new parcels of every actor have counted."""
        actors = [member.name for member in (*self.cast.direct, *self.cast.relayed)]
        before, deadline = dict(self.ear.counted), Deadline(BACK_S)
        while late := [
            actor
            for actor in actors
            if self.ear.counted.get(actor, (0, 0)) in ((0, 0), before.get(actor))
        ]:
            if deadline.over:
                raise AssertionError(
                    f"{what}: {', '.join(late)} not counted within {BACK_S:g} s of a quiet "
                    f"machine; {self.cast.surprises}"
                )
            self.pass_time()

    def one_at_a_time(self, trials: int) -> None:
        """Kill each role so often while all is well, and measure the time to recovery."""
        for _ in range(trials):
            for role in KILLS:
                member = self.cast.of(role)[0]
                recovery = self._awaited(member)
                self.kill(member)
                deadline = Deadline(BACK_S)
                while recovery.seconds is None:
                    if deadline.over:
                        raise AssertionError(
                            f"after a kill of {member.name}: not back within {BACK_S:g} s of a "
                            f"quiet machine; {self.cast.surprises}"
                        )
                    self.pass_time()
                self.wait_for_all(f"after a kill of {member.name}")

    def play(self, faults: Iterable[Fault]) -> None:
        """Cause the faults of a schedule, each at its time."""
        began = time.monotonic()
        for fault in faults:
            while time.monotonic() - began < fault.at_s:
                self.pass_time()
            members = self.cast.of(fault.role)
            self.strike(members[int(fault.which * len(members))], fault)
        self.calm()

    def calm(self) -> None:
        """Continue the processes that are stopped."""
        for _, member in self._held:
            member.send(signal.SIGCONT)
        self._held.clear()

    def strike(self, member: Member, fault: Fault) -> None:
        """Cause one fault."""
        if fault.signal == signal.SIGKILL:
            self.kill(member)
            return
        self.story.others[f"{fault.signal.name} {member.role}"] += 1
        member.send(fault.signal)
        if fault.hold_s:
            self._held.append((time.monotonic() + fault.hold_s, member))

    def kill(self, member: Member) -> None:
        """Kill a process with SIGKILL."""
        member.send(signal.SIGKILL)
        self.story.kills.append(member.role)
        if member.role.endswith("actor"):
            self.ear.bury(member.name)

    def _awaited(self, member: Member) -> Recovery:
        if member.role == "learner":
            recovery = ears.of_learner(self.ear)
        elif member.role == "broker":
            recovery = ears.of_broker(self.ear, [actor.name for actor in self.cast.relayed])
        else:
            recovery = ears.of_actor(self.ear, member.role, member.name)
        self.ear.awaited = [recovery]
        self.story.recoveries.append(recovery)
        return recovery


def chaos(
    folder: Path, *, kills: int, trials: int, mean_s: float, seed: int, actors: int = 2
) -> dict[str, object]:
    """Do a whole run in a folder; return the figures to publish."""
    began = time.monotonic()
    with (
        sockets.context() as context,
        Cast(folder, direct=actors, relayed=actors, flags=FLAGS) as cast,
    ):
        ear = ears.listening(context, cast.port, folder)
        stage = Stage(cast, ear)
        try:
            stage.wait_for_all("at the beginning")
            stage.one_at_a_time(trials)
            stage.play(schedule(seed, kills - len(stage.story.kills), mean_s))
            stage.wait_for_all("at the end")
            cast.retire()
        finally:
            ear.feed.close()
        verdict = compare(cast)
    story = stage.story
    return {
        "kills": len(story.kills),
        "kills_by_role": dict(Counter(story.kills)),
        "orders": dict(orders(story.kills)),
        "others": dict(story.others),
        "starts": {member.name: member.starts for member in cast.all},
        "recovery_s": {
            role: spread(recovery.seconds for recovery in story.recoveries if recovery.role == role)
            for role in KILLS
        },
        **verdict,
        "surprises": cast.surprises,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }


def compare(cast: Cast) -> dict[str, object]:
    """Audit the run against every receipt; return the figures."""
    said = io.StringIO()
    code = audit(cast.run, cast.receipts, "", said)
    text = said.getvalue()
    found = AUDITED.search(text)
    assert found, text
    names = ("acknowledged", "of_other_runs", "lost", "duplicated", "changed")
    figures: dict[str, object] = dict(
        zip(names, (int(part or 0) for part in found.groups()), strict=True)
    )
    return figures | {"audit": code} | ({"audit_said": text[-4000:]} if code else {})


def spread(seconds: Iterable[float | None]) -> dict[str, float]:
    """Return number, median and worst of the known times."""
    known = [value for value in seconds if value is not None]
    return (
        {
            "trials": len(known),
            "median": round(statistics.median(known), 2),
            "worst": round(max(known), 2),
        }
        if known
        else {"trials": 0}
    )


def holds(found: dict[str, object]) -> bool:
    """Return whether all that was acknowledged is there once, and no end was a surprise."""
    nothing = all(
        found[name] == 0 for name in ("audit", "lost", "duplicated", "changed", "of_other_runs")
    )
    return nothing and not found["surprises"] and found["acknowledged"] != 0


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=220)
    parser.add_argument(
        "--trials",
        type=int,
        default=8,
        help="kills of each role, one at a time, whose recovery is measured",
    )
    parser.add_argument(
        "--mean", type=float, default=5.0, help="seconds between two faults, on average"
    )
    parser.add_argument("--actors", type=int, default=2, help="on each of the two paths")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="folder of the run; a temporary one by default")
    parser.add_argument("--publish", action="store_true", help="write docs/results/chaos.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, children_end():
        folder = (asked.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        found = chaos(
            folder,
            kills=asked.kills,
            trials=asked.trials,
            mean_s=asked.mean,
            seed=asked.seed,
            actors=asked.actors,
        )
    print(json.dumps(found, indent=1))
    if asked.publish:
        publish("chaos", found | {"seed": asked.seed})
    return 0 if holds(found) else 1


if __name__ == "__main__":
    sys.exit(main())
