"""Learners and actors that come and go in any order: learning continues, counters add up."""

import signal
from functools import cache

import pytest

from farflung.common.protocol.messages import Report
from farflung.learner.storage import manifest

pytestmark = [pytest.mark.system, pytest.mark.slow]

HORIZON = 32
# Steps of 5 ms: with these, runs that only have to go on leave the processor to other tests.
OWN = ("--import", "habitats")
FLAGS = ("--env", "habitats/Slow-v0", *OWN, "--replay-ratio", 1, "--warmup", 200)
TAKES_PART = ("running", "waiting")


def counted(*names):
    """Return a condition that is true once all of these collect."""
    return lambda status: (
        {actor.name for actor in status.actors if actor.state in TAKES_PART} >= set(names)
    )


def accepted(status):
    """Return the number of accepted parcels by the learner's own counters."""
    return status.received - status.duplicates - sum(status.refused.values())


def require_balance(report):
    """Require that an actor's ledger adds up, by its report."""
    for unit in ("parcels", "rows"):
        figures = {
            name.removesuffix(f".{unit}"): value
            for name, value in report.counters.items()
            if name.endswith(f".{unit}")
        }
        collected = figures.pop("collected")
        assert collected == sum(figures.values()) > 0, figures


@pytest.fixture(scope="module")
def first(house, free_address, habitats):
    """Starts the first learner at this address, once."""
    flags = (*FLAGS, "--name", "first")
    return cache(lambda: house.learner(*flags, port=free_address.port, **habitats).listens())


@pytest.fixture
def actor(shell, habitats):
    """Return a function that starts an actor."""

    def start(address, *flags):
        return shell.actor(address, *OWN, *flags, **habitats)

    return start


def test_actors_join_before_or_after_the_learner_and_survive_kills(first, actor, tap, free_address):
    """Two come before it and two after; one is killed and started again under its name.

    Each row counts once.
    """
    tapped = tap(free_address)
    direct = actor(free_address, "--name", "direct")
    doomed = actor(tapped.address, "--name", "doomed")
    for early in (direct, doomed):
        early.says("waiting for a learner")
    learner = first()
    later = [actor(free_address, "--name", name) for name in ("third", "fourth")]
    learner.shows(counted("direct", "doomed", "third", "fourth"))
    for each in later:
        each.send(signal.SIGTERM)
        assert each.ended() == 0

    doomed.process.kill()
    again = actor(tapped.address, "--name", "doomed")
    again.until(
        lambda: len(tapped.incarnations) == 2,
        "parcels of another incarnation",
    )
    learner.learns_on()
    learner.shows(counted("direct", "doomed"))

    for each in (direct, again):
        each.send(signal.SIGTERM)
        assert each.ended() == 0
    require_balance(tapped.newest(Report, "doomed"))
    last = learner.shows(
        lambda status: (
            status.steps == HORIZON * accepted(status)
            and not {a.state for a in status.actors} & set(TAKES_PART)
        )
    )
    assert last.lost == 0
    assert not last.refused
    assert tapped.repeats_alike


def test_actors_join_the_next_run_after_a_kill_or_a_stop(
    first, shell, actor, tap, free_address, habitats
):
    """Killed, then stopped by SIGTERM with a checkpoint: both times actors join the next run.

    So does one with `--once`: neither run had reached its goal.
    """
    tapped = tap(free_address)
    actors = [
        actor(free_address, "--name", "direct", "--once"),
        actor(tapped.address, "--name", "tapped"),
    ]
    first().shows(counted("direct", "tapped"))
    first().process.kill()

    again = {"port": free_address.port, **habitats}
    second = shell.learner(*FLAGS, "--name", "second", **again).listens()
    second.shows(counted("direct", "tapped"))
    second.learns_on()
    second.send(signal.SIGTERM)
    assert second.ended() == 0
    assert manifest.kept(shell.folder / "runs" / "second")

    third = shell.learner(*FLAGS, "--name", "third", **again).listens()
    third.shows(counted("direct", "tapped"))
    status = third.learns_on()
    assert status.lost == 0
    assert set(status.refused) <= {"run"}
    third.until(
        lambda: "dropped.run ended.parcels" in tapped.newest(Report, "tapped").counters,
        "a report of what was dropped",
    )
    for each in actors:
        each.says("(?s)another run is at this address.*another run is at this address")
        each.send(signal.SIGINT)
        assert each.ended() == 130
        assert each.said.count("another run is at this address") == 2
    require_balance(tapped.newest(Report, "tapped"))
