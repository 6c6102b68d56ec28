"""Kill, stop and end real processes in any order, then hold the learner to its word: `python tests/system/chaos/run.py --kills 200`.

Exit code 1 if anything acknowledged is lost, doubled or changed, or if anybody ended in a way that nobody asked for.
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
from chaos.cast import Cast, Member  # noqa: E402
from chaos.ear import Ear, Recovery  # noqa: E402
from chaos.plan import KILLS, Fault, orders, schedule  # noqa: E402
from chaos.results import publish  # noqa: E402

from farflung.common.net import sockets  # noqa: E402
from farflung.learner.storage.audit import audit  # noqa: E402

FLAGS = (
    "--warmup",
    500,
    "--replay-ratio",
    16,
    "--checkpoint-every",
    2,
    "--dqn.hidden",
    32,
    "--seed",
    1,
)
TICK_S = 0.02
BACK_S = 60.0  # for everybody to be counted, at the beginning and in the end


@dataclass
class Story:
    """What happened."""

    kills: list[str] = field(default_factory=list)  # roles in order
    others: Counter[str] = field(default_factory=Counter)
    recoveries: list[Recovery] = field(default_factory=list)


class Stage:
    """A cast, and an ear for what its learner says."""

    def __init__(self, cast: Cast, ear: Ear) -> None:
        self.cast, self.ear, self.story = cast, ear, Story()
        self._held: list[tuple[float, Member]] = []

    def pass_time(self) -> None:
        """A moment in which who was stopped goes on and who ended is started again."""
        self.ear.listen(TICK_S)
        now = time.monotonic()
        for until, member in [held for held in self._held if held[0] <= now]:
            member.send(signal.SIGCONT)
            self._held.remove((until, member))
        for member in self.cast.all:
            member.tend()

    def wait_for_all(self, what: str) -> None:
        """Until parcels of everybody have counted from now on."""
        actors = [member.name for member in (*self.cast.direct, *self.cast.relayed)]
        before, end = dict(self.ear.counted), time.monotonic() + BACK_S
        while any(
            self.ear.counted.get(actor, (0, 0)) in ((0, 0), before.get(actor)) for actor in actors
        ):
            if time.monotonic() > end:
                late = [
                    actor
                    for actor in actors
                    if self.ear.counted.get(actor, (0, 0)) in ((0, 0), before.get(actor))
                ]
                raise AssertionError(
                    f"{what}: {', '.join(late)} not counted within {BACK_S:g} s; {self.cast.surprises}"
                )
            self.pass_time()

    def one_at_a_time(self, trials: int) -> None:
        """Kill each role so often while all is well, and measure until all is well again."""
        for _ in range(trials):
            for role in KILLS:
                member = self.cast.of(role)[0]
                recovery = self._awaited(member)
                self.kill(member)
                end = recovery.since + BACK_S
                while recovery.seconds is None:
                    if time.monotonic() > end:
                        raise AssertionError(
                            f"after a kill of {member.name}: not back within {BACK_S:g} s; {self.cast.surprises}"
                        )
                    self.pass_time()
                self.wait_for_all(f"after a kill of {member.name}")

    def play(self, faults: Iterable[Fault]) -> None:
        """Everything in the schedule, whatever state anybody is in."""
        began = time.monotonic()
        for fault in faults:
            while time.monotonic() - began < fault.at_s:
                self.pass_time()
            members = self.cast.of(fault.role)
            self.strike(members[int(fault.which * len(members))], fault)
        self.calm()

    def calm(self) -> None:
        """Whoever is stopped goes on."""
        for _, member in self._held:
            member.send(signal.SIGCONT)
        self._held.clear()

    def strike(self, member: Member, fault: Fault) -> None:
        """One fault."""
        if fault.signal == signal.SIGKILL:
            self.kill(member)
            return
        self.story.others[f"{fault.signal.name} {member.role}"] += 1
        member.send(fault.signal)
        if fault.hold_s:
            self._held.append((time.monotonic() + fault.hold_s, member))

    def kill(self, member: Member) -> None:
        """kill -9."""
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
    """A whole run in a folder; gives what to publish of it."""
    began = time.monotonic()
    with (
        sockets.context() as context,
        Cast(folder, direct=actors, relayed=actors, flags=FLAGS) as cast,
    ):
        ear = ears.listening(context, cast.port)
        stage = Stage(cast, ear)
        try:
            stage.wait_for_all("at the beginning")
            stage.one_at_a_time(trials)
            stage.play(schedule(seed, kills - len(stage.story.kills), mean_s))
            stage.wait_for_all("in the end")
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
        "lives": {member.name: member.lives for member in cast.all},
        "recovery_s": {
            role: spread(recovery.seconds for recovery in story.recoveries if recovery.role == role)
            for role in KILLS
        },
        **verdict,
        "surprises": cast.surprises,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }


def compare(cast: Cast) -> dict[str, object]:
    """What the audit says of the run against every receipt."""
    said = io.StringIO()
    code = audit(cast.run, cast.receipts, "", said)
    text = said.getvalue()
    found = re.search(
        r"acknowledged: (\d+)(?: \((\d+) of other runs\))?; lost: (\d+); duplicated: (\d+); changed: (\d+)",
        text,
    )
    assert found, text
    names = ("acknowledged", "of_other_runs", "lost", "duplicated", "changed")
    figures: dict[str, object] = dict(
        zip(names, (int(part or 0) for part in found.groups()), strict=True)
    )
    return figures | {"audit": code} | ({"audit_said": text[-4000:]} if code else {})


def spread(seconds: Iterable[float | None]) -> dict[str, float]:
    """Median and worst of what was measured."""
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
    """Whether the promise was kept."""
    nothing = all(
        found[name] == 0 for name in ("audit", "lost", "duplicated", "changed", "of_other_runs")
    )
    return nothing and not found["surprises"] and found["acknowledged"] != 0


def main() -> int:
    """The command."""
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
    parser.add_argument(
        "--folder", type=Path, help="where to keep everything; by default a temporary folder"
    )
    parser.add_argument("--publish", action="store_true", help="write docs/results/chaos.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
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
