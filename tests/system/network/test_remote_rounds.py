"""Rounds with actors on two hosts, behind a broker on a third one."""

import pytest
from support.rounds import figures, in_one_process, in_rounds

from farflung.common.net.address import parse_address

pytestmark = [pytest.mark.faults, pytest.mark.slow]

FLAGS = ("--steps", 1500, "--replay-ratio", 8, "--warmup", 400, "--envs", 2)


def test_actors_on_two_hosts_behind_a_broker_play_the_bits_of_one_process(whole_network, shell):
    """They know the address of the broker, and not that of the learner."""
    near, between = whole_network.host("learner"), whole_network.host("broker")
    one = in_one_process(shell, 2, *FLAGS)
    where = ("--bind", near.address, "--insecure")
    learner = in_rounds(shell, 2, *FLAGS, *where, port=5555, on=near.words)
    where = ("--bind", between.address, "--insecure", "--port", 5555)
    broker = shell.start(*between.words("broker", learner.address, *where))
    broker.says("listening")
    for number in range(2):
        far = whole_network.host(f"actor{number}")
        words = ("--envs", 2, "--name", f"robot-{number}")
        shell.actor(parse_address(between.address), *words, on=far.words)
    assert figures(learner) == figures(one)
