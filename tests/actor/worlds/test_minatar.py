"""The games of MinAtar as environments, and the sentence where it is missing."""

import sys

import numpy as np
import pytest

from farflung.actor.worlds.gymnasium import describe, make
from farflung.actor.worlds.gymnasium_minatar import GAMES
from farflung.common.data.seeds import generator
from farflung.common.data.spec import Space, World
from farflung.common.process.errors import ConfigurationError


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that brings it; no --import is needed."""
    monkeypatch.setitem(sys.modules, "minatar", None)
    says = r"Breakout-v0 needs a package .*: pip install 'farflung\[minatar\]'$"
    with pytest.raises(ConfigurationError, match=says):
        make(World("MinAtar/Breakout-v0"))


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_games_are_grids_of_bits(game: str) -> None:
    """Ten by ten cells, a plane for each kind of object, and all six actions."""
    minatar = pytest.importorskip("minatar")
    found = describe(World(f"MinAtar/{game}-v0"))
    planes = minatar.Environment(GAMES[game]).state_shape()[2]
    assert found.observation == {"": Space("box", "bool", (10, 10, planes))}
    assert found.action == Space("discrete", "int64", (), (6,))


@pytest.mark.slow
def test_the_stream_of_an_episode_says_all_of_its_chance() -> None:
    """The same stream is the same episode, also after others; another stream is another one."""
    pytest.importorskip("minatar")
    environment = make(World("MinAtar/Asterix-v0"))
    environment.reset(seed=1)

    def episode(number: int) -> list[np.ndarray]:
        environment.unwrapped.np_random = generator(0, number)
        seen = [environment.reset()[0].copy()]
        for step in range(60):
            observation, _, terminated, _, _ = environment.step(step % 6)
            seen.append(observation.copy())
            if terminated:
                break
        return seen

    first, other, again = episode(5), episode(6), episode(5)
    assert len(first) == len(again)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert len(first) != len(other) or any(
        (a != b).any() for a, b in zip(first, other, strict=True)
    )
