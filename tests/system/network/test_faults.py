"""A network between actors and learner that is cut, thinned and reset: nothing is lost."""

import io
import itertools
import signal
import time
from contextlib import ExitStack
from datetime import datetime

import pytest
from support.waiting import took_at_most

from farflung.common.protocol import receipts
from farflung.learner.observe.status import ActorState
from farflung.learner.storage.audit import audit

pytestmark = [pytest.mark.faults, pytest.mark.slow]

CUTS = {"both ways": ("there", "back"), "to the learner": ("there",), "to the actors": ("back",)}
UNHEARD = r"(\S+) actor \S+ \S+ WARNING no answer from"
SILENT = r"(\S+) learner \S+ \S+ WARNING cut-off is silent"


class Pair:
    """A learner on one host, two actors on another."""

    def __init__(self, network, shell):
        self.network, self.shell = network, shell
        self.near, self.far = network.host("learner"), network.host("actors")
        flags = (
            "--bind",
            self.near.address,
            "--insecure",
            "--name",
            "far",
            "--keep-journal",
            "--replay-ratio",
            2,
        )
        self.learner = shell.learner(
            *flags, "--warmup", 200, port=5555, on=self.near.words
        ).listens()
        self.receipts = [shell.folder / f"{name}.receipts" for name in ("cut-off", "other")]
        self.actors = [
            shell.actor(
                self.learner.address, "--name", path.stem, "--acknowledged", path, on=self.far.words
            )
            for path in self.receipts
        ]
        self.learner.shows(acting)
        self.learner.learns_on()

    def settle(self):
        """End all in good order; return the number of receipts that the audit checked."""
        for process in (*self.actors, self.learner):
            process.send(signal.SIGTERM)
            assert process.ended() == 0
        said = io.StringIO()
        assert audit(self.shell.folder / "runs" / "far", self.receipts, "", said) == 0, (
            said.getvalue()
        )
        assert "lost: 0; duplicated: 0; changed: 0" in said.getvalue()
        told = sum(len(list(receipts.read(path))) for path in self.receipts)
        assert told > 0
        return told


@pytest.fixture
def pair(network, shell):
    """A learner and two actors that have begun to learn."""
    return Pair(network, shell)


def acting(status):
    """Return True if the learner sees both actors at work."""
    return (
        sum(actor.state in (ActorState.RUNNING, ActorState.WAITING) for actor in status.actors) == 2
    )


def cut(pair, stack, directions):
    """Cut these directions until the stack is closed."""
    ends = {"there": (pair.far, pair.near), "back": (pair.near, pair.far)}
    for direction in directions:
        stack.enter_context(pair.network.cut(*ends[direction]))


def named_after(program, pattern, since):
    """Return the seconds from a moment of the wall clock until the first matching line."""
    found = program.says(pattern, 30)
    return datetime.fromisoformat(found[1]).timestamp() - since


def test_cut_network_is_named_on_both_sides_and_heals_by_itself(pair):
    """Actor and learner warn about silence; afterwards both continue, and nothing is lost."""
    with ExitStack() as stack:
        cut(pair, stack, CUTS["both ways"])
        pair.learner.says("cut-off is silent")
        pair.actors[0].says("no answer from")
    pair.learner.says("cut-off is back")
    pair.learner.shows(acting)
    pair.learner.learns_on()
    pair.settle()


@pytest.mark.long
@pytest.mark.parametrize("which", CUTS)
def test_cut_of_thirty_seconds_is_noticed_and_heals(pair, which, keep):
    """Noticed within 10 s on both sides, healed within 5 s of the end; nothing is lost."""
    with ExitStack() as stack:
        cut(pair, stack, CUTS[which])
        since = time.time()
        noticed = {
            "actor": named_after(pair.actors[0], UNHEARD, since),
            "learner": named_after(pair.learner, SILENT, since),
        }
        pair.learner.goes_on(30 - (time.time() - since))
    back = time.monotonic()
    pair.learner.shows(acting)
    pair.learner.learns_on()
    healed = time.monotonic() - back
    keep(
        f"cut {which}",
        {
            "noticed_s": {role: round(value, 1) for role, value in noticed.items()},
            "healed_s": round(healed, 1),
        },
        pair.settle(),
    )
    assert took_at_most(max(noticed.values()), 10)
    assert took_at_most(healed, 5)


@pytest.mark.long
@pytest.mark.parametrize("part", [0.02, 0.2])
def test_lossy_network_slows_learning_and_loses_nothing(pair, part, keep):
    """Packets are dropped both ways for 20 s."""
    with pair.network.lossy(pair.near, part), pair.network.lossy(pair.far, part):
        before = pair.learner.shows(lambda status: True)
        pair.learner.goes_on(20)
    after = pair.learner.learns_on()
    keep(
        f"{part:.0%} of packets lost",
        {"steps_meanwhile": after.steps - before.steps},
        pair.settle(),
    )


@pytest.mark.long
def test_repeated_resets_lose_nothing(pair, keep):
    """Ten resets in 30 s: learning continues."""
    for source, target in itertools.islice(
        itertools.cycle([(pair.far, pair.near), (pair.near, pair.far)]), 10
    ):
        with pair.network.resetting(source, target):
            pair.learner.goes_on(1)
        pair.learner.goes_on(2)
    pair.learner.shows(acting)
    after = pair.learner.learns_on()
    keep("10 resets", {"steps": after.steps}, pair.settle())
