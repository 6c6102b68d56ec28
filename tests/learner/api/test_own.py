"""Classes and functions as settings: by name where they must travel, as they are where not."""

import functools
import sys
import types

import gymnasium
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from farflung.actor.worlds import gymnasium as worlds
from farflung.actor.worlds.own import import_own
from farflung.common.data.spec import World
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.algorithms.dqn import DQN
from farflung.learner.api import own
from farflung.learner.api.train import configuration

CARTPOLE = "gymnasium.envs.classic_control.cartpole"


def local():
    """Return a class that no other process can import."""

    class Mine(CartPoleEnv):
        pass

    return Mine


def in_main(monkeypatch):
    """Return a class as a script or notebook defines it."""
    mine = type("Mine", (CartPoleEnv,), {"__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "Mine", mine, raising=False)
    return mine


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """Forget what a test registers."""
    monkeypatch.setattr(gymnasium, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium.envs.registration, "registry", gymnasium.registry)


def test_class_of_a_module_travels_by_its_name():
    """As an import of every actor; learner and actor make the same world."""
    found = own.environment(CartPoleEnv, sequential=False)
    identity = f"{CARTPOLE}.CartPoleEnv"
    assert found == {"env": identity, "imports": (f"{CARTPOLE}:CartPoleEnv",)}
    import_own(found["imports"])
    made = worlds.make(World(identity, {"render_mode": "rgb_array"}))
    assert type(made.unwrapped) is CartPoleEnv
    assert made.unwrapped.render_mode == "rgb_array"


def test_name_after_import_must_exist():
    """In the sentence that names module and name."""
    with pytest.raises(ConfigurationError, match=f"{CARTPOLE} has no Nothing"):
        import_own([f"{CARTPOLE}:Nothing"])


@pytest.mark.parametrize("make", [local(), lambda: CartPoleEnv(), functools.partial(CartPoleEnv)])
def test_callable_without_a_name_is_for_the_sequential_mode(make):
    """Elsewhere it is refused in a sentence that says what to do."""
    with pytest.raises(UsageError, match=r"is defined not at the top of a module.*a module of its"):
        own.environment(make, sequential=False)
    found = own.environment(make, sequential=True)
    assert set(found) == {"env"}
    assert isinstance(worlds.make(World(found["env"])).unwrapped, CartPoleEnv)


def test_class_of_a_script_is_refused_by_name(monkeypatch):
    """Actors are no copies of the script, so they would run it, or not find it."""
    mine = in_main(monkeypatch)
    with pytest.raises(UsageError) as refusal:
        own.environment(mine, sequential=False)
    assert str(refusal.value) == (
        "env=Mine is defined in this script or notebook, and actors in other processes cannot "
        "import it: move it to a module of its own (a .py file) and import it from there, "
        'or train with mode="sequential", which plays in this process'
    )
    assert own.environment(mine, sequential=True) == {"env": "own/Mine"}


def test_class_that_was_defined_again_replaces_the_one_before(monkeypatch):
    """As a cell of a notebook that runs a second time, without a warning of Gymnasium's."""
    for _ in range(2):
        mine = in_main(monkeypatch)
        found = own.environment(mine, sequential=True)
        assert type(worlds.make(World(found["env"])).unwrapped) is mine


def test_module_without_a_file_cannot_be_imported_elsewhere(monkeypatch):
    """One that a program makes at run time has no spec."""
    made = types.ModuleType("made_up")
    made.Mine = type("Mine", (CartPoleEnv,), {"__module__": "made_up"})
    monkeypatch.setitem(sys.modules, "made_up", made)
    with pytest.raises(UsageError, match="cannot import it"):
        own.environment(made.Mine, sequential=False)


def test_environment_itself_is_refused():
    """Each actor makes its own."""
    with pytest.raises(UsageError, match="env=<CartPoleEnv> is no id: each actor makes its own"):
        own.environment(CartPoleEnv(), sequential=True)


def test_algorithm_and_model_may_be_a_class_and_a_function(monkeypatch):
    """Only the learner needs them, so one of this script will do."""
    assert configuration({"algorithm": DQN}).config.algorithm == f"{DQN.__module__}:DQN"
    mine = type("MyDQN", (DQN,), {"__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "MyDQN", mine, raising=False)
    assert configuration({"algorithm": mine}).config.algorithm == "__main__:MyDQN"
    with pytest.raises(UsageError, match=r"model=.*<lambda> has no name to find it by"):
        configuration({"model": lambda: None})
