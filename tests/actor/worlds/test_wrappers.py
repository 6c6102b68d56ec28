"""Wrappers of ours that a spec may name."""

import pytest

from farflung.actor.worlds import gymnasium
from farflung.common.data.spec import World
from farflung.common.process.errors import ConfigurationError


def test_some_numbers_of_a_vector_are_kept() -> None:
    """CartPole shows its two positions, and its space says so."""
    whole = gymnasium.make(World("CartPole-v1"))
    hidden = gymnasium.make(World("CartPole-v1", {}, (("KeepNumbers", {"indices": [0, 2]}),)))
    seen, shown = (each.reset(seed=3)[0] for each in (whole, hidden))
    assert shown.tolist() == seen[[0, 2]].tolist()
    assert hidden.observation_space.shape == (2,)
    assert hidden.observation_space.contains(shown)
    assert hidden.step(1)[0].tolist() == whole.step(1)[0][[0, 2]].tolist()


@pytest.mark.parametrize(
    ("environment", "indices"), [("CartPole-v1", [4]), ("CartPole-v1", [-1]), ("Taxi-v4", [0])]
)
def test_numbers_that_are_not_there_are_refused(environment: str, indices: list[int]) -> None:
    """The sentence has the space and the indices."""
    world = World(environment, {}, (("KeepNumbers", {"indices": indices}),))
    with pytest.raises(ConfigurationError, match="KeepNumbers takes indices of a vector"):
        gymnasium.make(world)
