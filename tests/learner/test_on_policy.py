"""PPO and IMPALA from an environment's step to a policy, in one process."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import worlds
from support.learners import a_config, a_learner
from support.sequential import collectors, play

from farflung.learner.algorithms.builtin import load
from farflung.learner.algorithms.on_policy_settings import IMPALASettings, PPOSettings
from farflung.learner.policies import onnx_file, proof

assert worlds

LEARN = {
    "ppo": PPOSettings(rollout=256, epochs=4, hidden=(16,), learning_rate=0.01, gamma=0.0),
    "impala": IMPALASettings(rollout=64, hidden=(16,), learning_rate=0.01, gamma=0.0),
}
BATCH = {"ppo": 64, "impala": 64}
STEPS = 4096


def a_run(folder, algorithm, smooth, **changes):
    """Play and learn in a world of two dials or one lever; return the learner."""
    dials = {
        "environment": "toys/Dials-v0",
        "environment_arguments": (f"smooth={str(smooth).lower()}",),
        "algorithm": algorithm,
        "environments": 8,
        "replay_ratio": 32.0,
        "warmup": 1000,
        "batch_size": BATCH[algorithm],
        "settings": LEARN[algorithm],
        "capacity": 2000,
    }
    config = a_config(**(dials | changes))
    learner = a_learner(config, folder)
    play(learner, collectors(1, 8), lambda: learner.core.state.steps >= STEPS)
    return learner


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", LEARN)
@pytest.mark.parametrize("smooth", [False, True], ids=["choices", "continuous"])
def test_actions_follow_what_is_seen(tmp_path, algorithm, smooth):
    """The best actions are exact for choices, and near for a number; an exported file has them."""
    learner = a_run(tmp_path, algorithm, smooth)
    core = learner.core
    assert core.state.updates == STEPS * LEARN[algorithm].epochs // BATCH[algorithm]
    assert core.guard.skipped == 0
    found, *_ = (output.detach().numpy() for output in core.algorithm.policy()(torch.eye(3)))
    if smooth:
        np.testing.assert_allclose(found[:, 0], [-1, 0, 1], atol=0.3)
    else:
        choices = [part.argmax(axis=1).tolist() for part in np.split(found, 2, axis=1)]
        assert choices == [[0, 1, 2]] * 2
    weights = core.publish()
    model = onnx_file.written(core.spec, {}, weights, {})
    assert proof.prove(model, core.spec, {}, weights, tmp_path / "none").random == proof.OBSERVED


@pytest.mark.slow
@pytest.mark.parametrize("form", ["flat", "tuple"])
@pytest.mark.parametrize("algorithm", LEARN)
def test_masks_of_several_choices_reach_policy_loss_and_file(
    tmp_path, algorithm, form, monkeypatch
):
    """The world raises at an action that is not legal; what earns a reward is learned.

    The recorded log-probabilities are those of the loss, over the legal possibilities: before the
    first update, the policy is the one that acted.
    """
    seen = []
    made = LEARN[algorithm]
    own = load(algorithm)
    gradients = own.gradients

    def watched(self, batch):
        policy, _ = self.evaluated(batch)
        now = policy.log_probabilities(self.actions(batch)).detach().numpy()
        seen.append(np.abs(now - batch["log_probability"]).max())
        return gradients(self, batch)

    monkeypatch.setattr(own, "gradients", watched)
    world = {"environment": "toys/Locks-v0", "environment_arguments": (f"form={form}",)}
    learner = a_run(tmp_path, algorithm, False, **world, settings=made)
    core = learner.core
    assert seen[0] < 1e-5
    assert (seen[-1] > 1e-5) == (algorithm == "ppo")  # that has several epochs
    assert core.spec.mask.shape == (5,)
    (logits, *_) = core.algorithm.policy()(torch.arange(8.0)[:, None])
    legal = torch.from_numpy(np.array([np.concatenate(worlds.Locks.legal(n)) for n in range(8)]))
    best = logits.masked_fill(legal == 0, -np.inf)[:, :3].argmax(dim=1)
    assert (best == (torch.arange(8) + 1) % 3).float().mean() >= 0.75
    weights = core.publish()
    starts = {"actions": (5, 0)}
    model = onnx_file.written(core.spec, starts, weights, {})
    proven = proof.prove(model, core.spec, starts, weights, tmp_path / "none")
    assert proven.random == proof.OBSERVED


@pytest.mark.slow
@pytest.mark.parametrize("smooth", [False, True], ids=["choices", "continuous"])
def test_actions_follow_what_was_seen_before(tmp_path, smooth):
    """With a memory; an exported file has it too."""
    settings = replace(LEARN["ppo"], hidden=(), lstm=16)
    late = ("late=true", f"smooth={str(smooth).lower()}")
    learner = a_run(
        tmp_path, "ppo", smooth, environment_arguments=late, settings=settings, horizon=6
    )
    core = learner.core
    assert core.guard.skipped == 0
    policy = core.algorithm.policy()
    numbers = torch.cartesian_prod(*[torch.arange(3)] * 3)  # [27, steps]
    state = {name: torch.zeros(27, *shape) for name, shape in policy.states.items()}
    errors = []
    for step in range(3):
        with torch.no_grad():
            found = policy(torch.eye(3)[numbers[:, step]], **state)
        state = dict(zip(state, found[-len(state) :], strict=True))
        dials = found[0] + 1 if smooth else found[0].unflatten(1, (2, 3)).argmax(dim=2)
        errors.append((dials - numbers[:, [step - 1]]).abs().float())
    assert torch.stack(errors[1:]).mean() < 0.3  # without a memory at least 2/3
    weights = core.publish()
    model = onnx_file.written(core.spec, {}, weights, {})
    assert proof.prove(model, core.spec, {}, weights, tmp_path / "none").random == proof.OBSERVED
