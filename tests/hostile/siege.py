"""All known attacks at random against a learner with keys, a broker, and honest actors behind both.

`python tests/hostile/siege.py --minutes 30 --seed 1`; `make siege` does, and writes the result to
docs/results/siege.json. Each round has one to three attacks at once, each from 1, 5 or 50 peers
that have no key or an allowed one, at the learner's ports or the broker's.

Steps/s of the honest actors are those that the learner acknowledged. They are measured before,
during and after each round. Attackers run at the lowest priority. For root they run before all
other work on the machine, and the victims, with 28 times their share of a processor, before them:
else a busy machine leaves the attackers nothing, and they attack nothing. While there is no attack,
as many processes of the same priority spin instead. So the ratio shows what the attack did, and not
what its own use of the processor did. Each round names the processors that its attackers used.

The exit code is 1 if honest actors had less than 80 % of their steps/s during a round, or less than
95 % within 10 s after it, if the learner or the broker ended, if the learner took more memory than
the printed formula, or if the audit finds a fault.
"""

import argparse
import json
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (2, 1)]
sys.path.append(str(Path(__file__).parents[1] / "system"))

import psutil  # noqa: E402
from chaos.results import publish  # noqa: E402
from hostile import attacks  # noqa: E402
from hostile.attacks import Attack, Needs  # noqa: E402
from hostile.bounds import bounds  # noqa: E402
from hostile.seen import (  # noqa: E402
    AFTER,
    BACK_S,
    WINDOW_S,
    Ledger,
    Round,
    Spent,
    by_attack,
    spread,
    told,
)
from hostile.spin import LOWEST  # noqa: E402
from hostile.victim import Victim, victim  # noqa: E402
from support.family import children_end  # noqa: E402

RUN, SPIN = Path(__file__).parent / "run.py", Path(__file__).parent / "spin.py"
DURING = 0.80  # of the steps/s before: the target
BEFORE_S = 5.0
ATTACK_S = (6.0, 12.0)
FIRST, BEHIND = -20, -5  # niceness of victims and attackers, for which one must be root
AT_ONCE = (1, 1, 2, 3)
CROWDS = (1, 1, 5, 50)
READY_S = 60.0  # for an attacker to be ready
ENDS_S = 20.0  # for an attacker to end after its seconds
FAILED = 1  # the exit code of an attacker that did not begin


@dataclass(slots=True)
class Siege:
    """A learner under attack, and what was seen so far."""

    target: Victim
    chance: random.Random
    ledger: Ledger
    known: dict[str, Attack]
    rounds: list[Round] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)  # attacks that have not had their turn

    def round(self) -> Round:
        """Do one round."""
        chosen = [self._next() for _ in range(self.chance.choice(AT_ONCE))]
        seconds = self.chance.uniform(*ATTACK_S)
        plans = [self._plan(one) for one in chosen]
        began = begun(spinners := self._spin(len(plans), BEFORE_S))
        wait(spinners, BEFORE_S)
        quiet = time.monotonic()
        with self.target.measuring() as figures:
            attacked = begun(attackers := [start(self.target, plan, seconds) for plan in plans])
            spent = Spent(attackers)
            wait(attackers, seconds)
            time.sleep(max(0.0, attacked + seconds - time.monotonic()))  # some end at once
            over = time.monotonic()
        wait(self._spin(len(plans), BACK_S + WINDOW_S), BACK_S + WINDOW_S)
        usual = [one.before for one in self.rounds]
        before = max(self.ledger.rate(began, quiet), statistics.median(usual) if usual else 0.0)
        made = Round(
            [one.name for one in chosen],
            sum(plan.peers for plan in plans),
            [plan.way for plan in plans],
            before,
            self.ledger.rate(attacked, over),
            self.ledger.back_after(over, AFTER * before, time.monotonic()),
            figures.beacon_gap_s,
            figures.most_mb,
            figures.descriptors,
            spent.processors,
            sum(one.returncode == FAILED for one in attackers),
        )
        self.rounds.append(made)
        return made

    def _next(self) -> Attack:
        """Draw an attack; each has its turn before one comes again."""
        if not self._names:
            self._names = sorted(self.known)
            self.chance.shuffle(self._names)
        return self.known[self._names.pop()]

    def _plan(self, one: Attack) -> "Plan":
        keyed = one.needs is not Needs.NOTHING or self.chance.random() < 0.3
        through = self.target.front is not None and self.chance.random() < 0.4
        return Plan(one, self.chance.choice(CROWDS), keyed, through, self.chance.getrandbits(30))

    def _spin(self, count: int, seconds: float) -> list[subprocess.Popen[bytes]]:
        return [process(self.target, SPIN, seconds) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class Plan:
    """One attack of a round."""

    attack: Attack
    peers: int
    keyed: bool
    through: bool
    seed: int

    @property
    def way(self) -> str:
        """The way that it takes, in words."""
        where = "broker" if self.through else "learner"
        return f"{self.peers} × {'a key' if self.keyed else 'no key'}, {where}"


def start(target: Victim, plan: Plan, seconds: float) -> subprocess.Popen[bytes]:
    """Start the peers of a plan."""
    address = target.front if plan.through else target.learner.address
    assert address is not None
    words: list[object] = [plan.attack.name, "--port", address.port]
    words += ["--feed-port", address.feed_port, "--seconds", f"{seconds:.1f}"]
    words += ["--peers", plan.peers, "--seed", plan.seed]
    if plan.keyed:
        words += ["--key", target.label("mallory")]
    return process(target, RUN, *words)


def process(target: Victim, *words: object) -> subprocess.Popen[bytes]:
    """Start a script of this folder."""
    words += ("--nice", BEHIND if os.geteuid() == 0 else LOWEST)
    with (target.shell.folder / "attackers.log").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *map(str, words)], stdout=subprocess.PIPE, stderr=output
        )


def begun(processes: list[subprocess.Popen[bytes]]) -> float:
    """Wait until all are ready to begin; return the time."""
    for process in processes:
        assert process.stdout is not None
        if select.select([process.stdout], [], [], READY_S)[0]:
            process.stdout.readline()
    return time.monotonic()


def wait(processes: list[subprocess.Popen[bytes]], seconds: float) -> None:
    """Wait for the end of attackers, and end those that are late."""
    end = time.monotonic() + seconds + ENDS_S
    for process in processes:
        try:
            process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def besiege(folder: Path, minutes: float, seed: int, only: list[str]) -> dict[str, Any]:
    """Do a whole siege in a folder; return the figures to publish."""
    known = {name: one for name, one in attacks.load().items() if not only or name in only}
    with victim(folder, keys=True, broker=True, actors=2, relayed=2, forks=False) as target:
        favour(target)
        limit = bounds(target, minutes)
        print(limit.formula, flush=True)
        with Ledger(target) as ledger, target.measuring() as figures:
            siege = Siege(target, random.Random(seed), ledger, known)
            end = time.monotonic() + 60 * minutes
            time.sleep(BEFORE_S)  # what is measured
            while time.monotonic() < end and target.learner.running:
                print(told(siege.round()), flush=True)
        broker_ended = target.broker is not None and not target.broker.running
        alive = target.learner.running
        code, said = target.audit() if alive else (1, target.learner.said[-2000:])
        if code or not alive:
            print(said, flush=True)
        if any(one.failed for one in siege.rounds):
            print((target.shell.folder / "attackers.log").read_text()[-2000:], flush=True)
    return {
        "minutes": minutes,
        "rounds": len(siege.rounds),
        "honest": len(target.honest),
        "most_peers": max(one.peers for one in siege.rounds),
        "attacks": by_attack(siege.rounds),
        "during": spread([one.part for one in siege.rounds]),
        "processors": round(statistics.median(one.processors for one in siege.rounds), 2),
        "failed": sum(one.failed for one in siege.rounds),
        "late": sum(one.back_s is None for one in siege.rounds),
        "before_steps_per_s": round(statistics.median(one.before for one in siege.rounds), 1),
        "memory_mb": {"most": round(figures.most_mb), "bound": round(limit.most_mb)},
        "formula": limit.formula,
        "beacon_gap_s": round(figures.beacon_gap_s, 1),
        "descriptors": figures.descriptors,
        "exits": int(not alive) + int(broker_ended),
        "audit": code,
        "audited": audited(said),
    }


def favour(target: Victim) -> None:
    """Let the victims go before all other work on this machine, where we may."""
    programs = [
        target.learner,
        *target.honest.values(),
        *([target.broker] if target.broker else []),
    ]
    for program in programs:
        with suppress(PermissionError, OSError):
            # Each has a session of its own, and sessions may have priorities of their own.
            Path(f"/proc/{program.pid}/autogroup").write_text(str(FIRST))
        with suppress(PermissionError):
            for thread in psutil.Process(program.pid).threads():
                os.setpriority(os.PRIO_PROCESS, thread.id, FIRST)


def audited(said: str) -> str:
    """Return the line of the audit about receipts."""
    return next((line for line in said.splitlines() if line.startswith("acknowledged:")), "")


def holds(found: dict[str, Any]) -> bool:
    """Return True if every target was met."""
    memory = found["memory_mb"]
    return bool(
        found["during"]["worst"] >= DURING
        and not found["late"]
        and not found["exits"]
        and memory["most"] <= memory["bound"]
        and found["audit"] == 0
    )


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="names of attacks")
    parser.add_argument("--publish", action="store_true", help="write docs/results/siege.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, children_end():
        found = besiege(Path(folder), asked.minutes, asked.seed, asked.only)
    found["holds"] = holds(found)
    print(json.dumps(found, indent=1))
    if asked.publish:
        publish("siege", found | {"seed": asked.seed})
    return int(not found["holds"])


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
