"""A journal of what real actors recorded: all of its episodes, step by step in CartPole."""

from copy import copy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from support.learners import a_config

from farflung.common.data.parcel import Ending
from farflung.common.process.config import Loaded
from farflung.learner import training
from farflung.learner.algorithms.r2d2_settings import R2D2Settings
from farflung.learner.dataset.episodes import Episode
from farflung.learner.dataset.journal_episodes import Damages, episodes
from farflung.learner.endpoint.receiver import Receiver
from farflung.learner.learner import Learner
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.policies import read_spec

RECURRENT = R2D2Settings(units=4, hidden=(4,), burn_in=8)


def played(folder: Path, patch: pytest.MonkeyPatch, **changes: Any) -> list[Any]:
    """Run two actors of three environments in turns; return their parcels as they were received."""
    received, take = list[Any](), Receiver.receive

    def keep(self: Receiver, frame: Any, *arguments: Any) -> Any:
        item = take(self, frame, *arguments)
        if item is not None:
            received.append(copy(item))  # the learner drops the bytes of its own
        return item

    patch.setattr(training, "metrics", lambda folder: StatusSink("metrics", print, 1e9))
    patch.setattr(Receiver, "receive", keep)
    settings = {"actors": 2, "environments": 3, "steps": 1200, "replay_ratio": 0.1}
    config = a_config(**settings, **changes, run_dir=str(folder), name="one")
    assert Learner(Loaded(config, {})).serve() == 0
    return received


def require_true(episode: Episode, world: Any) -> None:
    """Require that each step leads where it leads in CartPole, and ends as it ends there."""
    seen, actions = episode.columns["observations"], episode.columns["actions"]
    assert np.abs(seen[0]).max() <= 0.05  # the beginning of an episode
    for before, action, after in zip(seen[:-1], actions, seen[1:], strict=True):
        world.state, world.steps_beyond_terminated = tuple(map(float, before)), None
        there, _, terminated, *_ = world.step(int(action))
        np.testing.assert_allclose(there, after, atol=1e-5)
    assert terminated == (episode.ending is Ending.TERMINATED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"stack": 2}, {"algorithm": "r2d2", "settings": RECURRENT}],
    ids=["by seats", "by numbers"],
)
def test_every_episode_that_actors_recorded_comes_out_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: Any
) -> None:
    """Windows of eight steps, of which the journal has many segments; some came late."""
    items = played(tmp_path, monkeypatch, **changes)
    items[10:30] = items[29:9:-1]
    run, spec = tmp_path / "one", read_spec(tmp_path / "one")
    journal = Journal(
        run, JournalTotals(spec.run), 1, lambda items: None, durable=False, segment_bytes=1 << 14
    )
    journal.append(items)
    assert journal.drain(10)
    journal.close()

    damages = Damages()
    found = list(episodes(run, spec, damages))
    whole = [episode for episode in found if episode.whole]
    results = sum(len(item.content.results.returns) for item in items)
    assert (sum(episode.steps for episode in found), len(whole)) == (1200, results)
    assert results > 20
    assert len(found) - results == 6  # what each environment was at
    assert damages.count == 0
    world: Any = gymnasium.make("CartPole-v1").unwrapped
    world.reset(seed=0)
    for episode in whole:
        require_true(episode, world)
