"""The store: its size in memory, and the number of its frames."""

import psutil
import pytest
from support.replays import make_spec

from farflung.common.data.spec import Space
from farflung.common.process.errors import ConfigurationError
from farflung.learner.replay.rows.transitions import Transitions
from farflung.learner.replay.store import Store, frames_for

IMAGE, VECTOR = 84 * 84, 16  # bytes


def test_store_refuses_at_the_start_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store larger than the free memory names its size and the flag that makes it smaller."""
    images = make_spec(32, 4, observation={"": Space("box", "uint8", (84, 84))})
    layout = Transitions(images, n_step=1, gamma=0.5).layout
    monkeypatch.setattr(
        psutil, "virtual_memory", lambda: type("Memory", (), {"available": 2**30})()
    )
    expected = (
        r"1,000,000 rows x 32 bytes \+ 1,250,000 frames x 7,056 bytes = 8\.24 GiB, "
        r"but 1\.00 GiB are free: lower --capacity"
    )
    with pytest.raises(ConfigurationError, match=expected):
        Store(images, layout, 1_000_000, 1_000_000)
    assert (
        Store(images, layout, 1000, 1000).memory
        == "1,000 rows x 32 bytes + 1,250 frames x 7,056 bytes = 0.01 GiB"
    )


@pytest.mark.parametrize(
    ("steps", "stack", "horizon", "size", "expected"),
    [
        (100, 1, 1, IMAGE, 200),
        (100, 4, 1, IMAGE, 500),
        (1000, 1, 32, IMAGE, 1063),
        (1000, 4, 32, IMAGE, 1250),
        (1, 4, 50, IMAGE, 54),
        (1000, 1, 32, VECTOR, 2000),
        (1000, 4, 32, VECTOR, 5000),
        (1, 4, 50, VECTOR, 54),
    ],
)
def test_store_reserves_frames_for_its_rows(
    steps: int, stack: int, horizon: int, size: int, expected: int
) -> None:
    """Images have room for two trajectories a window, small frames for one-step episodes.

    A window of one step holds one trajectory. There is always room for one whole trajectory.
    """
    assert frames_for(steps, stack, horizon, size) == expected
