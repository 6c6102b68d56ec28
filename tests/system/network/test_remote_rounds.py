"""Rounds with actors on two hosts, behind a broker on a third one."""

import pytest
from support.rounds import figures, in_one_process, in_rounds

from farflung.common.net.address import parse_address

pytestmark = [pytest.mark.faults, pytest.mark.slow]

FLAGS = ("--env", "CartPole-v1", "--steps", 3000, "--seed", 0, "--replay-ratio", 8)
FLAGS += ("--warmup", 400)
ACTORS = 4


def test_actors_on_two_hosts_behind_a_broker_play_the_bits_of_one_process(whole_network, shell):
    """Two on each host. They know the address of the broker, and not that of the learner."""
    near, between = whole_network.host("learner"), whole_network.host("broker")
    one = in_one_process(shell, ACTORS, *FLAGS)
    where = ("--bind", near.address, "--insecure")
    learner = in_rounds(shell, ACTORS, *FLAGS, *where, port=5555, on=near.words)
    where = ("--bind", between.address, "--insecure", "--port", 5555)
    broker = shell.start(*between.words("broker", learner.address, *where))
    broker.says("listening")
    hosts = [whole_network.host(f"actor{number}") for number in range(2)]
    for number in range(ACTORS):
        far = hosts[number % 2]
        shell.actor(parse_address(between.address), "--name", f"robot-{number}", on=far.words)
    assert figures(learner) == figures(one)
