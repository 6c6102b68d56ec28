"""What actors meet of a learner, kept in the run's folder for the life after this one."""

import dataclasses

import pytest
import torch
from support.learners import a_config, a_run

from farflung.common.process.errors import ConfigurationError
from farflung.learner import build, talk
from farflung.learner.graph import acting_graph


@pytest.fixture
def made(tmp_path):
    """A learner whose run has its acting graph in its folder, with its configuration."""
    config = a_config(mode="async")
    run = a_run(tmp_path)
    return config, run, build.learner(config, run, torch.device("cpu"))


def test_the_spec_is_kept_with_its_graph(made):
    """To the bit; what may change from life to life is as it is asked for now."""
    config, run, learner = made
    assert talk.kept(config, run) == learner.core.spec
    changed = talk.kept(dataclasses.replace(config, exploration_end=0.5), run)
    assert changed is not None
    assert (changed.exploration.end, changed.graph) == (0.5, learner.core.spec.graph)


def test_a_graph_that_sees_something_else_is_not_taken(made, tmp_path):
    """Another stack of frames; and a run that has none has none."""
    config, run, _ = made
    assert talk.kept(dataclasses.replace(config, stack=2), run) is None
    assert talk.kept(config, a_run(tmp_path, "other")) is None


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: data[:100] + b"?" + data[101:], lambda data: b""],
)
def test_a_kept_graph_that_is_damaged_is_written_anew(made, caplog, damage):
    """A kill in the middle of writing it, and it is said."""
    config, run, _ = made
    path = run.file(*talk.SPEC)
    path.write_bytes(damage(path.read_bytes()))
    assert talk.kept(config, run) is None
    assert "is written anew" in caplog.text


def test_a_life_that_goes_on_writes_no_graph(made, monkeypatch):
    """It proves the one that is there, and acts behind the talk that has begun."""
    config, run, first = made
    proved = []
    monkeypatch.setattr(acting_graph, "export", None)
    monkeypatch.setattr(acting_graph, "prove", lambda module, acting: proved.append(acting))
    spec = talk.kept(config, run)
    known = talk.talk(spec)
    again = build.learner(config, run, torch.device("cpu"), None, known)
    assert (again.receiver, again.publisher) == (known.receiver, known.publisher)
    assert proved == [first.core.spec.graph]


def test_another_network_than_the_run_began_with_is_refused(made, monkeypatch):
    """In a sentence that says what to do."""
    config, run, _ = made

    def differs(module, acting):
        raise ConfigurationError(
            "The acting graph and the policy module differ in q: no single tensor explains it."
        )

    monkeypatch.setattr(acting_graph, "prove", differs)
    with pytest.raises(
        ConfigurationError,
        match=r"differ in q.*This run began with another network: --resume .*, --init",
    ):
        build.learner(config, run, torch.device("cpu"), None, talk.talk(talk.kept(config, run)))
