"""A long run against a pool: an archived version stays as it was, and the pool within its bound."""

import numpy as np
import pytest
from support import games
from support.learners import shared_graphs

import farflung
from farflung.learner.api.train import train
from farflung.learner.selfplay import report
from farflung.learner.selfplay.pooling import Pooling
from farflung.learner.storage import archive

pytestmark = pytest.mark.slow

MOST = 5  # archived versions
SMALL = {
    "env": "examples/tictactoe_v0",
    "mode": "sequential",
    "envs": 4,
    "horizon": 8,
    "warmup": 32,
    "batch_size": 8,
    "replay_ratio": 64.0,
    "capacity": 500,
    "publish_every": 25,
    "checkpoint_every": 0.0,
    "evaluate_every": 0,
    "dqn": {"hidden": [8]},
    "archive_every": "250 updates",
    "archive_most": MOST,
    "pool": ("random=1", "win_or_block=1", "archive=2"),
}


def positions(count):
    """Return observations and masks of players to move, in games of random moves."""
    world, random, found = games.load("tictactoe").env(), np.random.default_rng(0), []
    while len(found) < count:
        world.reset(seed=0)
        for agent in world.agent_iter():
            seen, _, terminated, truncated, _ = world.last()
            if terminated or truncated:
                break
            found.append((seen["observation"], seen["action_mask"].astype(bool)))
            world.step(games.any_legal(*world.observe(agent).values(), random))
    seen, masks = zip(*found, strict=True)
    return np.stack(seen), np.stack(masks)


class First(farflung.Callback):
    """The first archived version: its file and its play as soon as it is there, and at the end."""

    def __init__(self, further):
        self.further, self.at_first, self.updates = further, None, 0
        self._positions = positions(300)

    def on_publication(self, view):
        """Look at the version once it is there, and end the run after so many further updates."""
        index = archive.read(view.folder)
        if index and self.at_first is None:
            self.at_first, self.updates = self.look(view.folder), view.updates
        if self.at_first is not None and view.updates >= self.updates + self.further:
            view.stop("it is long enough")

    def look(self, run):
        """Return the version, the bytes and the facts of its file, and its actions."""
        version = archive.read(run)[0].version
        path = archive.folder(run) / str(version)
        facts = path.stat()
        observations, masks = self._positions
        actions = farflung.load(f"{run}@{version}").act(observations, mask=masks)
        return version, path.read_bytes(), facts.st_ino, facts.st_mtime_ns, actions.tolist()


@pytest.mark.parametrize("further", [4_000, pytest.param(10_000, marks=pytest.mark.faults)])
def test_first_version_is_unchanged_by_further_updates(tmp_path, monkeypatch, further):
    """Its bytes and its play; no pool has more than the named opponents and the archive's most."""
    sizes, made = [], Pooling.pool

    def counted(pooling):
        pool = made(pooling)
        sizes.append((len(pool), len(pool.versions)))
        return pool

    monkeypatch.setattr(Pooling, "pool", counted)
    first = First(further)
    with shared_graphs():
        result = train((first,), {**SMALL, "run_dir": tmp_path})
    assert result.updates >= first.updates + further
    assert first.look(result.folder) == first.at_first
    newest = farflung.load(result.folder).act(first._positions[0], mask=first._positions[1])
    assert newest.tolist() != first.at_first[-1]  # the live policy plays otherwise by now
    assert max(sizes) == (2 + MOST - 2, MOST - 2)  # without the two that go next
    found = report.read(result.folder)
    assert len(found.archived) == MOST
    assert found.archived[-1].number > further // 500 > MOST
    assert found.standings.played == found.episodes > further // 100
    assert list(archive.problems(result.folder)) == []
