"""Kills of a learner that archives: `python tests/system/chaos/archive.py --kills 50`.

It plays tic-tac-toe against a pool and archives every publication, so it is killed with -9 while it
archives, each time after a random number of announced versions. A client hears each pool that is
announced. After each kill the archive must hold exactly the versions that its rule keeps, with the
bytes that they had before; none that was announced may be younger than the newest there; and the
resumed learner must announce the pool that is on disk. Exit code 1 if one of these does not hold,
if a pool exceeds its bound, or if at the end the games do not add up to the episodes.
"""

import argparse
import hashlib
import io
import json
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (3, 2, 1)]

from chaos.cast import Member, Processes, actor, free_ports  # noqa: E402
from chaos.forks import Quick  # noqa: E402
from chaos.results import publish  # noqa: E402
from support.family import children_end  # noqa: E402
from support.waiting import Deadline  # noqa: E402

from farflung.actor.connection.policy_client import PolicyClient  # noqa: E402
from farflung.actor.connection.sockets import Sockets  # noqa: E402
from farflung.common.data.pool import Pool  # noqa: E402
from farflung.common.data.weights import Version  # noqa: E402
from farflung.common.net import sockets  # noqa: E402
from farflung.common.net.address import Address  # noqa: E402
from farflung.learner.selfplay import report  # noqa: E402
from farflung.learner.selfplay.thinning import thinned  # noqa: E402
from farflung.learner.storage import archive  # noqa: E402
from farflung.learner.storage.audit import audit  # noqa: E402

MOST, NAMED = 12, 2  # archived versions, and opponents beside them
WORLD = ("--env", "examples/tictactoe_v0", "--import", "support.tictactoe_world")
FLAGS = ("--horizon", 8, "--warmup", 100, "--replay-ratio", 4, "--batch-size", 16)
FLAGS += ("--dqn.hidden", 8, "--checkpoint-every", 1, "--evaluate-every", 0, "--seed", 1)
FLAGS += ("--publish-every", 1, "--archive-every", "1 updates", "--archive-most", MOST)
FLAGS += ("--pool", "random=1", "win_or_block=1", "archive=2")
BACK_S, LATEST_S = 120.0, 0.02  # until a learner is back; from an announcement to its kill


class Cast(Processes):
    """A learner with a pool, and an actor that plays for it."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.run = folder / "runs" / "pool"
        names = ("--name", "pool", "--resume", "auto", "--keep-journal", "--ui", "lines")
        words = (*names, "--port", self.port, *WORLD, *FLAGS)
        plays = actor(folder, "one", "actor", f"127.0.0.1:{self.port}", *WORLD[2:])
        broker = Member("broker", "broker", folder, tuple[object, ...])  # there is none
        super().__init__(
            folder, [Quick("learner", "learner", folder, lambda start: words)], broker, [plays], []
        )
        self.all.remove(broker)


class Witness:
    """The pools that a learner announces."""

    def __init__(self, context: sockets.Context, port: int) -> None:
        self.client = PolicyClient("default", "witness", 1)
        self.sockets = Sockets(context, Address("127.0.0.1", port, port + 1), self.client)
        self.heard: dict[Version, Pool] = {}  # by the version of the weights that brought it

    def listen(self, timeout_s: float) -> None:
        """Take what comes within this time."""
        end = time.monotonic() + timeout_s
        while (left := end - time.monotonic()) > 0:
            self.sockets.exchange(min(left, 0.002))
            weights = self.client.newest.weights
            if weights is not None and weights.pool is not None:
                self.heard.setdefault(weights.version, weights.pool)

    def of(self, epoch: int) -> list[Pool]:
        """Return the pools of an epoch, the oldest first."""
        return [pool for version, pool in sorted(self.heard.items()) if version.epoch == epoch]


class Archive:
    """The archive on disk, as it was at the last look."""

    def __init__(self, run: Path) -> None:
        self.index: archive.Index = ()
        self.broken: list[str] = []
        self._run = run
        self._bytes: dict[Version, str] = {}  # of all versions that were ever there

    def look(self) -> None:
        """Read the archive of a learner that has just been killed; note what is wrong with it."""
        self.broken += archive.problems(self._run)
        index = archive.read(self._run)
        numbers = tuple(each.number for each in self.index)
        for number in range(numbers[-1] + 1 if numbers else 1, index[-1].number + 1):
            numbers = thinned((*numbers, number), MOST)
        if numbers != tuple(each.number for each in index):
            self.broken.append(f"{[each.number for each in index]} are there, and not {numbers}")
        for each in index:
            found = hashlib.sha256(archive.read_frame(self._run, each.version)).hexdigest()
            if self._bytes.setdefault(each.version, found) != found:
                self.broken.append(f"{each.version} is not what it was")
        self.index = index

    def compare(self, epoch: int, before: list[Pool], after: list[Pool]) -> None:
        """Compare with the pools that were announced before the kill, and those after it."""
        ours = {each.version for each in self.index}
        for pool in before:
            if pool.versions and pool.versions[-1] > self.index[-1].version:
                self.broken.append(f"{pool.versions[-1]} was announced, and is not there")
        for pool in (*before, *after):
            if len(pool) > NAMED + MOST:
                self.broken.append(f"a pool has {len(pool)} opponents")
        for pool in after:
            strange = [one for one in pool.versions if one.epoch < epoch and one not in ours]
            if strange or len(pool.versions) < min(len(ours), MOST - 1):
                self.broken.append(f"after a kill {len(ours)} versions are {len(pool.versions)}")


def kills(folder: Path, count: int, chance: random.Random) -> dict[str, object]:
    """Do a whole run in a folder; return the figures to publish."""
    began, unannounced, announced = time.monotonic(), 0, 0
    with sockets.context() as context, Cast(folder) as cast:
        (learner,) = cast.learners
        witness, found = Witness(context, cast.port), Archive(cast.run)
        for epoch in range(1, count + 1):
            wait_for(cast, witness, epoch, chance.randrange(1, 20))
            witness.listen(chance.uniform(0, LATEST_S))
            learner.send(signal.SIGKILL)
            assert learner.process is not None
            learner.process.wait()
            witness.listen(0.1)  # the last words may be on their way
            pools = witness.of(epoch)
            if epoch > 1:
                found.compare(epoch, [], pools)  # those of a learner that was resumed
            found.look()
            found.compare(epoch + 1, pools, [])
            announced += len(pools)
            unannounced += found.index[-1].version not in pools[-1].versions
            learner.tend()
        wait_for(cast, witness, count + 1, 1)
        found.compare(count + 1, [], witness.of(count + 1))
        witness.sockets.close("seen", 0.0)
        cast.retire()
    played = report.read(cast.run)
    return {
        "kills": count,
        "archived": archive.read(cast.run)[-1].number,
        "bound": MOST,
        "pools_heard": announced,
        "newest_not_announced": unannounced,
        "games": played.standings.played,
        "episodes": played.episodes,
        "audit": audit(cast.run, cast.receipts, "", io.StringIO()),
        "broken": found.broken,
        "surprises": cast.surprises,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }


def wait_for(cast: Cast, witness: Witness, epoch: int, pools: int) -> None:
    """Wait until so many pools with archived versions of an epoch were announced."""
    deadline = Deadline(BACK_S)
    while sum(1 for pool in witness.of(epoch) if pool.versions) < pools:
        assert not deadline.over, f"no pool of epoch {epoch}: {cast.surprises}"
        witness.listen(0.02)
        for member in cast.all:
            member.tend()


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--publish", action="store_true", help="write docs/results/archive.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, children_end():
        found = kills(Path(temporary).resolve(), asked.kills, random.Random(asked.seed))
    print(json.dumps(found, indent=1))
    if asked.publish:
        publish("archive", found)
    whole = not found["broken"] and not found["surprises"] and not found["audit"]
    return 0 if whole and found["games"] == found["episodes"] else 1


if __name__ == "__main__":
    sys.exit(main())
