"""Loaded and exported policies of every built-in network take the evaluator's actions."""

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from support import worlds
from support.learners import a_config, a_learner
from support.playing import playing
from support.sequential import collectors, play

import farflung
from farflung.actor.acting.policy import Policy
from farflung.actor.evaluator import Evaluator
from farflung.common import heads
from farflung.common.data.parcel import Results
from farflung.common.data.spec import ACTION_MASK, ACTIONS, Evaluation, column_name
from farflung.learner.algorithms.continuous_settings import SACSettings, TD3Settings
from farflung.learner.algorithms.on_policy_settings import IMPALASettings, PPOSettings
from farflung.learner.algorithms.r2d2_settings import R2D2Settings
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.policies.exporting import open_source, to_onnx
from farflung.learner.storage import policies
from farflung.learner.storage.run_folder import Run
from farflung.learner.storage.saver import Saver

assert worlds
pytestmark = pytest.mark.slow

ACTIONS_TAKEN = 1000
SMALL = {"hidden": (8,)}
ACROBOT = {"environment": "Acrobot-v1"}
PENDULUM = {"environment": "Pendulum-v1"}
ROLLOUT = {"replay_ratio": 32.0, "warmup": 1000, "capacity": 2000, "batch_size": 64}
PPO = {**ROLLOUT, "algorithm": "ppo", "settings": PPOSettings(rollout=64, epochs=2, **SMALL)}
KINDS = {
    "dueling": {"settings": DQNSettings(dueling=True, **SMALL)},
    "noisy": {**ACROBOT, "settings": DQNSettings(noisy=True, **SMALL)},
    "C51": {"settings": DQNSettings(distribution="categorical", atoms=7, **SMALL)},
    "quantile": {"settings": DQNSettings(distribution="quantile", atoms=7, **SMALL)},
    "rainbow": {
        "settings": DQNSettings(
            noisy=True, dueling=True, distribution="categorical", atoms=7, **SMALL
        )
    },
    "normalised": {**ACROBOT, "settings": DQNSettings(**SMALL), "normalise_observations": True},
    "stacked": {"stack": 3},
    "masked": {"environment": "toys/Gates-v0"},
    "recurrent": {"algorithm": "r2d2", "settings": R2D2Settings(units=8, burn_in=8, **SMALL)},
    "SAC": {**PENDULUM, "algorithm": "sac", "settings": SACSettings(**SMALL)},
    "TD3": {**PENDULUM, "algorithm": "td3", "settings": TD3Settings(**SMALL)},
    "SAC, normalised": {
        **PENDULUM,
        "algorithm": "sac",
        "settings": SACSettings(**SMALL),
        "normalise_observations": True,
    },
    "PPO": PPO,
    "PPO, continuous": {**PPO, **PENDULUM},
    "PPO, several choices": {**PPO, "environment": "toys/Dials-v0"},
    "PPO, several choices, masked": {**PPO, "environment": "toys/Locks-v0"},
    "IMPALA": {
        **ROLLOUT,
        "algorithm": "impala",
        "settings": IMPALASettings(rollout=64, **SMALL),
    },
}


class Watching(Evaluator):
    """An evaluator that keeps what each decision was shown, and the action that it took."""

    def __init__(self, *words) -> None:
        self.begun, self.taken = True, []  # of the next decision: it begins an episode
        super().__init__(*words)

    def act(self, due):
        actions = super().act(due)
        shown = {name: rows[0].copy() for name, rows in due.columns.items()}
        self.taken.append((self.begun, shown, actions[0].copy()))
        self.begun = False
        return actions

    def record(self, outcomes, due) -> None:
        self.begun = self.begun or bool(outcomes is not None and outcomes.ended)
        super().record(outcomes, due)


def a_run(folder, changes) -> Run:
    """Train a little, so that statistics are not those of the start; return the run.

    Then weights are random, so that each action is best somewhere.
    """
    learner = a_learner(a_config(**changes), folder)
    core = learner.core
    play(learner, collectors(), lambda: core.state.updates >= 8)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in core.algorithm.policy().parameters():
            if parameter.ndim > 1:
                parameter.normal_(generator=generator)
    run = Run("one", core.spec.run, folder / "one")
    results = Results(np.array([1.0]), np.full(1, 5, np.int32))
    policies.write_best(run.folder, core.publish(), results)
    Saver(run, core).finish()
    return run


def evaluated(run: Run, starts) -> list:
    """Return 1,000 decisions of an evaluator, as the environment counts actions."""
    source = open_source(run.folder, "")
    spec = replace(source.spec, evaluation=Evaluation(1, ACTIONS_TAKEN))
    acting = Policy(spec.graph)
    evaluator = Watching(spec, 1, acting, heads.find(spec.head).greedy(spec))
    world = playing(spec, 1, evaluator)
    assert world.begin(source.weights, 0)
    world.reset()
    while len(evaluator.taken) < ACTIONS_TAKEN:
        world.step()
    first = np.array(starts.get(ACTIONS, 0))
    return [(begun, seen, action + first) for begun, seen, action in evaluator.taken]


@pytest.mark.parametrize("kind", KINDS)
def test_loaded_and_exported_policies_take_the_evaluators_actions(tmp_path, kind):
    """1,000 decisions in the environment, one by one: from the folder, and from the file."""
    run = a_run(tmp_path, KINDS[kind])
    spec, starts = policies.read_spec(run.folder), policies.read_starts(run.folder)
    file = tmp_path / "policy.onnx"
    to_onnx(open_source(run.folder, ""), file)
    taken = evaluated(run, starts)
    assert len({str(action) for *_, action in taken}) > 1
    name = column_name("")
    for path in (run.folder, file):
        policy = farflung.load(path)
        for begun, seen, action in taken:
            if begun:
                policy.reset()
            mask = {"mask": seen[ACTION_MASK]} if heads.masked(spec) else {}
            found = policy.act(seen[name], **mask)
            if spec.action.kind == "box":
                np.testing.assert_allclose(found, action, rtol=0, atol=1e-5)
            else:
                np.testing.assert_array_equal(found, action)
