"""The algorithm of a run as a worker makes it, or refuses it in a sentence."""

import pytest
from msgspec import structs
from support.learners import a_config, a_learner
from support.makers import a_learning

from farflung.common.process.errors import ConfigurationError, Refused
from farflung.learner.worker.config import WorkerConfig
from farflung.learner.worker.making import algorithm_of


@pytest.fixture
def spec(tmp_path):
    """Return the spec of a learner with workers."""
    return a_learner(a_config(mode="async", gradients="only"), tmp_path).core.spec


def test_settings_of_the_learner_come_with_its_spec(spec):
    """Those of its command line, in their own types."""
    settings = algorithm_of(spec, WorkerConfig()).settings
    assert (settings.hidden, settings.n_step) == ((4,), 3)


def test_learner_that_takes_no_gradients_is_refused(spec):
    """With the flag that it lacks."""
    with pytest.raises(ConfigurationError, match="start it with --gradients only or also"):
        algorithm_of(structs.replace(spec, learning=None), WorkerConfig())


@pytest.mark.parametrize(
    ("learning", "asked", "says"),
    [
        ({"algorithm": "theirs:Own"}, {}, "this worker none: add --algorithm theirs:Own"),
        ({"algorithm": "os:system"}, {"algorithm": "mine:Own"}, "this worker mine:Own"),
        ({"model": "theirs:net"}, {}, "add --model theirs:net"),
        ({}, {"model": "mine:net"}, "leave --model out"),
        (
            {},
            {"algorithm": "mine:Own"},
            "the learner has --algorithm dqn, and this worker mine:Own",
        ),
    ],
)
def test_no_name_of_the_network_is_imported(spec, learning, asked, says):
    """Learner and worker must name the same code, each on its own command line."""
    other = structs.replace(spec, learning=structs.replace(spec.learning, **learning))
    with pytest.raises(ConfigurationError, match=says):
        algorithm_of(other, WorkerConfig(**asked))


def test_settings_of_another_release_are_refused(spec):
    """A value of another type is named."""
    learning = structs.replace(spec.learning, settings={"n_step": "three"})
    with pytest.raises(Refused, match="do not fit this release"):
        algorithm_of(structs.replace(spec, learning=learning), WorkerConfig())


def test_learning_of_the_spec_is_that_of_the_settings(spec):
    """All that decides what a worker does."""
    expected = a_learning(
        settings=spec.learning.settings,
        batch=8,
        capacity=500,
        warmup=16,
        ratio=1.0,
        staleness=10,
        publish_every=10,
    )
    assert spec.learning == expected
