"""In turns: actor and learner in one process, over the same bytes, and the same bits every time."""

import time

import numpy as np
import pytest
from support import worlds
from support.learners import a_config, a_learner

from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.worker import Means
from farflung.common.data.version import Version
from farflung.common.protocol.messages import State
from farflung.learner.endpoint.receiver import Receiver
from farflung.learner.schedule import sequential
from farflung.learner.schedule.sequential import LocalCollector, LocalEvaluator, train
from farflung.learner.transport.network_thread import look


class Rounds:
    """A session that goes on until so many steps are in, and keeps what it is shown."""

    def __init__(self, training, steps):
        self.training, self.steps, self.views = training, steps, []

    def goes_on(self, view):
        self.views.append(view)
        return self.training.steps < self.steps


def means(client, environments=1):
    return Means(environments, client.problem, lambda seconds: None, time.monotonic)


def collectors(count, environments=1):
    channels = [PolicyClient("default", f"local-{index}", environments) for index in range(count)]
    return [LocalCollector(client, means(client, environments)) for client in channels]


@pytest.fixture
def play(tmp_path):
    """Plays a small run to its end; gives the learner and what the session saw."""

    def play(steps=40, players=1, name="one", more=(), **changes):
        config = a_config(**changes)
        learner = a_learner(config, tmp_path, name)
        rounds = Rounds(learner.training, steps)
        made = [
            *collectors(players, config.environments),
            *(make(learner.training.spec) for make in more),
        ]
        train(learner.training, rounds, learner.receiver, learner.publisher, made)
        return learner, rounds, made

    return play


def test_one_seed_gives_the_same_bits(play):
    """Two runs with one seed end with the same parameters and returns, to the bit."""
    first, second = (play(name=name, seed=0)[0].training for name in "ab")
    assert first.fingerprint == second.fingerprint
    assert list(first.progress.returns) == list(second.progress.returns)
    assert (
        first.updates == second.updates == 3
    )  # 40 rows, 16 of them warm-up, 1 sample a row, batches of 8


def test_other_seeds_give_other_bits(play):
    """The seed reaches network, environments, exploration and sampling."""
    assert len({play(name=str(seed), seed=seed)[0].training.fingerprint for seed in (0, 1, 2)}) == 3


def test_windows_make_the_steps(play):
    """One actor with one environment and a horizon of 8: 40 steps are 5 rounds, and 20 would be 3."""
    assert play(steps=40)[0].training.steps == 40
    assert play(steps=20, name="two")[0].training.steps == 24


def test_every_parcel_is_acknowledged(play):
    """At the end the actor's books balance, and only the last window waits for its line."""
    learner, _, (player,) = play()
    ledger = player.client.outbox.ledger
    assert ledger.balanced
    assert (ledger.collected.parcels, ledger.acknowledged.parcels, ledger.sent.parcels) == (5, 4, 1)
    assert learner.receiver.inbox.ledger.accepted == 5
    assert learner.receiver.inbox.ledger.balanced


def test_actors_act_on_what_was_published_last(play):
    """Nothing lies between a publication and the turns that follow it: the lag is 0."""
    learner, _, (player,) = play()
    assert player.client.weights.version == learner.training.version == Version(1, 5)
    assert (learner.training.progress.lag.p50, learner.training.progress.lag.p95) == (0, 0)


def test_many_actors_all_take_part(play):
    """Twelve of them, each with its own place; none seems silent although each waits for eleven others."""
    learner, rounds, _ = play(steps=600, players=12)
    assert {(member.index, member.start) for member in learner.receiver.roster} == {
        (index, 0) for index in range(12)
    }
    assert len(rounds.views[-1].actors) == 12
    assert {actor.state for actor in rounds.views[-1].actors} == {"running"}


def test_environments_in_one_actor_are_seats(play):
    """Three environments bring three rows at each step."""
    learner, _, _ = play(steps=48, environments=3)
    assert learner.training.steps == 48
    assert learner.receiver.seen["local-0"].seats == 3


def test_evaluations_come_when_they_are_due(play):
    """Every 16 steps two greedy episodes, which never enter the replay."""

    def an_evaluator(spec):
        client = PolicyClient("default", "evaluator", 2, evaluates=True)
        return LocalEvaluator(client, means(client, 2))

    learner, rounds, _ = play(steps=40, more=[an_evaluator], evaluate_every=16, evaluate_episodes=2)
    progress = learner.training.progress
    assert (progress.steps, progress.evaluation.episodes) == (40, 2)
    assert (
        learner.receiver.inbox.ledger.accepted == 5 + 3
    )  # at 0 or 8, at 16 or 24, and at 32 or 40 steps
    assert {actor.state for actor in rounds.views[-1].actors} == {"running", "evaluating"}


@pytest.mark.slow
def test_what_an_environment_raises_is_shown(play):
    """The problem takes the way of all problems: a report, the gate, the view."""
    worlds.Faulty.counts.clear()
    _, rounds, _ = play(
        steps=60, environment="toys/Faulty-v0", environment_arguments=('{"steps": [5]}',)
    )
    assert any("environment: RuntimeError" in problem for problem in rounds.views[-1].problems)


@pytest.mark.slow
@pytest.mark.parametrize("odd", ["nan", "inf"])
@pytest.mark.parametrize(("seen", "column"), [(False, "rewards"), (True, "observations")])
def test_numbers_that_are_not_finite_are_refused(play, odd, seen, column):
    """An environment's NaN or infinity costs its parcel; it is counted, named on both sides, and no row, return or weight has it."""
    arguments = (f'{{"odd": "{odd}", "seen": {str(seen).lower()}}}',)
    learner, rounds, (player,) = play(
        steps=80, environment="toys/Spoilt-v0", environment_arguments=arguments
    )
    training, ledger = learner.training, learner.receiver.inbox.ledger
    refused = ledger.refused["nonfinite"]
    assert (
        1 <= refused <= 2
    )  # the second: the episode's return, where the episode ends in a later window
    assert dict(rounds.views[-1].refused) == {"nonfinite": refused}
    assert any(
        f"nonfinite: {column} holds NaN or infinity" in problem
        for problem in rounds.views[-1].problems
    )
    assert player.client.outbox.ledger.refused["nonfinite"].parcels == refused
    assert training.steps == 80
    assert np.isfinite(list(training.progress.returns)).all()
    assert training.updates > 0
    assert training.guard.skipped == 0
    assert all(np.isfinite(array).all() for array in training.publish().arrays.values())


def test_seats_are_given_back(play, monkeypatch, tmp_path):
    """Environments are closed however the run ends."""
    learner = a_learner(a_config(), tmp_path)
    closed = []

    class Failing(Rounds):
        def goes_on(self, view):
            if self.training.steps:
                players[0].seats.close = lambda: closed.append(True)
                raise ZeroDivisionError
            return True

    players = collectors(1)
    with pytest.raises(ZeroDivisionError):
        train(
            learner.training,
            Failing(learner.training, 10),
            learner.receiver,
            learner.publisher,
            players,
        )
    assert closed == [True]


def test_the_state_of_the_learner_is_heard(play):
    """Beacons reach the channel: it knows the steps of the whole run."""
    _, _, (player,) = play()
    assert (player.client.steps, player.client.state) == (32, State.RUN)


def test_a_view_needs_no_sockets(play):
    """What a gate knows is shown by the same function as over the network."""
    learner, rounds, _ = play()
    assert isinstance(learner.receiver, Receiver)
    assert rounds.views[-1].received == look(learner.receiver, 0.0).received == 5


def test_played_is_what_a_window_comes_to():
    """Whoever is not interrupted gets the return value of the steps."""

    def steps():
        yield
        yield
        return "parcel"

    assert sequential.played(steps()) == "parcel"


def test_replay_ratio_of_a_run_is_the_one_asked_for(play):
    """Samples per row after 200 steps."""
    learner, *_ = play(steps=200, replay_ratio=2.0)
    assert learner.training.pacing.held == 2.0
