"""A learner of rounds that was killed after any action goes on with the same bits."""

from dataclasses import replace

import pytest
from support import games
from support.learners import a_run
from support.round_epochs import CONFIG, POOL, PPO, Epoch

from farflung.learner.schedule.schedule import Wait
from farflung.learner.storage.journal.record import Position
from farflung.learner.storage.recover import recover
from farflung.learner.storage.redo import redo
from farflung.learner.storage.run_folder import Run

pytestmark = pytest.mark.slow

ACTIONS = 46  # of them four rounds or more; each round overwrites half of the replay


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The bits of each version of a learner that was never killed."""
    return bits_of(CONFIG, tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def reference_of_ppo(tmp_path_factory):
    """Likewise, from rollouts."""
    return bits_of(PPO, tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def reference_of_pool(tmp_path_factory):
    """Likewise, of a learner with a pool, and the pool of each version."""
    games.load("tictactoe")
    found = bits_of(POOL, tmp_path_factory.mktemp("reference"))
    assert len({len(bits[-1]) for bits in found.values()}) > 3
    return found


def bits_of(config, folder):
    """The bits of each version of a learner that was never killed."""
    epoch = Epoch(a_run(folder), config=config)
    for _ in range(2 * ACTIONS):
        epoch.act()
    epoch.end()
    assert len(epoch.bits) > 6
    return epoch.bits


def histories(killed, saved):
    """Return all pairs of both.

    `make test` has each kill with one checkpoint, the next kill with another; `make faults` all.
    """
    return [
        pytest.param(
            at,
            kept,
            id=f"{at}-checkpoint {kept}",
            marks=() if turn % len(saved) == place else pytest.mark.faults,
        )
        for turn, at in enumerate(killed)
        for place, kept in enumerate(saved)
    ]


@pytest.mark.parametrize(("killed", "saved"), histories(range(12, ACTIONS, 3), (None, 9, 21, 33)))
def test_learner_goes_on_with_the_same_bits(tmp_path, caplog, reference, killed, saved):
    """The next versions are those of a learner that went on, with or without a checkpoint."""
    goes_on(CONFIG, tmp_path, caplog, reference, killed, saved)


@pytest.mark.parametrize(("killed", "saved"), [(12, None), (20, 9), (27, 21), (34, 33), (41, 21)])
def test_learner_from_rollouts_goes_on_with_the_same_bits(
    tmp_path, caplog, reference_of_ppo, killed, saved
):
    """The rollout that is due, its order, and the steps of the optimizer are those of before."""
    goes_on(PPO, tmp_path, caplog, reference_of_ppo, killed, saved)


@pytest.mark.parametrize(("killed", "saved"), histories(range(22, ACTIONS, 2), (None, 21)))
def test_learner_with_a_pool_goes_on_with_the_same_opponents(
    tmp_path, caplog, reference_of_pool, killed, saved
):
    """By a version that was archived and is published again, and by the results of games."""
    goes_on(POOL, tmp_path, caplog, reference_of_pool, killed, saved)


def test_parcels_of_before_wait_before_those_that_came_meanwhile(tmp_path):
    """Actors find their learner while it does rounds again, and send the rest of the last one."""
    first = Epoch(a_run(tmp_path))
    while first.core.state.updates < 20 or not first.endpoint.queue.parcels:
        first.act()
    first.end()
    run = Run(first.run.name, first.run.identity, first.run.folder, resumed=True)
    recovered = recover(run, durable=False)
    again = Epoch(run, recovered)
    queue = again.endpoint.queue
    (late,) = list(first.endpoint.queue.parcels)[-1:]
    queue.put([replace(late, end=Position(1000, 0, 0))])
    redo(run.folder, again.core, again.loop.extent, recovered, queue)
    again.end()
    ends = [item.end for item in queue.parcels]
    assert len(ends) > 1
    assert ends == sorted(ends)


def goes_on(config, tmp_path, caplog, reference, killed, saved):
    """Kill a learner after so many actions, and compare the one that is resumed."""
    first = Epoch(a_run(tmp_path), config=config)
    for number in range(killed):
        first.act()
        if number == saved:
            first.saver.finish()
    first.end()
    run = Run(first.run.name, first.run.identity, first.run.folder, resumed=True)
    recovered = recover(run, durable=False)
    again = Epoch(run, recovered, config)
    again.redo(recovered)
    while not isinstance(again.act(), Wait):
        pass
    again.end()
    assert again.core.state.version.epoch == 2
    assert "it has other rows" not in caplog.text
    assert again.bits
    assert again.bits == {number: reference[number] for number in again.bits}
    assert max(again.bits) >= max(first.bits)
