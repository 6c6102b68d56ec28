"""The spec that actors are told, kept in the run's folder for the next epoch."""

import dataclasses

import pytest
import torch
from support.agents import Circle
from support.learners import a_config, a_run

from farflung.actor.worlds import registered
from farflung.common.process.errors import ConfigurationError
from farflung.learner.core.build import build_core
from farflung.learner.core.spec import SPEC, describe, saved_spec
from farflung.learner.graph import acting_graph


@pytest.fixture
def made(tmp_path):
    """Return settings, run and core of a learner with its acting graph in the folder."""
    config = a_config(mode="async")
    run = a_run(tmp_path)
    return config, run, build_core(config, run, torch.device("cpu"), 1)


def test_spec_is_saved_with_its_graph(made):
    """The spec is the same to the bit; settings that may change are those of this epoch."""
    config, run, core = made
    assert saved_spec(config, run) == core.spec
    changed = saved_spec(dataclasses.replace(config, exploration_end=0.5), run)
    assert changed is not None
    assert (changed.exploration.end, changed.graph) == (0.5, core.spec.graph)


def test_saved_graph_of_other_observations_is_not_taken(made, tmp_path):
    """Another stack of frames asks for a new graph, and so does a folder without one."""
    config, run, _ = made
    assert saved_spec(dataclasses.replace(config, stack=2), run) is None
    assert saved_spec(config, a_run(tmp_path, "other")) is None


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: data[:100] + b"?" + data[101:], lambda data: b""],
)
def test_damaged_graph_is_written_again(made, caplog, damage):
    """A kill while it was written leaves a damaged file; the log names it."""
    config, run, _ = made
    path = run.file(*SPEC)
    path.write_bytes(damage(path.read_bytes()))
    assert saved_spec(config, run) is None
    assert "is written again" in caplog.text


def test_resumed_run_writes_no_graph(made, monkeypatch):
    """It proves the saved graph."""
    config, run, first = made
    proved = []
    monkeypatch.setattr(acting_graph, "export", None)
    monkeypatch.setattr(acting_graph, "prove", lambda module, acting: proved.append(acting))
    spec = saved_spec(config, run)
    again = build_core(config, run, torch.device("cpu"), 2, spec)
    assert (again.spec, again.state.version.epoch) == (spec, 2)
    assert proved == [first.spec.graph]


def test_other_network_than_the_one_that_began_the_run_is_refused(made, monkeypatch):
    """The sentence names --resume and --init."""
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


@pytest.fixture
def circle(monkeypatch):
    """Register a world with four agents."""
    monkeypatch.setitem(registered.WORLDS, "circle", Circle)


def test_the_agents_of_each_policy_are_in_the_world(circle, tmp_path):
    """Those of `--policies`; a policy that plays none is refused with those that do."""
    config = a_config(mode="async", environment="circle", policies="red=bob; blue=*", policy="red")
    spec = describe(config, a_run(tmp_path), "q")
    assert spec.world.seats == {"red": ("bob",), "blue": ("ann", "cat", "dot")}
    with pytest.raises(ConfigurationError, match="--policy green plays no agent"):
        describe(dataclasses.replace(config, policy="green"), a_run(tmp_path, "other"), "q")


def test_policies_of_one_world_begin_with_other_networks(circle, tmp_path):
    """With one seed, and the same network for the same policy."""
    config = a_config(mode="async", environment="circle", policies="auto", policy="ann")
    cpu = torch.device("cpu")
    ann, again, bob = (
        build_core(dataclasses.replace(config, policy=policy), a_run(tmp_path, name), cpu, 1)
        for policy, name in (("ann", "one"), ("ann", "two"), ("bob", "three"))
    )
    assert ann.fingerprint == again.fingerprint != bob.fingerprint
