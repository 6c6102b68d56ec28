"""Local actors: their command lines, their number, and those of the sequential mode."""

import threading

import pytest
from support.learner_double import LearnerDouble
from support.learners import a_config, a_learner
from support.sequential import an_evaluator, collectors, play
from support.stamps import a_stamp_spec

from farflung.common.data.spec import Evaluation, World
from farflung.common.net.address import Address
from farflung.common.process.lifecycle import Stop
from farflung.learner.local import actors, processors
from farflung.learner.local.children import Children


def test_local_actors_are_ordinary_ones(tmp_path, monkeypatch):
    """Actors with their environments, and an evaluator with at most 20 seats, use loopback."""
    added = []
    monkeypatch.setattr(
        Children, "add", lambda self, name, command, now: added.append((name, command))
    )
    config = a_config(
        mode="async",
        actors=2,
        environments=3,
        evaluate_every=10,
        evaluate_episodes=30,
        bind="0.0.0.0",
        insecure=True,
    )
    actors.start_local_actors(config, Address("0.0.0.0", 7000, 7001), Children(tmp_path / "logs"))
    assert [name for name, _ in added] == ["local-0", "local-1", "evaluator"]
    first, evaluator = added[0][1], added[-1][1]
    assert "127.0.0.1:7000" in first
    assert first[first.index("--envs") + 1] == "3"
    assert evaluator[evaluator.index("--envs") + 1] == "20"
    assert "--evaluate" in evaluator


def test_actors_auto_is_the_number_of_processors_less_two(monkeypatch):
    """Eight processors make six actors; a number in the settings is used unchanged."""
    monkeypatch.setattr(processors, "usable_processors", lambda: 8)
    assert actors.local_actors(a_config(mode="async", actors="auto")) == 6
    assert actors.local_actors(a_config(actors=3)) == 3
    assert actors.local_actors(a_config(mode="sync", actors="auto", round_actors=4)) == 4


def test_sequential_mode_always_has_an_actor():
    """Without --actors there is one player, and the evaluator has a client of its own."""
    stop = Stop()
    made = actors.sequential_actors(a_config(evaluate_every=10, actors=0), stop)
    stop.close()
    assert [player.client.actor for player in made] == ["local-0", "evaluator"]


def test_sequential_evaluation_is_looked_at_while_it_is_played(tmp_path):
    """Before each step, with the episodes to go: three, then fewer; none of a collector."""
    stop, seen = Stop(), []
    config = a_config(evaluate_every=10_000, evaluate_episodes=3)
    learner = a_learner(config, tmp_path)
    made = actors.sequential_actors(config, stop, lambda left: seen.append(left()))
    play(learner, made, lambda: learner.core.progress.evaluation is not None)
    stop.close()
    assert {0, 3} <= set(seen) <= {0, 1, 2, 3}
    playing = [left for left in seen if left]
    assert playing == sorted(playing, reverse=True)


@pytest.mark.parametrize(
    ("changes", "address", "expected"),
    [
        ({}, Address("10.0.0.1", 5555, 5556), "actor 10.0.0.1:5555"),
        (
            {"policy": "blue"},
            Address("10.0.0.1", 80, 90),
            "actor 10.0.0.1:80 --feed-port 90 --policy blue",
        ),
        (
            {"imports": ("support.worlds",)},
            Address("10.0.0.1", 5555, 5556),
            "actor 10.0.0.1:5555 --import support.worlds",
        ),
    ],
)
def test_join_command_names_all_that_an_actor_cannot_guess(changes, address, expected):
    """The command has a feed port that is not the next one, the policy, and imports."""
    assert actors.join_command(a_config(**changes), address) == expected


def play_evaluator(spec, turns, stop=None):
    """Let an evaluator of this process take turns at a learner; return its results."""
    double = LearnerDouble(spec)
    actor = an_evaluator(2, stop)
    actor.client.ask(0.0)
    for now in range(turns):
        double.send_to(actor.client, float(now))
        actor.turn()
        double.receive_from(actor.client, float(now))
    actor.close()
    return double.parcels


def test_evaluation_whose_episodes_never_end_is_cut():
    """Each of three episodes ends after five steps, with the return up to there."""
    world = World("toys/Endless-v0")
    spec = a_stamp_spec(policy="default", world=world, evaluation=Evaluation(1, 3, 5))
    [parcel] = play_evaluator(spec, 3)
    assert parcel.results.lengths.tolist() == [5, 5, 5]


def test_signal_ends_an_evaluation_of_the_sequential_mode():
    """Within a turn no time passes, so the evaluator looks for the signal at each step."""
    world = World("toys/Endless-v0")
    spec = a_stamp_spec(policy="default", world=world, evaluation=Evaluation(1, 3, 1 << 50))
    stop = Stop()
    timer = threading.Timer(0.5, stop.set, ["SIGTERM"])
    timer.start()
    assert play_evaluator(spec, 3, stop) == []
    timer.join()
    stop.close()


@pytest.fixture
def double():
    """Return a learner that requires an evaluation every step."""
    return LearnerDouble(a_stamp_spec(policy="default", evaluation=Evaluation(1, 2)))


def test_local_actor_plays_one_window_a_turn(double):
    """The actor plays nothing before it has a snapshot, then one window a turn."""
    (actor,) = collectors(1, 3)
    actor.client.ask(0.0)
    actor.turn()
    assert actor.client.outbox.idle
    for now in (0.0, 1.0):
        double.send_to(actor.client, now)
        actor.turn()
        double.receive_from(actor.client, now)
    actor.close()
    assert [parcel.rows for parcel in double.parcels] == [12, 12]
    assert actor.client.work.steps == 24


def test_local_evaluator_plays_when_episodes_are_due(double):
    """A turn without enough steps since the last evaluation does nothing."""
    actor = an_evaluator(2)
    actor.client.ask(0.0)
    for now in (0.0, 1.0, 2.0):
        double.send_to(actor.client, now)
        actor.turn()
        double.receive_from(actor.client, now)
    actor.close()
    assert [(p.rows, len(p.results.returns), p.evaluation) for p in double.parcels] == [
        (0, 2, True)
    ]


def test_a_learner_among_others_starts_no_evaluator(tmp_path):
    """One actor with --evaluate plays for all policies; the sentence says so."""
    config = a_config(mode="async", evaluate_every=10, policies="auto", policy="red")
    children = Children(tmp_path / "logs")
    actors.start_local_actors(config, Address("127.0.0.1", 1, 2), children)
    assert children.all == []
    assert "for all policies" in actors.evaluations(config)


def test_actors_of_a_team_join_its_first_policy():
    """Also where rounds wait for actors that the team starts."""
    config = a_config(mode="sync", actors=2, policies="auto")
    said = actors.join_command(config, Address("127.0.0.1", 7000, 7001), "red")
    assert said == "actor 127.0.0.1:7000 --policy red"
