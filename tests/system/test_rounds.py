"""Rounds over sockets: the bits of one process, with delays and after kills."""

import random
import re
import socket
import threading
import time
from contextlib import ExitStack, closing, suppress

import pytest

from farflung.common.net.address import Address

pytestmark = [pytest.mark.system, pytest.mark.slow]

FLAGS = ("--warmup", 400, "--horizon", 16)
SHORT, LONG = ("--steps", 1500, "--replay-ratio", 8), ("--steps", 6000, "--replay-ratio", 32)
DELAY_S = 0.3  # at most, of each piece of data on its way


def bits(program):
    """Return the parameters that a learner ended with."""
    assert program.ended() == 0, program.said
    return re.search(r"parameters: (\w+)", program.said)[1]


def in_one_process(shell, actors, *flags):
    """Return the bits of the sequential mode."""
    words = ("--mode", "sequential", "--actors", actors, "--name", "sequential")
    return bits(shell.start("learner", *FLAGS, *flags, *words))


def in_rounds(shell, actors, *flags):
    """Start a learner of the sync mode; its actors are started elsewhere."""
    words = ("--mode", "sync", "--round-actors", actors, "--name", "sync", "--checkpoint-every", 1)
    return shell.learner(*FLAGS, *flags, *words).listens()


class Slow:
    """A way to a port on which each piece of data takes its own time; order is kept."""

    def __init__(self, target, seed):
        self._target, self._chance = target, random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)

    def close(self):
        """Take no more connections."""
        self._listener.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self._target))
                self._start(self._pass_on, near, far)
                self._start(self._pass_on, far, near)

    def _pass_on(self, source, target):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(self._chance.uniform(0, DELAY_S))
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _start(work, *arguments):
        threading.Thread(target=work, args=arguments, daemon=True).start()


@pytest.mark.parametrize("flags", [(), ("--round-steps", 48), ("--round-episodes", 2)], ids=str)
def test_rounds_have_the_bits_of_one_process(shell, flags):
    """Two actors with two environments each, behind slow lines: arrivals are in any order."""
    flags = (*SHORT, "--envs", 2, *flags)
    expected = in_one_process(shell, 2, *flags)
    learner = in_rounds(shell, 2, *flags)
    with ExitStack() as stack:
        for index in range(2):
            ways = [
                stack.enter_context(closing(Slow(port, index)))
                for port in (learner.address.port, learner.address.feed_port)
            ]
            shell.actor(Address("127.0.0.1", *(way.port for way in ways)), "--envs", 2)
        assert bits(learner) == expected


@pytest.mark.faults
def test_rounds_go_on_with_the_same_bits_after_kills(shell):
    """The learner is killed twice; its four actors live on, and their audit is clean."""
    expected = in_one_process(shell, 4, *LONG)
    learner = in_rounds(shell, 4, *LONG)
    port, feed = learner.address.port, learner.address.feed_port
    for index in range(4):
        shell.actor(learner.address, "--name", f"robot-{index}")
    for steps in (500, 2000):
        learner.shows(lambda status, steps=steps: status.steps >= steps)
        learner.kill()
        again = ("--resume", shell.folder / "runs" / "sync", "--feed-port", feed)
        learner = shell.learner(*again, port=port).listens()
        learner.says("resumed: epoch")
    assert bits(learner) == expected
    audit = shell.start("learner", "audit", shell.folder / "runs" / "sync")
    assert audit.ended() == 0, audit.said


def test_evaluator_takes_no_place_of_a_round(shell):
    """It asks before the actor does, and the round is whole all the same; late actors are named."""
    learner = in_rounds(shell, 1, *SHORT, "--evaluate-every", 400, "--evaluate-episodes", 2)
    shell.actor(learner.address, "--evaluate", "--name", "judge")
    learner.says("judge joined")
    learner.says("round 1 has waited .* s for number 0, which has not joined")
    shell.actor(learner.address, "--name", "robot").says("collecting CartPole-v1 as actor 0.0")
    shell.actor(learner.address, "--name", "spare").says("all places are taken")
    assert learner.ended() == 0, learner.said
    assert "judge" in learner.said
