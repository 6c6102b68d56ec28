"""Games of Atari as actors play them, beside Gymnasium's own wrappers."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from msgspec.structs import replace
from support.playing import Parrot, Wheel, a_version, playing, spec_of, window

from farflung.actor.play import Player
from farflung.actor.worlds.gymnasium import capped, make, make_vector
from farflung.actor.worlds.gymnasium_wrappers import atari
from farflung.common.data.seeds import generator, number
from farflung.common.data.spec import World
from farflung.common.process.errors import ConfigurationError

GAME = "ALE/Breakout-v5"
LOST = World(GAME, wrappers=(("atari", {"terminal_on_life_loss": True}),))
STEPS = 600


@pytest.fixture
def games() -> Iterator[None]:
    """The games of ale-py are registered, and not for other tests."""
    before = set(gymnasium.registry)
    pytest.importorskip("cv2")
    ale = pytest.importorskip("ale_py")
    if GAME not in gymnasium.registry:  # an earlier test imported the package
        ale.registration.register_v5_envs()
    yield
    for name in set(gymnasium.registry) - before:
        del gymnasium.registry[name]


def gymnasiums_own() -> Iterator[tuple[np.ndarray, float, bool]]:
    """Yield the stack [4, 84, 84] uint8 before each step, its reward, and if it ended the game."""
    game = AtariPreprocessing(gymnasium.make(GAME, frameskip=1))
    environment = FrameStackObservation(game, 4, padding_type="reset")
    actions = (turn % 4 for turn in count(1))
    for episode in count():
        path = ("environment", "actor", 0, 0, 0, episode)
        if episode == 0:
            seen, _ = environment.reset(seed=number(0, *path))
        else:
            environment.unwrapped.np_random = generator(0, *path)
            seen, _ = environment.reset()
        over = False
        while not over:
            before = np.array(seen)
            seen, reward, terminated, truncated, _ = environment.step(next(actions))
            over = terminated or truncated
            yield before, reward, over


@pytest.mark.slow
@pytest.mark.usefixtures("games")
def test_stacks_and_rewards_are_those_of_gymnasium() -> None:
    """Step by step, with no-op starts, sticky actions, skipped frames and the ends of games."""
    spec = spec_of(World(GAME, wrappers=(("atari", {}),)), horizon=STEPS, stack=4)
    policy = Parrot()
    play = playing(spec, 1, Player(spec, 1, policy, Wheel()))
    parcels = window(play, a_version(1))
    rewards = np.concatenate([parcel.columns["rewards"] for parcel in parcels])
    ends = 0
    for step, (stack, reward, over) in zip(range(STEPS), gymnasiums_own(), strict=False):
        np.testing.assert_array_equal(policy.shown[step][0], stack, err_msg=f"step {step}")
        assert rewards[step] == reward
        ends += over
    assert ends > 1  # several games, or it shows little
    assert sum(len(parcel.results.returns) for parcel in parcels) == ends


class Emulator:
    """A game of three lives, of which one is lost with every second frame."""

    def __init__(self) -> None:
        self.left = 3

    def lives(self) -> int:
        """Return the lives that are left."""
        return self.left


class Game(gymnasium.Env):
    """A game as the preprocessing shows it: a reward with each step."""

    observation_space = gymnasium.spaces.Discrete(100)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self) -> None:
        self.ale, self.frame, self.games = Emulator(), 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """Begin a game."""
        self.ale.left, self.frame = 3, 0
        self.games += 1
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Show the next frame."""
        self.frame += 1
        self.ale.left = 3 - self.frame // 2
        return self.frame, 5.0, self.ale.left == 0, False, {}


def test_a_game_goes_on_after_a_lost_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes are lives; the score is that of the game, frames between lives included."""
    monkeypatch.setattr(gymnasium.wrappers, "AtariPreprocessing", lambda game: game)
    game = Game()
    lives = atari(game, terminal_on_life_loss=True)
    assert lives.reset(seed=1)[0] == 0
    assert lives.step(1) == (1, 5.0, False, False, {})
    assert lives.step(1) == (2, 5.0, True, False, {})  # the first life is lost
    assert lives.reset() == (3, {})  # by an action without effect
    assert lives.step(1) == (4, 5.0, True, False, {})
    assert lives.reset()[0] == 5
    assert lives.step(1) == (6, 5.0, True, False, {"score": 30.0})
    assert game.games == 1
    assert lives.reset()[0] == 0
    assert game.games == 2
    lives.step(1)
    assert lives.reset(seed=3)[0] == 0  # a seed begins anew, whatever is left
    assert game.games == 3


def test_evaluations_play_whole_games() -> None:
    """A flag for learning is not one for them; other arguments stay."""
    options = {"terminal_on_life_loss": True, "noop_max": 7}
    world = World(GAME, wrappers=(("atari", options),))
    shown = capped(replace(spec_of(World("CartPole-v1")), world=world))
    (name, found), (cap, _) = shown.world.wrappers
    assert (name, found) == ("atari", {"terminal_on_life_loss": False, "noop_max": 7})
    assert cap == "TimeLimit"


@pytest.mark.slow
@pytest.mark.usefixtures("games")
def test_lives_of_a_real_game() -> None:
    """Breakout has five: four episodes end without a score, the fifth with one."""
    environment = make(LOST)
    environment.reset(seed=1)
    scores, total = [], 0.0
    for step in range(3000):
        _, reward, terminated, truncated, info = environment.step(step % 4)
        total += reward
        if terminated or truncated:
            scores.append(info.get("score"))
            if "score" in info:
                break
            environment.reset()
    assert scores[:-1] == [None] * 4
    assert scores[-1] >= total


@pytest.mark.slow
@pytest.mark.usefixtures("games")
def test_ales_own_vector_environment_has_the_same_frames_and_rewards() -> None:
    """Both games are those that single environments play from the same start; no-op starts differ
    in their number, so both begin without.
    """
    world = World(GAME, {"repeat_action_probability": 0.0}, (("atari", {"noop_max": 0}),))
    several, single = make_vector(spec_of(world), 2), make(world)
    assert several.single_observation_space == single.observation_space
    frames, _ = several.reset(seed=1)
    frame, _ = single.reset(seed=1)
    over, step = False, 0
    while not over:
        np.testing.assert_array_equal(frames, [frame, frame], err_msg=f"step {step}")
        frame, reward, over, _, _ = single.step(step % 4)
        frames, rewards, ended, _, _ = several.step(np.array([step % 4] * 2))
        assert rewards.tolist() == [reward] * 2
        assert ended.tolist() == [over] * 2
        step += 1
    assert step > 100
    several.close()


@pytest.mark.slow
@pytest.mark.usefixtures("games")
def test_the_vector_environment_is_refused_where_it_would_differ() -> None:
    """It has no such episodes of one life, and no other wrappers."""
    with pytest.raises(ConfigurationError, match="leave --vector out"):
        make_vector(spec_of(LOST), 2)
