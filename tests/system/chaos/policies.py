"""Kills among several policies: `python tests/system/chaos/policies.py`.

Three policies of one world have a learner each. An actor with the addresses of all three and one
behind a broker play for them. In two runs, of a parallel and of a turn-based world, all processes
are killed, stopped and ended in any order; in two more only learners and broker are. Environments
write down every own step of every agent (`support/crowd.py`), and each journal is compared with
that: exit code 1 if a row is there twice, or is no own step of an agent of its policy; if an
acknowledged parcel is lost, doubled or changed; if rows are missing that no living actor counted as
dropped; or if a process ended in a way that no fault explains.
"""

import argparse
import io
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (3, 2, 1)]

from chaos.cast import Member, Processes, actor, free_ports  # noqa: E402
from chaos.ear import Ear  # noqa: E402
from chaos.plan import schedule  # noqa: E402
from chaos.results import publish  # noqa: E402
from chaos.run import AUDITED, BACK_S, Stage  # noqa: E402
from support.family import children_end  # noqa: E402
from support.recorded import digest, journal, own_steps  # noqa: E402
from support.waiting import Deadline  # noqa: E402

from farflung.common.net import sockets  # noqa: E402
from farflung.common.net.address import Address  # noqa: E402
from farflung.common.protocol import receipts, topics  # noqa: E402
from farflung.learner.storage.audit import audit  # noqa: E402

SEATS = {"red": ("ann", "bob"), "blue": ("cat",), "green": ("dot",)}
POLICIES = "; ".join(f"{policy}={','.join(agents)}" for policy, agents in SEATS.items())
HORIZON, ENVIRONMENTS = 8, 2
FLAGS = ("--horizon", HORIZON, "--warmup", 200, "--replay-ratio", 4, "--dqn.hidden", 16)
FLAGS += ("--checkpoint-every", 2, "--seed", 1, "--evaluate-every", 0)
ALL = {"learner": 0.45, "broker": 0.15, "actor": 0.2, "relayed actor": 0.2}
KEEP_ACTORS = {"learner": 0.75, "broker": 0.25}
BEGINS_S = 4 * BACK_S  # for three learners at once
DROPPED = re.compile(r"the learner of (\w+) is (?:back|still away): ([\d,]+) rows were dropped")
ON_THE_WAY = 4  # windows of an actor at its end: being played, waiting, and sent


class Company(Processes):
    """A learner of each policy, a broker in front of them, and an actor on each of two paths."""

    def __init__(self, folder: Path, world: str) -> None:
        *ports, self.front = free_ports(1 + len(SEATS))
        self.ports = dict(zip(SEATS, ports, strict=True))
        self.steps = folder / "steps"  # of environments
        self.steps.mkdir(parents=True)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        words = "farflung.broker.main", *addresses, "--port", self.front
        play = ("--policy", "red", "--import", "support.crowd")
        super().__init__(
            folder,
            [Member(one, "learner", folder, partial(self._learner, one, world)) for one in SEATS],
            Member("broker", "broker", folder, lambda start: words),
            [actor(folder, "direct", "actor", *addresses, *play)],
            [actor(folder, "relayed", "relayed actor", f"127.0.0.1:{self.front}", *play)],
        )

    def _learner(self, policy: str, world: str, start: int) -> tuple[object, ...]:
        names = ("--name", policy, "--resume", "auto", "--keep-journal", "--ui", "lines")
        told = ("--env", world, "--env-args", f"folder={self.steps}", "--import", "support.crowd")
        shared = ("--policies", POLICIES, "--policy", policy, "--port", self.ports[policy])
        return ("farflung.learner.main", *names, *told, *shared, *FLAGS)


class Receipts:
    """The number of parcels that each actor had acknowledged by each learner."""

    def __init__(self, company: Company) -> None:
        self._company, self._before = company, self._read(company)

    def all_grew(self) -> bool:
        """Return whether each learner has taken more of each actor."""
        now = self._read(self._company)
        pairs = {(one, policy) for one in ("direct", "relayed") for policy in SEATS}
        return all(now[pair] > self._before[pair] for pair in pairs)

    @staticmethod
    def _read(company: Company) -> Counter[tuple[str, str]]:
        return Counter(
            (one.actor, one.policy) for path in company.receipts for one in receipts.read(path)
        )


def wait_for_each(stage: Stage, company: Company, what: str, within_s: float) -> None:
    """Wait until each learner has taken more of each actor."""
    taken, deadline = Receipts(company), Deadline(within_s)
    while not taken.all_grew():
        assert not deadline.over, f"{what}: not within {within_s:g} s; {company.surprises}"
        for _ in range(10):
            stage.pass_time()


def kills(
    folder: Path, world: str, roles: Mapping[str, float], *, kills: int, mean_s: float, seed: int
) -> dict[str, object]:
    """Do a whole run in a folder, and kill these roles; return the figures to publish."""
    began = time.monotonic()
    with sockets.context() as context, Company(folder, world) as company:
        address = Address("127.0.0.1", company.ports["red"], company.ports["red"] + 1)
        feed = sockets.feed_subscriber(context, address, [topics.beacon("red")], backlog=1000)
        stage = Stage(company, Ear(feed, folder))
        try:
            wait_for_each(stage, company, "at the beginning", BEGINS_S)
            stage.play(schedule(seed, kills, mean_s, roles))
            wait_for_each(stage, company, "at the end", BEGINS_S)
            company.retire()
        finally:
            feed.close()
    return {
        "world": world,
        "actors_killed": "actor" in roles,
        "kills": len(stage.story.kills),
        "kills_by_role": dict(Counter(stage.story.kills)),
        "others": dict(stage.story.others),
        "policies": {policy: compare(company, policy) for policy in SEATS},
        "surprises": company.surprises,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }


def compare(company: Company, policy: str) -> dict[str, int]:
    """Compare the journal of a policy with the world's own record, and with all receipts."""
    run = company.folder / "runs" / policy
    played = [line.split() for path in company.steps.glob("*.txt") for line in lines(path)]
    own = Counter(step for agent, step in played if agent in SEATS[policy])
    stored: Counter[str] = Counter()
    for step, times in own_steps(journal(run)).items():
        stored[digest(step)] += times
    said = io.StringIO()
    code = audit(run, company.receipts, "", said)
    found = AUDITED.search(said.getvalue())
    assert found, said.getvalue()
    acknowledged, _, lost, duplicated, changed = (int(part or 0) for part in found.groups())
    actors = [*company.direct, *company.relayed]
    return {
        "own_steps": own.total(),
        "stored": stored.total(),
        "foreign": sum(times for step, times in stored.items() if step not in own),
        "twice": sum(times - 1 for times in stored.values()),
        "missing": (own - stored).total(),
        "dropped": sum(dropped(member, policy) for member in actors),
        "on_the_way": len(actors) * ON_THE_WAY * HORIZON * ENVIRONMENTS * len(SEATS[policy]),
        "acknowledged": acknowledged,
        "lost": lost,
        "duplicated": duplicated,
        "changed": changed,
        "audit": code,
    }


def lines(path: Path) -> list[str]:
    """Return the whole lines of a file: a killed process may leave a part of one."""
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def dropped(member: Member, policy: str) -> int:
    """Return the rows that an actor has dropped while the learner of a policy was away."""
    said = DROPPED.findall(member.log.read_text(errors="replace"))
    return sum(int(rows.replace(",", "")) for one, rows in said if one == policy)


def problems(found: Mapping[str, object]) -> list[str]:
    """Return what is wrong with a run."""
    wrong = [f"{found['world']}: {surprise}" for surprise in found["surprises"]]  # type: ignore[attr-defined]
    for policy, figures in found["policies"].items():  # type: ignore[attr-defined]
        nothing = ("foreign", "twice", "lost", "duplicated", "changed", "audit")
        broken = [f"{name} {figures[name]}" for name in nothing if figures[name]]
        if not figures["stored"]:
            broken.append("nothing is stored")
        unexplained = figures["missing"] - figures["dropped"] - figures["on_the_way"]
        if not found["actors_killed"] and unexplained > 0:
            broken.append(f"missing, and not counted: {unexplained}")
        wrong += [f"{found['world']}, {policy}: {one}" for one in broken]
    return wrong


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30, help="in each run")
    parser.add_argument(
        "--mean", type=float, default=5.0, help="seconds between two faults, on average"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="two of the four runs")
    parser.add_argument("--publish", action="store_true", help="write docs/results/policies.json")
    asked = parser.parse_args()
    runs = [("meeting", KEEP_ACTORS), ("circle", ALL), ("meeting", ALL), ("circle", KEEP_ACTORS)]
    options = {"kills": asked.kills, "mean_s": asked.mean, "seed": asked.seed}
    found = []
    with tempfile.TemporaryDirectory() as temporary, children_end():
        for number, (world, roles) in enumerate(runs[: 2 if asked.quick else None]):
            found.append(kills(Path(temporary).resolve() / str(number), world, roles, **options))
            print(json.dumps(found[-1], indent=1), flush=True)
    wrong = [problem for one in found for problem in problems(one)]
    print("\n".join(wrong) or "nothing is wrong")
    if asked.publish:
        publish("policies", {"runs": found, "seed": asked.seed})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
