"""CartPole's vector form, which stands in for single environments by default."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import cartpole
from support.learners import a_config, a_learner
from support.playing import spec_of
from support.sequential import collectors, play

from farflung.actor.worlds import gymnasium, gymnasium_stand_in
from farflung.actor.worlds.gymnasium_stand_in import LEAST_SEATS, StandIn, steps_alike
from farflung.actor.worlds.lockstep import ListWorld
from farflung.actor.worlds.starts import Starts
from farflung.actor.worlds.surroundings import Surroundings
from farflung.actor.worlds.vector import VectorWorld
from farflung.actor.worlds.world import Turn
from farflung.common.data.parcel import Ending
from farflung.common.data.spec import Column, World

KEY = ("actor", 0, 0)
CARTPOLE = World("CartPole-v1", seed=3)
CUT = World("CartPole-v0", wrappers=(("TimeLimit", {"max_episode_steps": 40}),), seed=4)

Seated = ListWorld | VectorWorld


def around(problems: list[str] | None = None) -> Surroundings:
    """Return surroundings that keep problems, or allow none."""
    clock = itertools.count(0.0, 1000.0)
    note = problems.append if problems is not None else pytest.fail
    return Surroundings(lambda kind, text: note(text), lambda _: None, lambda: next(clock))


def opened(world: World, count: int, vector: bool | None = None, **options: Any) -> Seated:
    """Return a world of so many seats."""
    speed = Column("result.speed", "float32", (), "result")
    spec = spec_of(world, extras=(speed,))
    return gymnasium.open_world(
        spec, count, key=KEY, around=options.pop("around", around()), vector=vector, **options
    )


def bits(turn: Turn) -> list[object]:
    """Return all that a turn tells, as bytes."""
    told: list[object] = [(name, row.tobytes()) for name, row in turn.due["policy"].columns.items()]
    if (outcomes := turn.outcomes.get("policy")) is not None:
        told += [outcomes.rewards.tobytes(), outcomes.lost, outcomes.absent, outcomes.seats]
        for seat, end in outcomes.ended.items():
            columns = [(name, row.dtype, row.tobytes()) for name, row in end.columns.items()]
            told.append((seat, end.ending, columns, np.array(end.metrics).tobytes()))
    return told


def actions(turn: Turn, rng: np.random.Generator) -> np.ndarray:
    """Return actions that balance the pole in every second seat, and fall in the others."""
    seen = turn.due["policy"].columns["observations"]
    balancing = (seen @ np.array([0.1, 0.5, 5.0, 1.0]) > 0).astype(np.int64)
    return np.where(np.arange(len(seen)) % 2, rng.integers(2, size=len(seen)), balancing)


@pytest.mark.parametrize(
    ("world", "count", "turns"),
    [(CARTPOLE, LEAST_SEATS, 1100), (CARTPOLE, 13, 300), (CARTPOLE, 64, 150), (CUT, 9, 300)],
)
def test_stand_in_has_the_rows_of_the_list(world: World, count: int, turns: int) -> None:
    """Step by step: observations, rewards, both kinds of endings, last observations, metrics."""
    one, other = opened(world, count), opened(world, count, vector=False)
    assert (type(one), type(other)) == (VectorWorld, ListWorld)
    rng, endings = np.random.default_rng(0), set[Ending]()
    for _ in range(2):  # a world may be reset while it is played, as for evaluations
        turn, same = one.reset(), other.reset()
        assert bits(turn) == bits(same)
        for _ in range(turns):
            row = actions(turn, rng)
            turn, same = one.step({"policy": row}), other.step({"policy": row})
            assert bits(turn) == bits(same)
            endings |= {end.ending for end in turn.outcomes["policy"].ended.values()}
    assert Ending.TERMINATED in endings
    assert (Ending.TRUNCATED in endings) is (turns > 500 or world is CUT)
    one.close()
    other.close()


def learned(folder: Any) -> bytes:
    """Return what a sequential run of some updates has learned."""
    config = a_config(
        environment="CartPole-v1",
        environments=LEAST_SEATS,
        horizon=16,
        batch_size=32,
        warmup=256,
        replay_ratio=4.0,
    )
    learner = a_learner(config, folder)
    play(learner, collectors(1, config.environments), lambda: learner.core.state.updates >= 100)
    parameters = learner.core.algorithm.policy().parameters()
    return b"".join(each.detach().numpy().tobytes() for each in parameters)


def test_sequential_bits_are_those_of_the_list(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run learns the same to the bit in both forms."""
    made: list[type[Seated]] = []
    open_world = gymnasium.open_world

    def noting(*places: Any, **options: Any) -> Seated:
        made.append(type(world := open_world(*places, **options)))
        return world

    monkeypatch.setattr(gymnasium, "open_world", noting)
    here = learned(tmp_path / "here")
    monkeypatch.setattr(gymnasium_stand_in, "LEAST_SEATS", LEAST_SEATS + 1)
    assert learned(tmp_path / "there") == here
    assert made == [VectorWorld, ListWorld]


class Own(cartpole.CartPoleEnv):
    """A user's CartPole."""


class Kicked(gym.Wrapper):  # type: ignore[misc]
    """A user's wrapper under one of Gymnasium's names."""

    def __init__(self, environment: Any, max_episode_steps: int) -> None:
        super().__init__(environment)


@pytest.fixture
def registered() -> Iterator[Callable[..., World]]:
    """Yield a function that registers a version of CartPole, and forget it afterwards."""
    vector = gymnasium_stand_in.VECTOR_ENTRY

    def register(entry: Any = gymnasium_stand_in.ENTRY, **options: Any) -> World:
        gym.register("CartPoleOfTest-v0", entry, vector_entry_point=vector, **options)
        return World("CartPoleOfTest-v0")

    yield register
    gym.registry.pop("CartPoleOfTest-v0", None)


def test_another_name_of_the_same_environment_has_the_stand_in(registered: Any) -> None:
    """With a limit of its own, and without one: so episodes end where they do in the list."""
    for limit in (7, None):
        world = registered(max_episode_steps=limit)
        one, other = opened(world, LEAST_SEATS), opened(world, LEAST_SEATS, vector=False)
        assert (type(one), type(other)) == (VectorWorld, ListWorld)
        turn, rng = one.reset(), np.random.default_rng(1)
        assert bits(turn) == bits(other.reset())
        for _ in range(30 if limit else 700):
            row = actions(turn, rng)
            turn = one.step({"policy": row})
            assert bits(turn) == bits(other.step({"policy": row}))
        del gym.registry["CartPoleOfTest-v0"]


@pytest.mark.parametrize(
    "options",
    [
        {"entry": Own},
        {"kwargs": {"sutton_barto_reward": True}},
        {"additional_wrappers": (gym.wrappers.ClipReward.wrapper_spec(min_reward=-1.0),)},
    ],
    ids=["class", "arguments", "wrapper"],
)
def test_a_users_own_environment_steps_as_it_is(registered: Any, options: dict[str, Any]) -> None:
    """Although it names CartPole's vector form."""
    assert type(opened(registered(**options), LEAST_SEATS)) is ListWorld


@pytest.mark.parametrize(
    ("world", "count", "vector"),
    [
        (CARTPOLE, LEAST_SEATS - 1, None),
        (CARTPOLE, LEAST_SEATS, False),
        (World("CartPole-v1", {"sutton_barto_reward": True}), LEAST_SEATS, None),
        (World("CartPole-v1", wrappers=(("ClipReward", {"max_reward": 1.0}),)), LEAST_SEATS, None),
        (World("MountainCar-v0"), LEAST_SEATS, None),
    ],
    ids=["few", "--no-vector", "arguments", "wrappers", "no form"],
)
def test_all_else_is_a_list(world: World, count: int, vector: bool | None) -> None:
    """Arguments, other wrappers, few seats, and worlds without a form that could stand in."""
    assert type(opened(world, count, vector)) is ListWorld


def test_a_users_wrapper_under_a_known_name_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment as it was made decides, not the name of a wrapper."""
    monkeypatch.setitem(gymnasium.WRAPPERS, "TimeLimit", Kicked)
    assert type(opened(CUT, LEAST_SEATS)) is ListWorld


def test_environments_that_a_caller_makes_are_used() -> None:
    """As those that are filmed."""
    assert type(opened(CARTPOLE, LEAST_SEATS, make_one=gymnasium.make)) is ListWorld


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tau", np.nextafter(0.02, 1.0)),
        ("gravity", 9.81),
        ("theta_threshold_radians", 0.2),
        ("x_threshold", 2.5),
        ("force_mag", -10.0),
        ("max_episode_steps", 1),
        ("_sutton_barto_reward", True),
    ],
)
def test_a_form_that_computes_otherwise_is_noticed(name: str, value: Any) -> None:
    """The last bit of a constant is enough."""
    single = gymnasium.make(CARTPOLE)
    form = cartpole.CartPoleVectorEnv(LEAST_SEATS)
    assert steps_alike(form, single, np.random.default_rng(0))
    setattr(form, name, value)
    assert not steps_alike(form, single, np.random.default_rng(0))


class Later(cartpole.CartPoleVectorEnv):
    """CartPole as another version of Gymnasium might compute it."""

    def step(self, action: Any) -> Any:
        self.length = np.nextafter(0.5, 1.0)
        return super().step(action)


def test_single_environments_step_where_the_form_differs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The proof is made at the start, on this machine; the log says it."""
    monkeypatch.setattr(cartpole, "CartPoleVectorEnv", Later)
    with caplog.at_level("INFO"):
        assert type(opened(CARTPOLE, LEAST_SEATS)) is ListWorld
    assert "CartPole-v1 has other numbers here" in caplog.text


def test_a_form_that_breaks_is_made_again() -> None:
    """All seats lose their step, and begin episodes that none of them has had before."""
    problems: list[str] = []
    world = opened(CARTPOLE, LEAST_SEATS, around=around(problems))
    first = world.reset().due["policy"].columns["observations"].copy()
    turn = world.step({"policy": np.full(LEAST_SEATS, 2)})
    outcomes, seen = turn.outcomes["policy"], turn.due["policy"].columns["observations"]
    assert outcomes.lost == list(range(LEAST_SEATS))
    assert not outcomes.ended
    assert not (seen == first).any()
    assert "AssertionError" in problems[0]
    assert not world.step({"policy": np.zeros(LEAST_SEATS, np.int64)}).outcomes["policy"].lost


def test_starts_are_asked_of_a_single_environment() -> None:
    """A stand-in never begins an episode by itself: its own stream is not used."""
    starts = Starts(0, KEY, LEAST_SEATS, lambda: None)
    form = StandIn(gymnasium.make(CARTPOLE), LEAST_SEATS, starts)
    form.reset()
    before = form.vector.np_random.bit_generator.state
    rng = np.random.default_rng(0)
    for _ in range(100):
        form.step(rng.integers(2, size=LEAST_SEATS))
    assert form.vector.np_random.bit_generator.state == before
