"""Exceptions of a user's own algorithm or network are named as theirs."""

import sys

import pytest
from support.learners import a_config, a_learner
from support.sequential import collectors, play

from farflung.common.process.errors import ConfigurationError, OwnCodeFailure
from farflung.learner.core import own_code

BROKEN = """
from farflung.learner.algorithms.dqn import DQN

class Broken(DQN):
    name = "broken"

    def gradients(self, batch):
        raise ValueError("my loss has a mistake")
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Return the configuration of a run with an algorithm that has a mistake in its loss."""
    (tmp_path / "own_broken.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield a_config(algorithm="own_broken:Broken")
    sys.modules.pop("own_broken", None)


def test_exception_of_an_own_algorithm_is_theirs_with_its_traceback(tmp_path, own):
    """A sentence names the flag and the exception; then comes the traceback."""
    learner = a_learner(own, tmp_path)
    with pytest.raises(OwnCodeFailure) as raised, own_code.named(own):
        play(learner, collectors(), lambda: learner.core.state.updates > 0)
    first, *others = str(raised.value).splitlines()
    assert first == (
        "--algorithm own_broken:Broken raised ValueError('my loss has a mistake'), "
        "which is no fault of Farflung's. Its traceback:"
    )
    assert any("own_broken.py" in line for line in others)
    assert raised.value.exit_code == 70


def test_exception_elsewhere_and_our_own_sentences_pass(own):
    """A mistake of ours stays one, also beside an own algorithm; so it is without any."""
    for config, error in (
        (own, ConfigurationError("a sentence")),
        (a_config(), ValueError("ours")),
    ):
        with pytest.raises(type(error)) as raised, own_code.named(config):
            raise error
        assert raised.value is error
    with pytest.raises(KeyError, match="ours"), own_code.named(own):
        raise KeyError("ours")


def test_loss_that_cannot_use_a_networks_answers_is_the_networks(tmp_path):
    """The traceback passes our DQN only, which calls the network of --model."""
    learner = a_learner(a_config(), tmp_path)
    config = a_config(model="own:net")
    with pytest.raises(OwnCodeFailure, match="--model own:net raised"), own_code.named(config):
        learner.core.algorithm.gradients(None)
