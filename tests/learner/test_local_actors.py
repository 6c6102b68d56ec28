"""The actors that a learner brings along."""

import pytest
from support.learners import a_config

from farflung.common.net.address import Address
from farflung.common.process.lifecycle import Stop
from farflung.learner import local_actors, processors
from farflung.learner.children import Children


def test_local_actors_are_ordinary_ones(tmp_path, monkeypatch):
    """So many with their environments, and an evaluator with a seat for each episode up to twenty, all over loopback."""
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
    local_actors.start_local_actors(
        config, Address("0.0.0.0", 7000, 7001), Children(tmp_path / "logs")
    )
    assert [name for name, _ in added] == ["local-0", "local-1", "evaluator"]
    first, evaluator = added[0][1], added[-1][1]
    assert "127.0.0.1:7000" in first
    assert first[first.index("--envs") + 1] == "3"
    assert evaluator[evaluator.index("--envs") + 1] == "20"
    assert "--evaluate" in evaluator


def test_auto_is_as_many_as_there_are_processors_less_two(monkeypatch):
    """Of eight, six; where a number is given, that."""
    monkeypatch.setattr(processors, "usable_processors", lambda: 8)
    assert processors.local_actors(a_config(mode="async", actors="auto")) == 6
    assert processors.local_actors(a_config(actors=3)) == 3


def test_sequential_mode_always_has_an_actor():
    """Without --actors one plays; the evaluator has a client of its own."""
    stop = Stop()
    made = local_actors.players(a_config(evaluate_every=10, actors=0), stop)
    stop.close()
    assert [player.client.actor for player in made] == ["local-0", "evaluator"]


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
    """Ports that do not follow each other, a policy of another name, packages that register the environment."""
    assert local_actors.join_command(a_config(**changes), address) == expected
