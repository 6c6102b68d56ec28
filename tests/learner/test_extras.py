"""Extra columns travel from the head, the graph and the world to the loss, over real sockets."""

import threading
import time

import numpy as np
import pytest
from support.extras import Asking
from support.learners import a_config

from farflung.actor.connection.inline import InlineConnection
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.actor.loop import ActorLoop
from farflung.actor.rules import Rules
from farflung.actor.worlds.families import opener
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.spec import ACTION_MASK, Column
from farflung.common.net import sockets
from farflung.common.process.config import Loaded
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.learner import learner, training
from farflung.learner.algorithms.dqn import DQN
from farflung.learner.config import LearnerConfig
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.policies.exporting import open_source, to_onnx
from farflung.learner.storage.policies import read_spec


@pytest.fixture
def batches(monkeypatch):
    """The batches of the algorithm, in order."""
    monkeypatch.setattr(Asking, "batches", [])
    return Asking.batches


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a learner to its end, with the actor that `act` starts beside it."""
    monkeypatch.setattr(
        training, "metrics", lambda folder: StatusSink("metrics", lambda status: None, 1.0)
    )

    def run(**changes):
        fixed = {
            "run_dir": str(tmp_path),
            "name": "one",
            "environment": "toys/Marked-v0",
            "algorithm": "support.extras:Asking",
            "exploration_start": 1.0,
            "exploration_end": 1.0,
        }
        return learner.Learner(Loaded(a_config(**{**fixed, **changes}), {})).serve()

    return run


@pytest.fixture
def acting(monkeypatch):
    """Lets an actor of this process, in a thread, take the place of the children."""
    threads = []

    def act(address):
        stop, client = Stop(), PolicyClient("default", "near", 2)
        around = Surroundings(client.problem, stop.wait, time.monotonic)
        with sockets.context() as context:
            near = InlineConnection(client, Sockets(context, address, client))
            who, watchdog = Who("actor", "near"), Watchdog(0.0)
            ActorLoop(near, opener(2, around), Rules(once=True), stop, watchdog, who).run()
            near.close("over", 1.0)
        stop.close()

    def begin(config, address, children):
        threads.append(threading.Thread(target=act, args=(address,)))
        threads[-1].start()

    monkeypatch.setattr(learner, "start_local_actors", begin)
    yield
    for thread in threads:
        thread.join()


def require_exact(batch) -> None:
    """All that a row says of its place says the same."""
    stamps, later = batch.observations[""], batch.next_observations[""]
    np.testing.assert_allclose(batch["log_probability"], np.log(0.25), rtol=1e-6)
    for columns, seen in ((batch.columns, stamps), (batch.next_columns, later)):
        np.testing.assert_array_equal(columns["info.mark"], seen[:, 1:])
        np.testing.assert_array_equal(columns["when"], 2 * seen[:, 2])
    begun = batch["since"] / 3
    assert (begun <= stamps[:, 2]).all()
    assert (stamps[:, 2] - begun < 8).all()  # the horizon
    assert (begun == begun.round()).all()


@pytest.mark.slow
@pytest.mark.usefixtures("acting")
def test_extra_columns_reach_the_loss_over_sockets_and_after_resume(run, batches, tmp_path):
    """Per step, per observation and per trajectory; also those that come back from the journal."""
    assert run(mode="async", port=0, steps=200, environments=2) == 0
    before = len(batches)
    assert before > 10
    folder = str(tmp_path / "one")
    assert run(mode="async", port=0, steps=400, environments=2, resume=folder) == 0
    assert len(batches) > before + 10
    lives = [{*batch.observations[""][:, 0].tolist()} for batch in batches]
    assert lives[0] & lives[before]  # rows of the first actor, out of the journal
    for batch in batches:
        require_exact(batch)
    trajectories = np.concatenate([batch["since"] for batch in batches])
    assert (trajectories > 0).any()  # those that begin within an episode


def test_extra_columns_reach_the_loss_in_turns(run, batches):
    """The sequential mode records them alike."""
    assert run(steps=80) == 0
    assert batches
    for batch in batches:
        require_exact(batch)


def test_a_column_that_the_world_does_not_supply_is_named(run):
    """An environment that leaves it out of its info ends the actor in a sentence."""
    with pytest.raises(
        Exception, match=r"asks for the column info.mark, and nothing supplies it: the world"
    ):
        run(steps=80, environment_arguments=('{"forgets": true}',))


def require_gates(batch) -> None:
    """Masks are those of the steps, and allow nothing at the end of an episode."""
    for columns, seen in (
        (batch.columns, batch.observations[""]),
        (batch.next_columns, batch.next_observations[""]),
    ):
        masks, steps = columns[ACTION_MASK], seen[:, 2].astype(int)
        legal = np.stack([np.isin(np.arange(4), (step + np.arange(2)) % 4) for step in steps])
        assert ((masks == legal).all(axis=1) | ~masks.any(axis=1)).all()
    assert batch.columns[ACTION_MASK].any(axis=1).all()
    assert np.take_along_axis(batch.columns[ACTION_MASK], batch.actions[:, None], 1).all()


@pytest.mark.slow
@pytest.mark.usefixtures("acting")
def test_masks_reach_the_loss_over_sockets_and_after_resume(run, monkeypatch, tmp_path):
    """No algorithm asks for them: the world has them. Illegal actions would raise in it."""
    batches = []
    gradients = DQN.gradients
    monkeypatch.setattr(DQN, "gradients", lambda self, b: batches.append(b) or gradients(self, b))
    gates = {"mode": "async", "port": 0, "algorithm": "dqn", "environment": "toys/Gates-v0"}
    folder = tmp_path / "one"
    assert run(**gates, steps=200, environments=2) == 0
    before = len(batches)
    assert before > 10
    assert run(**gates, steps=400, environments=2, resume=str(folder)) == 0
    assert len(batches) > before + 10
    for batch in batches:
        require_gates(batch)
    proven = to_onnx(open_source(folder, ""), tmp_path / "gates.onnx")
    assert proven.recorded > 100
    assert read_spec(folder).mask == Column(ACTION_MASK, "bool", (4,), "observation")
    assert "is not one of the actions" not in (folder / "logs" / "learner.log").read_text()
    with pytest.raises(
        ConfigurationError, match=r"columns \[\], and .* has \['info.action_mask'\]"
    ):
        run(**gates, steps=500, resume=str(folder), action_mask=False)


@pytest.mark.slow
@pytest.mark.usefixtures("acting")
def test_a_run_without_masks_goes_on_without_them(run, tmp_path):
    """As one of an older release does, although its world has them."""
    blind = {"mode": "async", "port": 0, "algorithm": "dqn", "environment": "Taxi-v4"}
    assert run(**blind, steps=40, action_mask=False) == 0
    assert read_spec(tmp_path / "one").mask is None
    assert run(**blind, steps=80, resume=str(tmp_path / "one")) == 0
    assert read_spec(tmp_path / "one").mask is None


@pytest.mark.slow
@pytest.mark.usefixtures("acting")
def test_a_run_goes_on_with_the_columns_that_it_began_with(run, tmp_path):
    """Its journal has those and no others."""
    assert run(mode="async", port=0, steps=40, algorithm="dqn") == 0
    with pytest.raises(ConfigurationError, match=r"asks for the extra columns .*'when'.* has \[\]"):
        run(mode="async", port=0, steps=80, resume=str(tmp_path / "one"))


@pytest.mark.slow
@pytest.mark.usefixtures("acting")
def test_a_run_of_an_older_release_goes_on_without_metrics(run, tmp_path, monkeypatch):
    """Its journal has no columns for them, and its actors learn none; to ask for one is refused."""
    plain = {"mode": "async", "port": 0, "algorithm": "dqn", "resume": str(tmp_path / "one")}
    with monkeypatch.context() as older:
        older.setattr(LearnerConfig, "reported", ())
        assert run(steps=40, **(plain | {"resume": ""})) == 0
    assert read_spec(tmp_path / "one").extras == ()
    for asked in ({"metrics": ("grip",)}, {"until": "success_rate > 0.5"}):
        with pytest.raises(ConfigurationError, match="began without the metric"):
            run(steps=80, **plain, **asked)
    assert run(steps=80, **plain) == 0
    assert read_spec(tmp_path / "one").extras == ()
