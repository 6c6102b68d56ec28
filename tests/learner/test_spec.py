"""The spec that actors are told, kept in the run's folder for the next epoch."""

import dataclasses

import pytest
import torch
from support.learners import a_config, a_run

from farflung.common.process.errors import ConfigurationError
from farflung.learner.core.build import build_core
from farflung.learner.graph import acting_graph
from farflung.learner.spec import SPEC, saved_spec


@pytest.fixture
def made(tmp_path):
    """A learner whose run has its acting graph in its folder, with its configuration."""
    config = a_config(mode="async")
    run = a_run(tmp_path)
    return config, run, build_core(config, run, torch.device("cpu"), 1)


def test_the_spec_is_kept_with_its_graph(made):
    """To the bit; what may change from life to life is as it is asked for now."""
    config, run, core = made
    assert saved_spec(config, run) == core.spec
    changed = saved_spec(dataclasses.replace(config, exploration_end=0.5), run)
    assert changed is not None
    assert (changed.exploration.end, changed.graph) == (0.5, core.spec.graph)


def test_a_graph_that_sees_something_else_is_not_taken(made, tmp_path):
    """Another stack of frames; and a run that has none has none."""
    config, run, _ = made
    assert saved_spec(dataclasses.replace(config, stack=2), run) is None
    assert saved_spec(config, a_run(tmp_path, "other")) is None


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: data[:100] + b"?" + data[101:], lambda data: b""],
)
def test_a_kept_graph_that_is_damaged_is_written_again(made, caplog, damage):
    """A kill in the middle of writing it, and it is said."""
    config, run, _ = made
    path = run.file(*SPEC)
    path.write_bytes(damage(path.read_bytes()))
    assert saved_spec(config, run) is None
    assert "is written again" in caplog.text


def test_a_life_that_goes_on_writes_no_graph(made, monkeypatch):
    """It proves the one that is there, and acts behind the talk that has begun."""
    config, run, first = made
    proved = []
    monkeypatch.setattr(acting_graph, "export", None)
    monkeypatch.setattr(acting_graph, "prove", lambda module, acting: proved.append(acting))
    spec = saved_spec(config, run)
    again = build_core(config, run, torch.device("cpu"), 2, spec)
    assert (again.spec, again.state.version.epoch) == (spec, 2)
    assert proved == [first.spec.graph]


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
        build_core(config, run, torch.device("cpu"), 1, saved_spec(config, run))
