"""A learner, a broker and actors on three hosts, with keys."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from farflung.common.net import keys
from farflung.common.net.address import parse_address

pytestmark = [pytest.mark.faults, pytest.mark.slow]

LISTEN = """
import sys, zmq
from farflung.common.net import keys, sockets
from farflung.common.net.address import parse_address
held = keys.client_keys(__import__("pathlib").Path(sys.argv[2])) if len(sys.argv) > 2 else None
address = parse_address(sys.argv[1])
feed = sockets.feed_subscriber(sockets.context(), address, [b""], keys=held)
print(feed.poll(3000), flush=True)
feed.close()
"""  # what a stranger hears: 0 for nothing


@pytest.fixture
def hosts(network):
    """Actors reach the learner only through the broker in the middle."""
    learner, broker, actors = (
        network.host("learner"),
        network.host("broker"),
        network.host("actors"),
    )
    with network.cut(actors, learner), network.cut(learner, actors):
        yield learner, broker, actors


def test_actor_on_a_third_host_trains_through_a_broker_with_keys(hosts, shell, tmp_path):
    """No key, another server's, a revoked one and another's name are refused and hear nothing."""
    at_learner, at_broker, at_actors = hosts
    inner, front, foreign = (tmp_path / name for name in ("inner", "front", "foreign"))
    keys.make(inner, "edge", "broker")
    keys.make(front, "robot")
    keys.make(front, "former")
    (front / "allowed/former.pub").unlink()
    keys.make(foreign)

    flags = (
        "--bind",
        at_learner.address,
        "--keys",
        inner,
        "--name",
        "guarded",
        "--warmup",
        200,
        "--replay-ratio",
        2,
    )
    learner = shell.learner(*flags, port=5555, on=at_learner.words).listens()
    learner.keys = keys.client_keys(inner)
    means = (
        "--bind",
        at_broker.address,
        "--keys",
        front,
        "--upstream-keys",
        inner / "edge.key",
        "--port",
        5555,
    )
    broker = shell.start(*at_broker.words("broker", learner.address, *means))
    broker.says("listening")
    address = parse_address(at_broker.address)

    strangers = {
        "requires a key": shell.actor(address, on=at_actors.words),
        "is not the server": shell.actor(
            address, "--keys", foreign / "actor.key", on=at_actors.words
        ),
        "does not allow the key in": shell.actor(
            address, "--keys", front / "former.key", on=at_actors.words
        ),
    }
    for sentence, actor in strangers.items():
        actor.names(sentence, 77)
    listening = [
        subprocess.run(
            [
                *map(str, at_actors.words(Path(sys.executable).name)),
                "-c",
                LISTEN,
                str(address),
                *key,
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        for key in ([], [str(foreign / "actor.key")], [str(front / "former.key")])
    ]
    assert [one.stdout.strip() for one in listening] == ["0", "0", "0"]
    status = learner.shows(lambda status: True)
    assert (status.received, status.refused, status.actors) == (0, {}, ())

    robot = shell.actor(address, "--keys", front / "robot.key", "--name", "far", on=at_actors.words)
    learner.learns_on()
    assert [actor.name for actor in learner.shows(lambda status: status.actors).actors] == [
        "robot/far"
    ]
    liar = front / "liar.key"
    liar.touch(mode=0o600)
    liar.write_text((front / "actor.key").read_text().replace('label = "actor"', 'label = "robot"'))
    lying = shell.actor(address, "--keys", liar, "--name", "liar", on=at_actors.words)
    broker.says("label: robot/liar, from a key of actor")
    lying.names("does not answer actor robot/liar")
    assert not any(
        actor.name == "robot/liar" for actor in learner.shows(lambda status: True).actors
    )
    for program in (lying, robot, broker, learner):
        program.send(signal.SIGTERM)
        assert program.ended() == 0
