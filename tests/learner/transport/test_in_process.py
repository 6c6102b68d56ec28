"""Actors and learner in one process, over the same bytes as over a network."""

from unittest.mock import MagicMock

import numpy as np
import pytest
from support import worlds
from support.learners import a_config, a_learner
from support.sequential import an_evaluator, collectors, play

from farflung.common.data.weights import Version
from farflung.common.protocol.messages import State
from farflung.learner.transport.in_process import InProcess


@pytest.fixture
def run(tmp_path):
    """Plays a small run to its end; returns the learner, its supervisor and its players."""

    def run(steps=40, players=1, name="one", more=(), **changes):
        config = a_config(**changes)
        learner = a_learner(config, tmp_path, name)
        made = [*collectors(players, config.environments), *more]
        supervisor = play(learner, made, lambda: learner.core.state.steps >= steps)
        return learner, supervisor, made

    return run


def test_sequential_run_repeats_to_the_bit(run):
    """Two runs with one seed end with the same parameters and returns."""
    first, second = (run(name=name, seed=0)[0].core for name in "ab")
    assert first.fingerprint == second.fingerprint
    assert list(first.progress.returns) == list(second.progress.returns)
    # 40 rows, 16 of them warm-up, 1 sample a row, batches of 8.
    assert first.state.updates == second.state.updates == 3


def test_sequential_run_differs_by_seed(run):
    """The seed reaches network, environments, exploration and sampling."""
    prints = {run(name=str(seed), seed=seed)[0].core.fingerprint for seed in (0, 1, 2)}
    assert len(prints) == 3


def test_sequential_run_ends_after_whole_rounds(run):
    """One environment and a horizon of 8: 40 steps are 5 rounds, and 20 would be 3."""
    assert run(steps=40)[0].core.state.steps == 40
    assert run(steps=20, name="two")[0].core.state.steps == 24


def test_in_process_transport_acknowledges_every_parcel(run):
    """At the end the actor's books balance, and only the last window waits for its line."""
    learner, _, (player,) = run()
    ledger = player.client.outbox.ledger
    assert ledger.balanced
    assert (ledger.collected.parcels, ledger.acknowledged.parcels, ledger.sent.parcels) == (5, 4, 1)
    assert learner.endpoint.receiver.inbox.ledger.accepted == 5
    assert learner.endpoint.receiver.inbox.ledger.balanced


def test_in_process_actors_act_on_the_newest_version(run):
    """Nothing lies between a publication and the turns that follow it: the lag is 0."""
    learner, _, (player,) = run()
    assert player.client.weights.version == learner.core.state.version == Version(1, 5)
    assert (learner.core.progress.lag.p50, learner.core.progress.lag.p95) == (0, 0)


def test_in_process_actors_all_take_part(run):
    """Twelve, each with its own place; none seems silent although each waits for eleven others."""
    learner, supervisor, _ = run(steps=600, players=12)
    places = {(member.index, member.start) for member in learner.endpoint.receiver.roster}
    assert places == {(index, 0) for index in range(12)}
    actors = supervisor.statuses[-1].actors
    assert len(actors) == 12
    assert {actor.state for actor in actors} == {"running"}


def test_in_process_environments_are_seats(run):
    """Three environments bring three rows at each step."""
    learner, _, _ = run(steps=48, environments=3)
    assert learner.core.state.steps == 48
    assert learner.endpoint.receiver.seen["local-0"].seats == 3


def test_in_process_evaluator_plays_when_it_is_due(run):
    """Every 16 steps two greedy episodes, which never enter the replay."""
    learner, supervisor, _ = run(
        steps=40, more=[an_evaluator(2)], evaluate_every=16, evaluate_episodes=2
    )
    core = learner.core
    assert (core.state.steps, core.progress.evaluation.episodes) == (40, 2)
    # Evaluations at 0 or 8, at 16 or 24, and at 32 or 40 steps.
    assert learner.endpoint.receiver.inbox.ledger.accepted == 5 + 3
    assert {actor.state for actor in supervisor.statuses[-1].actors} == {"running", "evaluating"}


def test_replay_ratio_of_a_run_is_the_one_asked_for(run):
    """Samples per row after 200 steps."""
    assert run(steps=200, replay_ratio=2.0)[0].core.pacing.held == 2.0


def test_in_process_clients_receive_beacons(run):
    """A client knows the steps of the whole run."""
    _, _, (player,) = run()
    assert (player.client.steps, player.client.state) == (32, State.RUN)


def test_in_process_view_counts_what_was_received(run):
    """The view is the same as over the network."""
    assert run()[1].statuses[-1].received == 5


@pytest.mark.slow
def test_in_process_view_shows_what_an_environment_raises(run):
    """The problem travels in a report, as over the network."""
    worlds.Faulty.counts.clear()
    _, supervisor, _ = run(
        steps=60, environment="toys/Faulty-v0", environment_arguments=('{"steps": [5]}',)
    )
    problems = supervisor.statuses[-1].problems
    assert any("environment: RuntimeError" in problem for problem in problems)


@pytest.mark.slow
@pytest.mark.parametrize("odd", ["nan", "inf"])
@pytest.mark.parametrize(("seen", "column"), [(False, "rewards"), (True, "observations")])
def test_receiver_refuses_numbers_that_are_not_finite(run, odd, seen, column):
    """NaN or infinity costs its parcel; it is named on both sides, and no row or weight has it."""
    arguments = (f'{{"odd": "{odd}", "seen": {str(seen).lower()}}}',)
    learner, supervisor, (player,) = run(
        steps=80, environment="toys/Spoilt-v0", environment_arguments=arguments
    )
    core, ledger = learner.core, learner.endpoint.receiver.inbox.ledger
    refused = ledger.refused["nonfinite"]
    assert 1 <= refused <= 2  # the second: the episode's return, if it ends in a later window
    view = supervisor.statuses[-1]
    assert dict(view.refused) == {"nonfinite": refused}
    assert any(f"nonfinite: {column} holds NaN or infinity" in problem for problem in view.problems)
    assert player.client.outbox.ledger.refused["nonfinite"].parcels == refused
    assert core.state.steps == 80
    assert np.isfinite(list(core.progress.returns)).all()
    assert core.state.updates > 0
    assert core.guard.skipped == 0
    assert all(np.isfinite(array).all() for array in core.publish().arrays.values())


class Closing:
    """A player that counts its closes, and may fail in the first."""

    def __init__(self, *, fails: bool = False) -> None:
        self.clients = [MagicMock()]
        self.closes = 0
        self._fails = fails

    def close(self):
        self.closes += 1
        if self._fails:
            raise ZeroDivisionError


def test_in_process_transport_closes_each_player_once_however_often_it_is_closed():
    """A player that fails to close is not closed again; a second call closes the other one."""
    players = [Closing(), Closing(fails=True)]
    transport = InProcess(MagicMock(), players)
    with pytest.raises(ZeroDivisionError):
        transport.close()
    transport.close()
    transport.close()
    assert [player.closes for player in players] == [1, 1]
    transport.wait()


def test_in_process_transport_closes_environments_after_an_error(tmp_path):
    """Environments are closed however the run ends."""
    learner = a_learner(a_config(environment="toys/Faulty-v0"), tmp_path)

    def fail():
        if learner.core.state.steps:
            worlds.Faulty.counts.clear()
            raise ZeroDivisionError
        return False

    with pytest.raises(ZeroDivisionError):
        play(learner, collectors(1), fail)
    assert worlds.Faulty.counts == {"closes": 1}
