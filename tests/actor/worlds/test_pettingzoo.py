"""Worlds of PettingZoo: what is said of them, and what is refused."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from msgspec import structs
from support.agents import AGENTS, STAMP, Circle, Meeting
from support.playing import seated, spec_of

from farflung.actor.worlds import families, registered
from farflung.actor.worlds.game import seen
from farflung.actor.worlds.gymnasium_spaces import without_mask
from farflung.actor.worlds.own import environment_id, import_own, register_own
from farflung.common.data.spec import Column, Space, Spec, World
from farflung.common.process.errors import ConfigurationError

MASK = Column("info.action_mask", "bool", (4,), "observation")


class Unlike(Meeting):
    """The agents differ: dot has more actions, and ann sees more."""

    def observation_space(self, agent: str) -> spaces.Space:
        """Return another space for ann."""
        return spaces.Box(-1, 1, (9,), np.float32) if agent == "ann" else STAMP

    def action_space(self, agent: str) -> spaces.Space:
        """Return more actions for dot."""
        return spaces.Discrete(5 if agent == "dot" else 4)


class Informed(Circle):
    """It has the mask in its infos."""

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        """Begin an episode."""
        super().reset(seed, options)
        self.infos = {agent: {"action_mask": np.ones(4, np.int8)} for agent in self.agents}


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], World]:
    """Register a world for a test."""

    def register(name: str, make: Any) -> World:
        monkeypatch.setitem(registered.WORLDS, name, make)
        return World(name)

    return register


def a_spec(world: World, seats: dict[str, tuple[str, ...]]) -> Spec:
    """Return a spec of a world in which policies play agents."""
    found = families.describe(World(world.environment, seats=seats), "policy")
    fields = {"observation": found.observation, "action": found.action}
    spec = spec_of(World("CartPole-v1"), **fields)
    return structs.replace(spec, world=structs.replace(world, seats=seats))


def test_all_agents_are_played_by_one_policy(register) -> None:
    """Their spaces are equal; the mask is a column beside the observation."""
    found = families.describe(register("circle", lambda: Circle(masked=True)), masked=True)
    assert found.agents == AGENTS
    assert found.observation == {"": Space("box", "float32", (5,))}
    assert found.action == Space("discrete", "int64", (), (4,))
    assert found.mask == MASK
    assert families.describe(register("meeting", Meeting), masked=True).mask is None


def test_a_mask_in_the_infos_is_a_column_too(register) -> None:
    """PettingZoo allows both places."""
    world = register("informed", Informed)
    assert families.describe(world, masked=True).mask == MASK
    assert families.describe(world).mask is None


@pytest.mark.parametrize(
    ("agents", "says"),
    [
        (AGENTS, "one policy cannot play both ann and bob. They differ in their observations"),
        (AGENTS[1:], "one policy cannot play both bob and dot. They differ in their actions"),
        (("zoe",), "has no agent 'zoe': it has ann, bob, cat, dot"),
        ((), "a policy has no agent to play"),
    ],
)
def test_agents_that_one_policy_cannot_play_are_named(register, agents, says) -> None:
    """With what they differ in."""
    world = structs.replace(register("unlike", Unlike), seats={"policy": agents})
    with pytest.raises(ConfigurationError, match=says):
        families.describe(world, "policy")


def test_agents_of_other_spaces_have_policies_of_their_own(register) -> None:
    """Each policy has the spaces of its own agents, and a world serves both."""
    seats = {"seer": ("ann",), "others": ("bob", "cat"), "doer": ("dot",)}
    world = structs.replace(register("unlike", Unlike), seats=seats)
    found = {policy: families.describe(world, policy) for policy in seats}
    assert found["seer"].observation[""].shape == (9,)
    assert found["others"].observation[""].shape == (5,)
    assert (found["others"].action.sizes, found["doer"].action.sizes) == ((4,), (5,))


def test_an_actor_plays_every_agent_or_none(register) -> None:
    """An agent without a policy would hold up the world."""
    world = register("meeting", Meeting)
    spec = a_spec(world, {"policy": ("ann",), "absent": ("bob", "cat", "dot")})
    with pytest.raises(ConfigurationError, match="an agent that no policy plays here: bob"):
        seated(spec, 1)


def test_a_world_with_other_spaces_here_is_refused(register) -> None:
    """The sentence names the agent, and both spaces."""
    spec = a_spec(register("meeting", Meeting), {"policy": AGENTS})
    register("meeting", Unlike)
    with pytest.raises(ConfigurationError, match="ann of meeting is another one here") as refusal:
        seated(spec, 1)
    assert "(9,)" in str(refusal.value)
    assert "(5,)" in str(refusal.value)


def test_only_environments_with_agents_are_taken(register) -> None:
    """The form counts of that which a user's function returns."""
    world = register("cart", lambda: __import__("gymnasium").make("CartPole-v1"))
    with pytest.raises(ConfigurationError, match="its possible_agents are"):
        families.describe(world)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("connect_four_v2", "did you mean connect_four_v3?"),
        ("conect_four_v3", "did you mean connect_four_v3?"),
        ("connect_four", "did you mean connect_four_v3?"),
        ("pettingzoo/connect_four_v3", "did you mean connect_four_v3?"),
        ("clasic/pursuit_v5", "did you mean pursuit_v5?"),
        ("no_such_game_v1", "no environment is registered as 'no_such_game_v1'"),
        ("os/system_v1", "no environment is registered"),
    ],
)
def test_an_unknown_name_is_refused(name: str, says: str) -> None:
    """Names come over the network: they are looked up, never imported."""
    with pytest.raises(ConfigurationError) as refusal:
        families.describe(World(name))
    assert says in str(refusal.value)


def test_without_pettingzoo_its_install_command_is_told(monkeypatch) -> None:
    """A name may be a typo, too: so it is in the sentence."""
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    with pytest.raises(ConfigurationError) as refusal:
        families.describe(World("connect_four_v3"))
    assert "'connect_four_v3'" in str(refusal.value)
    assert "pip install 'farflung[pettingzoo]'" in str(refusal.value)


def test_wrappers_and_vectors_are_gymnasiums(register) -> None:
    """They are refused in a sentence."""
    world = register("meeting", Meeting)
    wrapped = structs.replace(world, wrappers=(("ClipReward", {}),))
    with pytest.raises(ConfigurationError, match="wrappers go around environments of Gymnasium's"):
        families.describe(wrapped)
    with pytest.raises(ConfigurationError, match="leave --vector out"):
        seated(a_spec(world, {"policy": AGENTS}), 1, vector=True)


def test_arguments_reach_the_maker_and_what_it_raises_is_told(register) -> None:
    """A sentence with the arguments."""
    world = register("circle", lambda masked: Circle(masked))
    found = families.describe(structs.replace(world, arguments={"masked": True}), masked=True)
    assert found.mask == MASK
    with pytest.raises(ConfigurationError, match=r"cannot be made with \{'size': 3\}"):
        families.describe(structs.replace(world, arguments={"size": 3}))


def test_a_class_that_is_imported_is_known_by_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--import package.module:Class` of an environment with agents registers it as such."""
    monkeypatch.setattr(registered, "WORLDS", {})
    import_own(["support.agents:Meeting"])
    world = World(environment_id("support.agents:Meeting"))
    assert families.has_agents(world)
    assert families.describe(world).agents == AGENTS

    def parallel_env() -> Meeting:
        return Meeting()

    register_own("own/spread", parallel_env)
    assert families.has_agents(World("own/spread"))
    register_own("own.spread_v1.parallel_env", lambda: Meeting())  # as a wrapper makes it
    assert families.has_agents(World("own.spread_v1.parallel_env"))
    assert not families.has_agents(World("CartPole-v1"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of PettingZoo and what it imports
@pytest.mark.parametrize("name", ["connect_four_v3", "classic/connect_four_v3"])
def test_connect_four_is_found_by_the_name_of_its_module(name: str) -> None:
    """With or without its family."""
    found = families.describe(World(name), masked=True)
    assert found.agents == ("player_0", "player_1")
    assert found.observation == {"": Space("box", "int32", (6, 7, 2))}
    assert found.mask is not None
    assert found.mask.shape == found.action.sizes == (7,)


def test_agents_of_a_world_are_listed(register) -> None:
    """All that may appear, in the world's order; a world without agents is refused."""
    assert families.agents(register("circle", Circle)) == AGENTS
    with pytest.raises(ConfigurationError, match="CartPole-v1 has one agent"):
        families.agents(World("CartPole-v1"))


@pytest.mark.parametrize(
    ("space", "mask"),
    [
        (spaces.MultiBinary(5), np.array([1, 0, 1, 0, 1], np.int8)),
        (
            spaces.Tuple([spaces.MultiBinary(3), spaces.MultiBinary(2)]),
            (np.array([1, 0, 1], np.int8), np.array([0, 1], np.int8)),
        ),
    ],
    ids=["one after the other", "a tuple"],
)
def test_mask_of_several_choices_is_one_row(space: spaces.Space, mask: Any) -> None:
    """Beside the observation or in the info, in both forms: three possibilities, then two."""
    plain, count = without_mask(spaces.Dict(observation=STAMP, action_mask=space))
    assert (plain, count) == (STAMP, 5)
    for observation, info in (
        ({"observation": STAMP.sample(), "action_mask": mask}, {}),
        (STAMP.sample(), {"action_mask": mask}),
    ):
        assert seen(observation, info).info["action_mask"].tolist() == [1, 0, 1, 0, 1]
