"""The building of a core from settings, and the refusal of settings that do not fit."""

import math
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from support.learners import a_config, a_learner, an_empty_run

from farflung.common import heads
from farflung.common.data.spec import Evaluation, Exploration, Space
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.dqn import DQN
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.core.build import pacing
from farflung.learner.core.spec import describe
from farflung.learner.storage import checkpoint
from farflung.learner.storage.checkpoint import Checkpoint, copies
from farflung.learner.storage.policies import read_spec


@pytest.fixture
def own(monkeypatch):
    """Return a user's module named `own`, with attributes that the test sets."""
    module = ModuleType("own")
    monkeypatch.setitem(sys.modules, "own", module)
    return module


def test_the_spec_says_what_was_asked_for(tmp_path):
    """The spec holds world, spaces, horizon, exploration and evaluation, under the run's id."""
    config = a_config(
        stack=2,
        seed=3,
        exploration_steps=50,
        exploration_ladder=4,
        evaluate_every=100,
        evaluate_episodes=7,
        policy="left",
        mode="async",
    )
    spec = describe(config, an_empty_run(tmp_path), head="q")
    assert (spec.run, spec.policy, spec.mode, spec.head, spec.horizon, spec.stack) == (
        "one-1",
        "left",
        "async",
        "q",
        8,
        2,
    )
    assert (spec.world.environment, spec.world.seed) == ("CartPole-v1", 3)
    assert spec.observation == {"": Space("box", "float32", (4,))}
    assert spec.action == Space("discrete", "int64", (), (2,))
    assert spec.exploration == Exploration(1.0, 0.05, 50, 4)
    assert spec.evaluation == Evaluation(100, 7)


def test_images_are_compressed_and_nothing_else(tmp_path):
    """Only uint8 arrays of two dimensions or more are compressed."""
    config = a_config(environment="toys/Parts-v0")
    run = an_empty_run(tmp_path)
    assert describe(config, run, "q").compression == {"observations.picture": "lz4"}
    assert (
        describe(a_config(environment="toys/Parts-v0", compress=False), run, "q").compression == {}
    )


def test_a_learner_is_all_of_one_spec(tmp_path):
    """The proved graph is in the spec for actors and in the run folder, in no file to open."""
    config = a_config()
    learner = a_learner(config, tmp_path)
    spec = learner.core.spec
    assert read_spec(tmp_path / "one").graph == spec.graph
    assert spec.graph.model != b""
    assert not [*tmp_path.rglob("*.onnx")]
    assert [tensor.name for tensor in spec.graph.outputs] == ["q"]
    assert learner.core.replay.capacity == 500
    assert learner.core.state.version == learner.endpoint.publisher.newest == (1, 0)


@pytest.mark.parametrize(
    ("changes", "tolerance"),
    [
        ({}, 32.0),  # twice 8 + 1 x 8
        ({"warmup": 100}, 100.0),  # as many rows as the warm-up
        ({"tolerance": 20.0}, 20.0),
        ({"environments": 3}, 64.0),  # twice 8 + 1 x 24
    ],
)
def test_the_tolerance_has_room_for_the_warmup(changes, tolerance):
    """The default tolerance is twice the least that works, or the samples of the warm-up."""
    assert pacing(a_config(**changes)).tolerance == tolerance


def test_an_infinite_ratio_paces_nobody():
    """The default tolerance works with and without a warm-up."""
    for warmup in (0, 10):
        made = pacing(a_config(mode="async", replay_ratio=math.inf, warmup=warmup))
        made.inserted(11)
        assert made.may_update
        assert made.fit([10**6]) == 1


def test_weights_come_from_another_run(tmp_path, caplog):
    """--init begins with the parameters that the other one ended with, and says so."""
    caplog.set_level("INFO")
    first = a_learner(a_config(seed=1), tmp_path, "first").core
    other = a_learner(a_config(seed=2), tmp_path, "other").core
    assert other.fingerprint != first.fingerprint
    first.algorithm.apply(first.algorithm.gradients(a_batch()))
    checkpoint.save(
        tmp_path / "first", Checkpoint(copies(first.algorithm.state()), {"steps": 1000})
    )
    begun = a_learner(a_config(seed=2, init=str(tmp_path / "first")), tmp_path, "begun").core
    assert begun.fingerprint == first.fingerprint
    assert f"the weights of {tmp_path / 'first'}: 1,000 steps, 0 updates" in caplog.text


def a_batch():
    from farflung.learner.replay.replay import Batch

    frames, ones = {"observations": np.ones((8, 4), np.float32)}, np.ones(8, np.float32)
    others = {"actions": np.zeros(8, np.int64), "returns": ones, "discounts": ones}
    return Batch(frames | others, frames, np.arange(8))


def test_weights_that_do_not_fit_are_refused(tmp_path):
    """The refusal names the checkpoint of another network and the reason."""
    checkpoint.save(tmp_path / "old", Checkpoint({"network.other": torch.zeros(1)}))
    with pytest.raises(ConfigurationError, match=r"--init .*old: its weights do not fit"):
        a_learner(a_config(init=str(tmp_path / "old")), tmp_path)


def test_continuous_actions_are_refused_in_a_sentence(tmp_path):
    """DQN refuses continuous actions."""
    with pytest.raises(
        ConfigurationError, match="dqn chooses one of several actions; the actions here are box"
    ):
        a_learner(a_config(environment="MountainCarContinuous-v0"), tmp_path)


@pytest.mark.parametrize(("used", "columns"), [(True, ["info.action_mask"]), (False, [])])
def test_masks_of_the_world_are_in_the_spec_unless_they_are_left_off(tmp_path, used, columns):
    """One of the six actions of Taxi per observation."""
    config = a_config(environment="Taxi-v4", action_mask=used)
    spec = a_learner(config, tmp_path).core.spec
    assert [extra.name for extra in spec.row_extras] == columns
    assert heads.masked(spec) is used


def test_an_algorithm_of_ones_own(tmp_path, own):
    """A class named package.module:Class receives spec, settings, device, seed and model."""

    class Own(DQN):
        """DQN under another name."""

    own.Own = Own
    learner = a_learner(a_config(algorithm="own:Own"), tmp_path)
    assert type(learner.core.algorithm) is Own


def test_an_algorithm_without_a_head_is_refused(tmp_path, own):
    """An algorithm must name the head of its policy."""
    own.Odd = type("Odd", (), {"head": "answer"})
    with pytest.raises(
        ConfigurationError,
        match="must name the head of its policy: head = one of q, logits, gaussian",
    ):
        a_learner(a_config(algorithm="own:Odd"), tmp_path)


def test_an_algorithm_without_columns_is_refused(tmp_path, own):
    """An algorithm must return the extra columns that actors record, or an empty tuple."""
    own.Odd = type("Odd", (), {"head": "q", "name": "odd", "Settings": DQNSettings})
    with pytest.raises(ConfigurationError, match=r"own:Odd has no columns: docs/algorithms\.md"):
        a_learner(a_config(algorithm="own:Odd"), tmp_path)


@pytest.mark.slow
def test_extra_columns_of_an_algorithm_are_in_the_spec(tmp_path, own):
    """The spec holds the columns that the algorithm requires."""

    class Own(DQN):
        """DQN with the log-probability of each action."""

        @classmethod
        def columns(cls, spec, settings):
            return heads.find(cls.head).columns(spec)

    own.Own = Own
    spec = a_learner(a_config(algorithm="own:Own"), tmp_path).core.spec
    assert [extra.name for extra in spec.row_extras] == [
        "log_probability",
        "action_value",
        "best_value",
    ]


@pytest.mark.slow
def test_a_network_with_another_number_of_answers_is_refused(tmp_path, own):
    """Every actor would refuse this graph, so the learner refuses it at its start."""
    own.network = lambda spec: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    with pytest.raises(
        ConfigurationError,
        match=r"cannot act: q over a discrete space: it needs .* and the graph has q \(3,\)",
    ):
        a_learner(a_config(model="own:network"), tmp_path)


def test_a_network_that_cannot_be_made_is_named(tmp_path, own, caplog):
    """A failure in the user's module is named in the message; its traceback is in the log."""

    def network(spec):
        raise KeyError("widths")

    own.network = network
    with pytest.raises(
        ConfigurationError,
        match=r"--model own:network cannot be made for CartPole-v1: KeyError\('widths'\)",
    ):
        a_learner(a_config(model="own:network"), tmp_path)
    assert "Traceback" in caplog.text


@pytest.mark.slow
def test_a_network_of_ones_own(tmp_path, own):
    """A function of the spec replaces the built-in network."""
    own.network = lambda spec: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    learner = a_learner(a_config(model="own:network"), tmp_path)
    assert isinstance(learner.core.algorithm.policy()[1], torch.nn.Linear)


def test_settings_reach_the_algorithm(tmp_path):
    """An algorithm receives the settings of its section of flags."""
    settings = DQNSettings(hidden=(4,), gamma=0.5, n_step=3)
    learner = a_learner(a_config(settings=settings), tmp_path)
    assert learner.core.algorithm.settings is settings
