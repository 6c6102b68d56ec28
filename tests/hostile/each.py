"""Every known attack alone: from one peer, with a key, through a broker, and from fifty peers.

    python tests/hostile/each.py --lines now.jsonl --publish now
    python tests/hostile/each.py --lines then.jsonl --publish then --tree ../earlier --of 0.1.0

attacks a learner and the broker in front of it, and writes docs/results/attacks.json, from which
`python docs/write.py` writes a table. `--tree` takes the programs of another checkout with its
`.venv`, so that the same attacks run against an earlier release; attackers take its protocol from
its package `farflung`, if it has one. Attackers that could not begin, as they do not speak that
protocol, have no line. `--lines FILE` keeps each line as it comes: a run that was ended goes on
where it was. No line begins after `--minutes`.

A line takes some twelve seconds: three before the attack, five of attack, and three at least until
the honest actors are back. Attacks share a learner as long as none harms it, so a tree of 24
attacks in four ways takes 20 to 25 minutes, and one that they harm twice as long.

Each line has the steps/s of the slower of two honest actors, one at the learner and one at the
broker: before, meanwhile and after; the memory that learner and broker grew by; and the seconds in
which a client that comes meanwhile is answered. Priorities are those of `siege.py`; a line names
the processors that the attackers used, for one that used none attacked nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (2, 1)]
sys.path.append(str(Path(__file__).parents[1] / "system"))

from chaos.results import FOLDER, publish  # noqa: E402
from hostile import attacks, siege  # noqa: E402
from hostile.attacks import Attack, Needs  # noqa: E402
from hostile.lines import BACK, WAYS, Line, Lines, told  # noqa: E402
from hostile.seen import Spent, is_answered  # noqa: E402
from hostile.victim import Victim, victim  # noqa: E402
from support import programs  # noqa: E402
from support.family import children_end  # noqa: E402

WINDOW_S = 3.0  # over which steps/s before and after an attack are taken
BACK_S = 12.0  # in which they are to be back
JOIN_S = 10.0  # that a client which joins meanwhile may take
RESULT = "attacks"  # in docs/results


class NotBegunError(Exception):
    """Attackers that failed before their attack: it says nothing about the learner."""


def require_begun(process: subprocess.Popen[bytes], log: Path) -> None:
    """Raise with the last line of the attackers' log if they failed."""
    if process.returncode == siege.FAILED:
        raise NotBegunError(log.read_text(errors="replace").strip().rpartition("\n")[2])


def attacked(target: Victim, attack: Attack, way: str, seconds: float) -> Line:
    """Attack once, and return the line."""
    assert target.broker is not None
    peers, through = WAYS[way].peers, WAYS[way].through
    keyed = WAYS[way].guarded and attack.needs is not Needs.NOTHING
    before = target.during(WINDOW_S).slowest
    sizes = target.learner.own_mb(), target.broker.own_mb()
    process = siege.start(target, siege.Plan(attack, peers, keyed, through, 1), seconds)
    siege.begun([process])
    spent = Spent([process])
    with target.measuring() as figures:
        end = time.monotonic() + seconds
        join_s = joined(target, through)
        time.sleep(max(0.0, end - time.monotonic()))  # the attack goes on
        broker_mb = target.broker.own_mb() if target.broker.running else 0.0
    siege.wait([process], 0.0)
    require_begun(process, target.shell.folder / "attackers.log")
    processors = spent.processors
    after, back_s = recovered(target, BACK * before)
    return Line(
        attack=attack.name,
        way=way,
        before=before,
        during=figures.slowest,
        after=after,
        back_s=back_s,
        learner_mb=figures.most_mb - sizes[0],
        broker_mb=broker_mb - sizes[1],
        join_s=join_s,
        ended=not (target.learner.running and target.broker.running),
        processors=processors,
    )


def recovered(target: Victim, wanted: float) -> tuple[float, float | None]:
    """Wait until honest actors are back; return their steps/s and the seconds that took."""
    began = time.monotonic()
    while True:
        at = time.monotonic() - began
        after = target.during(WINDOW_S).slowest
        if after >= wanted:
            return after, at
        if time.monotonic() - began >= BACK_S or not target.learner.running:
            return after, None


def joined(target: Victim, through: bool) -> float | None:
    """Return the seconds until an honest client's question is answered."""
    began = time.monotonic()
    with target.peer("joiner", "joiner", through=through, learns=False, seed=9) as peer:
        return time.monotonic() - began if is_answered(peer, JOIN_S) else None


@contextmanager
def a_victim(guarded: bool) -> Iterator[Victim]:
    """Yield a learner, a broker and an honest actor behind each."""
    with (
        tempfile.TemporaryDirectory() as folder,
        victim(Path(folder), keys=guarded, broker=True, actors=1, relayed=1, forks=False) as target,
    ):
        siege.favour(target)
        yield target


def measure(lines: Lines, wanted: list[tuple[str, str]], seconds: float, until: float) -> None:
    """Add the lines that are wanted. A learner that was harmed is not attacked again."""
    known = attacks.load()
    with ExitStack() as held:
        target, guarded = None, None
        for name, way in wanted:
            if time.monotonic() > until:
                return
            if target is None or guarded != WAYS[way].guarded:
                held.close()
                guarded = WAYS[way].guarded
                target = held.enter_context(a_victim(guarded))
            try:
                lines.add(line := attacked(target, known[name], way, seconds))
            except NotBegunError as error:
                print(f"{name} ({way}): its attackers did not begin: {error}", flush=True)
                continue
            print(told(line), flush=True)
            if line.is_harmed:
                target = None


def published(arm: str, lines: Lines, seconds: float, of: str) -> None:
    """Put the lines of a tree beside those of another one in docs/results."""
    path = FOLDER / f"{RESULT}.json"
    arms = json.loads(path.read_text())["arms"] if path.exists() else {}
    publish(
        RESULT, {"arms": arms | {arm: {"of": of, "seconds": seconds, "lines": lines.summary()}}}
    )


def main() -> int:
    """Run the command; return 1 if a line is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each attack")
    parser.add_argument("--minutes", type=float, default=60.0, help="after which no line begins")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--only", nargs="*", default=[], help="names of attacks")
    parser.add_argument("--lines", type=Path, help="file of the lines so far")
    parser.add_argument("--tree", type=Path, help="another checkout, with a .venv")
    parser.add_argument("--of", default="", help="name of the tree in the table, as 0.1.0")
    parser.add_argument("--publish", choices=("then", "now"), help="write docs/results")
    asked = parser.parse_args()
    if asked.tree is not None:
        programs.BIN = asked.tree.absolute() / ".venv" / "bin"
        programs.DEFAULTS.clear()  # an earlier learner does not know these variables
        os.environ["HOSTILE_TREE"] = str(asked.tree.absolute())
    until = time.monotonic() + 60 * asked.minutes
    lines, names = Lines(asked.lines), asked.only or list(attacks.load())
    with children_end():
        measure(lines, list(lines.missing(names, asked.ways)), asked.seconds, until)
    left = list(lines.missing(names, asked.ways))
    print(f"{len(lines.found)} lines, {len(left)} to come")
    if asked.publish:
        published(asked.publish, lines, asked.seconds, asked.of or asked.publish)
    return int(bool(left))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
