"""`learner check --algorithm`: built-in algorithms pass, and each planted defect is named."""

import json
import sys
from pathlib import Path

import pytest
from support.learners import shared_graphs

from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.algorithms.builtin import BUILT_IN
from farflung.learner.main import command

EXAMPLES = Path(__file__).parents[3] / "examples"

PLANTED = """
from dataclasses import dataclass, replace

import numpy as np
import torch

from farflung.algorithms import Column, Gradients
from own_policy_gradient import Network, Reinforce, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Small(Settings):
    rollout: int = 64


class Sound(Reinforce):
    Settings = Small
    defaults = {"batch_size": 64, "publish_every": 1}

    def changed(self, gradients, factor):
        tensors = {name: each * factor for name, each in gradients.tensors.items()}
        return Gradients(tensors, gradients.metrics)


class StateOfObjects(Sound):
    def state(self):
        return {**self.trained.state(), "optimizer": {"step": 3}}


class DrawsInTheLoss(Sound):
    def gradients(self, batch):
        return self.changed(super().gradients(batch), np.random.default_rng().random())


class DrawsAtTheStart(Sound):
    def __init__(self, *words, **named):
        super().__init__(*words, **named)
        with torch.no_grad():
            self.trained.parameters.vector.add_(float(np.random.default_rng().random()))


class ColumnWithoutSource(Sound):
    @classmethod
    def columns(cls, spec, settings):
        return (*super().columns(spec, settings), Column("hint", "float32", (), "step"))


class ColumnOfNoWorld(Sound):
    @classmethod
    def columns(cls, spec, settings):
        return (*super().columns(spec, settings), Column("info.hint", "float32", (), "observation"))


class RowsWithoutColumn(Sound):
    def replay(self, spec, **named):
        replay = super().replay(spec, **named)
        columns = replay._rows.columns
        def fewer(store, numbers):
            now, after = columns(store, numbers)
            return {name: each for name, each in now.items() if name != "log_probability"}, after
        replay._rows.columns = fewer
        return replay

    @classmethod
    def columns(cls, spec, settings):
        from farflung.algorithms import LOG_PROBABILITY
        return (*super().columns(spec, settings), LOG_PROBABILITY)


class NoReplay(Sound):
    replay = None


class NotFinite(Sound):
    def gradients(self, batch):
        weight = self.trained.network.policy[0].weight
        return self.trained.gradients((weight - weight.detach()).square().sum().sqrt())


class WithoutGradient(Sound):
    def gradients(self, batch):
        found = super().gradients(batch)
        tensors = {n: e * (not n.startswith("baseline")) for n, e in found.tensors.items()}
        return Gradients(tensors, found.metrics)


class ForgetsTheOptimizer(Sound):
    def state(self):
        return {n: e for n, e in super().state().items() if "optimizer" not in n}

    def restore(self, state):
        self.trained.network.load_state_dict(
            {n.removeprefix("network."): e for n, e in state.items()}
        )


class RestoresLess(Sound):
    def restore(self, state):
        keep = {n: e.clone() for n, e in self.trained.state().items() if "optimizer" in n}
        self.trained.restore({**state, **keep})


class ChangesInTheLoss(Sound):
    def gradients(self, batch):
        with torch.no_grad():
            self.trained.parameters.vector.mul_(0.9)
        return super().gradients(batch)


class Raises(Sound):
    def apply(self, gradients):
        raise RuntimeError("my step has a mistake")


class NetworkOfAllRows(Sound):
    def __init__(self, *words, **named):
        super().__init__(*words, **{**named, "model": Centred})


class Centred(Network):
    def forward(self, observations):
        logits, baseline = super().forward(observations)
        return logits - logits.mean(0), baseline
"""


@pytest.fixture
def check(capsys, tmp_path, monkeypatch):
    """Return a function that runs the command; it returns the exit code, and the findings."""
    (tmp_path / "planted.py").write_text(PLANTED)
    for folder in (EXAMPLES, tmp_path):
        monkeypatch.syspath_prepend(str(folder))

    def check(algorithm: str, *words: str) -> tuple[int, dict]:
        with shared_graphs():
            # A watchdog wants a real stderr.
            fixed = ("--json", "--step-timeout", "0")
            code = command(["check", "--algorithm", algorithm, *fixed, *words])
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    yield check
    for name in ("planted", "own_policy_gradient"):
        sys.modules.pop(name, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("dqn", "ppo", "planted:Sound"),
        *(
            pytest.param(name, marks=pytest.mark.faults)
            for name in BUILT_IN
            if name not in ("dqn", "ppo")
        ),
    ],
)
def test_sound_algorithms_pass(check, name):
    """All of its parts are shown, and the exit code is 0."""
    code, found = check(name)
    assert (code, found["findings"]) == (0, [])
    assert [sentence.split(":")[0] for sentence in found["shown"]] == [
        "graph",
        "gradients",
        "columns",
        "parameters",
        "repetition",
        "resume",
    ]
    assert found["updates"] == 24
    assert (found["algorithm"], found["errors"]) == (name, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("StateOfObjects", "state() has 'optimizer', which is dict: a checkpoint keeps tensors"),
        ("DrawsInTheLoss", "differ in the gradients of update 1: what the loss draws must follow"),
        ("DrawsAtTheStart", "begin with other weights: make networks within `seeded(seed)`"),
        (
            "ColumnWithoutSource",
            "The policy module must return logits, baseline, hint with one row",
        ),
        ("ColumnOfNoWorld", "asks for the column info.hint, and nothing supplies it: the world"),
        ("RowsWithoutColumn", "columns: log_probability is recorded by actors, and the rows"),
        ("NoReplay", "planted:NoReplay has no replay: docs/algorithms.md lists the parts"),
        ("NotFinite", "gradients: policy.0.weight not finite"),
        ("WithoutGradient", "updates do not change baseline.0.weight and 3 more: no gradient"),
        ("ForgetsTheOptimizer", "resume: update 13 leads to another network.policy.0.weight"),
        ("RestoresLess", "resume: restore() does not bring back network_optimizer.step"),
        ("ChangesInTheLoss", "gradients() changes network.policy.0.weight and 7 more: only apply"),
        ("Raises", "it raised RuntimeError('my step has a mistake') in planted.py, line"),
        ("NetworkOfAllRows", "logits for a seat depends on the other seats"),
    ],
)
def test_planted_defects_are_named(check, name, says):
    """In a sentence each, with exit code 1."""
    code, found = check(f"planted:{name}")
    assert code == 1
    assert any(says in finding["text"] for finding in found["findings"]), found["findings"]


def test_what_cannot_be_checked_is_refused(check):
    """A name that is not known, no subject, a network without an algorithm, no world for it."""
    with pytest.raises(UsageError, match="unknown algorithm 'pp'"):
        check("pp")
    with pytest.raises(UsageError, match="name an environment, or --algorithm"):
        command(["check"])
    with pytest.raises(UsageError, match="--model is the network"):
        command(["check", "CartPole-v1", "--model", "a:b"])
    with pytest.raises(ConfigurationError, match="no environment is registered as 'Cart-v9'"):
        check("dqn", "--env", "Cart-v9")
