"""Worlds of Gymnasium: what is said of them, and what is refused."""

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from msgspec.structs import replace
from support.playing import spec_of

from farflung.actor.worlds.gymnasium import (
    WRAPPERS,
    describe,
    make,
    open_world,
    register_wrapper,
)
from farflung.actor.worlds.gymnasium_spaces import adapter
from farflung.actor.worlds.lockstep import ListWorld
from farflung.actor.worlds.surroundings import Surroundings
from farflung.actor.worlds.vector import VectorWorld
from farflung.common.data.spec import Space, Spec, World
from farflung.common.process.errors import ConfigurationError


def opened(spec: Spec, count: int = 1, *, vector: bool = False) -> ListWorld | VectorWorld:
    """Open a world with environments that are expected to work."""
    around = Surroundings(lambda *_: None, lambda _: None, lambda: 0.0)
    return open_world(spec, count, key=("actor", 0, 0), around=around, vector=vector)


def seated(world: World, count: int = 1, *, vector: bool = False) -> ListWorld | VectorWorld:
    """The same, of a spec for it."""
    return opened(spec_of(world), count, vector=vector)


def test_a_plain_world_has_one_leaf() -> None:
    """CartPole: four floats, two actions, 500 steps at most, solved at 475."""
    found = describe(World("CartPole-v1"))
    assert found.observation == {"": Space("box", "float32", (4,))}
    assert found.action == Space("discrete", "int64", (), (2,))
    assert (found.steps_limit, found.reward_threshold) == (500, 475.0)


def test_a_discrete_observation_is_a_number() -> None:
    """FrozenLake: which of sixteen squares."""
    assert describe(World("FrozenLake-v1")).observation == {
        "": Space("discrete", "int64", (), (16,))
    }


def test_a_dictionary_has_a_leaf_for_each_key() -> None:
    """Each part keeps its own kind, type and shape."""
    found = describe(World("toys/Parts-v0"))
    assert found.observation == {
        "stamp": Space("box", "float32", (3,)),
        "room": Space("discrete", "int64", (), (3,)),
        "dials": Space("multidiscrete", "int64", (2,), (4, 2)),
        "picture": Space("box", "uint8", (2, 2)),
    }
    assert found.action == Space("discrete", "int64", (), (4,))
    assert (found.steps_limit, found.reward_threshold) == (None, None)


def test_doubles_are_carried_as_floats() -> None:
    """Nothing downstream computes in doubles; the bounds of an action stay what they are."""
    found = describe(World("toys/Echo-v0"))
    assert found.observation == {"": Space("box", "float32", (2,))}
    assert found.action == Space(
        "box", "float32", (2,), low=(-float(np.float64(0.1)), 0.0), high=(0.1, np.inf)
    )


def test_several_choices_at_once_are_an_action_space() -> None:
    """A MultiDiscrete action is described by how many choices each part has."""
    found = describe(World("toys/Odd-v0", {"action": spaces.MultiDiscrete([3, 2])}))
    assert found.action == Space("multidiscrete", "int64", (2,), (3, 2))


@pytest.mark.parametrize(
    ("space", "named"),
    [
        (spaces.Text(5), "Text"),
        (spaces.Tuple((spaces.Discrete(2),)), "Tuple"),
        (spaces.Sequence(spaces.Discrete(2)), "Sequence"),
        (spaces.MultiBinary(3), "MultiBinary"),
        (spaces.Dict(inner=spaces.Dict(x=spaces.Discrete(2))), "'inner'"),
        (spaces.Dict(word=spaces.Text(5)), "'word'"),
        (spaces.Dict({"a/b": spaces.Discrete(2)}), "'a/b'"),
        (spaces.Dict(), "nothing to see"),
        (spaces.Box(0, 1, (2,), np.uint64), "uint64"),
    ],
)
def test_an_observation_space_that_no_column_carries_is_named(
    space: spaces.Space, named: str
) -> None:
    """The refusal is one sentence with the environment and the space in it."""
    with pytest.raises(ConfigurationError, match=named) as refusal:
        describe(World("toys/Odd-v0", {"observation": space}))
    assert "toys/Odd-v0" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "space", [spaces.Text(5), spaces.Dict(x=spaces.Discrete(2)), spaces.Box(0, 9, (2,), np.int64)]
)
def test_an_action_space_that_no_policy_answers_is_named(space: spaces.Space) -> None:
    """An action is a number, several numbers, or floats."""
    with pytest.raises(ConfigurationError, match="its action space is"):
        describe(World("toys/Odd-v0", {"action": space}))


@pytest.mark.parametrize(
    ("world", "says"),
    [
        (World("os:system"), "--import MODULE"),
        (World("CartPole"), "did you mean CartPole-v1"),
        (World("Minecraft-v0"), "--import PACKAGE"),
        (
            World("ALE/Pong-v5"),
            r"'ALE/Pong-v5': pip install 'farflung\[atari\]', and pass --import ale_py, here",
        ),
        (World("PongNoFrameskip-v4"), "--import ale_py"),
        (
            World("CartPole-v1", wrappers=(("atari", {}),)),
            "'frameskip': 1}: .*argument 'frameskip'",
        ),
        (World("CartPole-v1", {"gravity": 3}), "unexpected keyword argument 'gravity'"),
        (World("CartPole-v1", wrappers=(("TimeLimitt", {}),)), "did you mean TimeLimit"),
        (World("CartPole-v1", wrappers=(("os.system", {}),)), "no wrapper is registered"),
        (
            World("toys/Homeless-v0"),
            r"needs a package that is not installed here: pip install 'farflung\[box2d\]'$",
        ),
        (
            World("toys/Homeless-v0", {"lacks": "MuJoCo"}),
            r"needs a package that is not installed here: pip install 'farflung\[mujoco\]'$",
        ),
        (
            World("toys/Homeless-v0", {"lacks": "opencv-python"}),
            r"needs a package that is not installed here: pip install 'farflung\[atari\]'$",
        ),
        (
            World("toys/Homeless-v0", {"lacks": "Kinect"}),
            "not installed here: Kinect is not installed, run `pip install swig`",
        ),
    ],
)
def test_a_world_that_cannot_be_made_is_refused_in_a_sentence(
    world: World, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to do: the nearest name, what to install, what to import."""
    for name in [name for name in gymnasium.registry if re.search("^ALE/|NoFrameskip", name)]:
        monkeypatch.delitem(gymnasium.registry, name)  # another test imported the games of Atari
    with pytest.raises(ConfigurationError, match=says) as refusal:
        describe(world)
    assert "\n" not in str(refusal.value)


def test_an_id_that_names_a_module_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names come over the network: Gymnasium itself would import what stands before the colon."""
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"imported {name}"))
    for method in (make, describe, seated, lambda world: seated(world, vector=True)):
        with pytest.raises(ConfigurationError):
            method(World("antigravity:CartPole-v1"))


@pytest.mark.parametrize("number", [21, 22, 26])
def test_an_id_that_passes_an_id_on_is_refused(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shimmy would hand `module:id` to OpenAI Gym, which imports the module."""
    made: list[object] = []
    name = f"GymV{number}Environment-v0"
    monkeypatch.setitem(
        gymnasium.registry,
        name,
        gymnasium.envs.registration.EnvSpec(name, entry_point=lambda **_: made.append(1)),
    )
    for method in (make, describe, seated, lambda world: seated(world, vector=True)):
        with pytest.raises(ConfigurationError, match="passes an id on to another package"):
            method(World(name, {"env_id": "antigravity:CartPole-v1"}))
    assert made == []


@pytest.mark.parametrize(
    "argument", ["id", "env_id", "entry_point", "vector_entry_point", "wrappers", "vector_kwargs"]
)
def test_arguments_of_gymnasium_itself_are_refused(argument: str) -> None:
    """Before anything is made: they take ids, code and wrappers."""
    with pytest.raises(ConfigurationError, match=f"{argument}': it is Gymnasium's own"):
        make(World("CartPole-v1", {argument: "os:system"}))


def test_no_learner_opens_a_window() -> None:
    """On a robot's screen, or where there is none."""
    with pytest.raises(ConfigurationError, match="would open a window"):
        make(World("CartPole-v1", {"render_mode": "human"}))
    make(World("CartPole-v1", {"render_mode": "rgb_array"})).close()


@pytest.mark.parametrize(
    "world",
    [
        World("CartPole-v1", {"map": "x" * (3 << 20)}),
        World("CartPole-v1", wrappers=(("TimeLimit", {"max_episode_steps": "x" * (3 << 20)}),)),
    ],
)
def test_megabytes_of_arguments_are_refused_in_a_short_sentence(world: World) -> None:
    """It names their size, and does not show them."""
    with pytest.raises(ConfigurationError, match="at most 65536 are taken") as refusal:
        make(world)
    assert len(str(refusal.value)) < 300


def test_arguments_that_an_environment_refuses_are_shown_in_part() -> None:
    """The sentence stays one that a person reads."""
    with pytest.raises(ConfigurationError, match="cannot be made with") as refusal:
        make(World("CartPole-v1", {"x" * 5000: 1}))
    assert len(str(refusal.value)) < 1500


def test_wrappers_go_around_in_order() -> None:
    """The first is the innermost: a picture flattened, then with the time at its end."""
    wrappers = (
        ("FilterObservation", {"filter_keys": ["picture"]}),
        ("FlattenObservation", {}),
        ("TimeLimit", {"max_episode_steps": 2}),
    )
    found = describe(World("toys/Parts-v0", wrappers=wrappers))
    assert found.observation == {"": Space("box", "uint8", (4,))}
    assert found.steps_limit == 2


def test_atari_frames_are_skipped_by_the_wrapper_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The named wrapper asks for single frames of the game; an argument of the user counts more."""
    asked: list[int] = []

    def toy(frameskip: int = 4, **_: Any) -> Any:
        asked.append(frameskip)
        return gymnasium.make("CartPole-v1").unwrapped

    monkeypatch.setitem(WRAPPERS, "atari", lambda environment, **options: environment)
    monkeypatch.setitem(
        gymnasium.registry,
        "ALE/Toy-v5",
        gymnasium.envs.registration.EnvSpec("ALE/Toy-v5", entry_point=toy),
    )
    make(World("ALE/Toy-v5")).close()
    make(World("ALE/Toy-v5", wrappers=(("atari", {}),))).close()
    make(World("ALE/Toy-v5", {"frameskip": 2}, wrappers=(("atari", {}),))).close()
    assert asked == [4, 1, 2]


def test_a_wrapper_of_ones_own_is_registered_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spec carries its name and arguments only."""
    monkeypatch.setattr("farflung.actor.worlds.gymnasium.WRAPPERS", {})
    register_wrapper(
        "short", lambda environment, steps: gymnasium.wrappers.TimeLimit(environment, steps)
    )
    assert describe(World("toys/Stamp-v0", wrappers=(("short", {"steps": 3}),))).steps_limit == 3


def test_a_world_with_other_spaces_than_the_learners_is_refused() -> None:
    """Two machines with two versions of an environment do not mix."""
    spec = spec_of(World("CartPole-v1"))
    assert len(opened(spec, 2).seats["policy"]) == 2
    with pytest.raises(ConfigurationError, match="has other observations here"):
        opened(replace(spec, observation={"": Space("box", "float32", (5,))}))
    with pytest.raises(ConfigurationError, match="has other actions here"):
        opened(replace(spec, action=Space("discrete", "int64", (), (3,))), vector=True)


@pytest.mark.parametrize(
    ("world", "says"),
    [
        (World("toys/Stamp-v0"), "no vectorised version"),
        (
            World("CartPole-v1", wrappers=(("TimeLimit", {"max_episode_steps": 5}),)),
            "wrappers go around single environments",
        ),
        (World("toys/StampDisabled-v0"), "begins no episodes by itself"),
        (World("CartPole-v1", {"gravity": 3}), "cannot be made with"),
    ],
)
def test_a_world_that_cannot_step_all_seats_itself_says_so(world: World, says: str) -> None:
    """`--vector` never falls back silently."""
    with pytest.raises(ConfigurationError, match=says):
        seated(world, 2, vector=True)


def test_actions_are_told_as_the_world_numbers_them() -> None:
    """Columns count from 0, worlds from where they like.

    Floats are held to bounds that a column would round beyond.
    """
    world, seen = World("x"), spaces.Discrete(2)
    assert adapter(world, seen, spaces.Discrete(3, start=5)).act(np.array([0, 2])).tolist() == [
        5,
        7,
    ]
    assert adapter(world, seen, spaces.MultiDiscrete([3, 3], start=[1, -1])).act(
        np.array([[0, 0], [2, 1]])
    ).tolist() == [[1, -1], [3, 0]]
    box = spaces.Box(-0.1, 0.1, (1,), np.float64)
    assert box.contains(adapter(world, seen, box).act(np.array([[0.1]], np.float32))[0])
    assert not box.contains(np.array([0.1], np.float32).astype(np.float64))
