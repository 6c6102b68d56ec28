"""Recorded games of the worlds of examples: what a real training has in its replay and its targets.

The recorder is a wrapper around the world. It knows PettingZoo's words alone.
"""

from collections import Counter

import numpy as np
import pytest
import torch
from support import games, sequential
from support.learners import a_config, a_learner
from support.recorded import Ledger, OwnStep, RecordedParallel, RecordedTurns

from farflung.actor.worlds import registered
from farflung.common.data.parcel import Ending
from farflung.learner.algorithms.settings import DQNSettings

pytestmark = pytest.mark.slow
GAMMA, MASK = 0.9, "info.action_mask"
STEPS = {"tictactoe": 600, "ludo": 1500, "treasurehunt": 1000}  # games enough to win and to lose


class Training:
    """A short training with its recorders, in a world that is played in two environments."""

    def __init__(self, name, folder, patch):
        self.world, self.recorders = games.load(name), []
        patch.setitem(registered.WORLDS, "recorded", self._make)
        settings = DQNSettings(hidden=(16,), n_step=1, gamma=GAMMA)
        config = a_config(environment="recorded", settings=settings, capacity=9000, seed=3)
        learner = a_learner(config, folder)
        core, players = learner.core, sequential.collectors(seats=2)
        sequential.play(learner, players, lambda: core.state.steps >= STEPS[name])
        self.algorithm, self.updates = core.algorithm, core.state.updates
        self.rows = everything(core.replay)

    @property
    def recorded(self):
        """All steps that the recorders saw."""
        return [step for recorder in self.recorders for step in recorder.ledger.steps]

    def _make(self):
        if hasattr(self.world, "parallel_env"):
            made = RecordedParallel(self.world.parallel_env(), Ledger())
        else:
            made = RecordedTurns(self.world.env(), Ledger())
        self.recorders.append(made)
        return made


def everything(replay):
    """Return a batch for each row of a replay, by its number: those of many samples."""
    rows, update = {}, 0
    while len(rows) < replay.size:
        update += 1
        batch = replay.sample(update)
        rows |= {int(number): (batch, at) for at, number in enumerate(batch.indices)}
    return [rows[number] for number in sorted(rows)]


def as_step(batch, at):
    """Return a row as the recorder would have written it; only a terminal one is told apart."""
    seen = [
        side["observations"][at].astype(np.float32).tobytes()
        + (side[MASK][at].tobytes() if MASK in side else b"")
        for side in (batch.columns, batch.next_columns)
    ]
    ending = Ending.OPEN if batch.discounts[at] else Ending.TERMINATED
    reward = float(batch.returns[at])
    return OwnStep(seen[0], batch.actions[at].tobytes(), reward, ending, seen[1])


@pytest.fixture(scope="module", params=STEPS)
def training(request, tmp_path_factory):
    """A training in each of the three worlds."""
    with pytest.MonkeyPatch.context() as patch:
        yield Training(request.param, tmp_path_factory.mktemp("runs"), patch)


def test_replay_has_every_own_step_with_its_reward(training):
    """Exactly once, as the recorder saw it: observation, mask, action, reward, end and the next."""
    cut = {Ending.TRUNCATED: Ending.OPEN}
    recorded = Counter(
        step._replace(ending=cut.get(step.ending, step.ending)) for step in training.recorded
    )
    stored = Counter(as_step(*row) for row in training.rows)
    assert stored == recorded
    assert training.updates > 50


def test_each_game_is_won_and_lost_in_the_movers_own_last_step(training):
    """Of two players one has 1 and the other -1 in its last step, or both have 0; all else is 0."""
    if training.world.__name__ == "treasurehunt":
        rewards = Counter(step.reward for step in training.recorded)
        assert {-1.0, 0.0, 10.0} <= rewards.keys()
        return
    last = Counter(step.reward for step in training.recorded if step.ending)
    assert last[1.0] == last[-1.0] > 3
    assert last.total() % 2 == 0
    assert {step.reward for step in training.recorded if not step.ending} == {0.0}
    stored = [as_step(*row) for row in training.rows]
    assert Counter(step.reward for step in stored if step.reward) == {
        1.0: last[1.0],
        -1.0: last[-1.0],
    }


@pytest.mark.parametrize("training", ["tictactoe"], indirect=True)
def test_winning_row_completes_the_movers_line(training):
    """And after the losing one the other player has a line: by the boards alone."""
    has_line, count = training.world.has_line, Counter()
    for batch, at in training.rows:
        own, _ = batch["observations"][at].reshape(2, 9).astype(bool)
        after = batch.next_columns["observations"][at].reshape(2, 9).astype(bool)
        own[batch.actions[at]] = True
        assert (own <= after[0]).all()
        assert batch.returns[at] == int(has_line(after[0])) - int(has_line(after[1]))
        count[float(batch.returns[at])] += 1
    assert count[1.0] == count[-1.0] > 3


def test_targets_are_of_legal_actions(training):
    """The best legal one by the online network, valued by the target network, in numpy."""
    illegal = 0
    for batch, at in training.rows[::7]:
        algorithm = training.algorithm
        inputs = algorithm.inputs(batch.next_observations)
        with torch.no_grad():
            found = algorithm.next_values(batch)[at]
            online, target = (
                net(inputs)[at].numpy() for net in (algorithm.network, algorithm.target)
            )
        legal = batch.next_columns[MASK][at] if MASK in batch.next_columns else np.ones(4, bool)
        if not legal.any():
            assert batch.discounts[at] == 0
            continue
        best = max(np.flatnonzero(legal), key=lambda action: online[action])
        assert found == pytest.approx(target[best], abs=1e-6)
        illegal += not legal[online.argmax()]
    assert illegal > 3 or MASK not in training.rows[0][0].columns
