"""Runs of the sync mode and of one process, and slow lines between learner and actors."""

import random
import re
import socket
import threading
import time
from contextlib import suppress
from typing import Any, NamedTuple

from farflung.common.net.address import Address
from support.programs import Learner, Program, Shell, Words


class Figures(NamedTuple):
    """The hashes that two runs have in common if they did the same."""

    parameters: str  # a hash
    replay: str  # a hash of the rows in their order


def figures(program: Program) -> Figures:
    """Return the figures of a learner that reaches its goal."""
    assert program.ended() == 0, program.said
    found = re.search(r"parameters: (\w+)\nreplay: (\w+) \(the newest \d+ rows in", program.said)
    assert found is not None, program.said
    return Figures(*found.groups())


def in_one_process(shell: Shell, actors: int, *flags: object, **variables: str) -> Program:
    """Start a learner of the sequential mode."""
    words = ("--mode", "sequential", "--actors", actors, "--name", "sequential")
    common = ("--run-dir", shell.folder / "runs", "--ui", "lines", "--evaluate-every", 0)
    made: Program = shell.start("learner", *common, *flags, *words, **variables)
    return made


def in_rounds(
    shell: Shell,
    actors: int,
    *flags: object,
    name: str = "sync",
    on: Words | None = None,
    **options: Any,
) -> Learner:
    """Start a learner of the sync mode; its actors are started elsewhere."""
    words = ("--mode", "sync", "--round-actors", actors, "--checkpoint-every", 1)
    return shell.learner("--name", name, *words, *flags, on=on, **options).listens()


class Slow:
    """A way to a port on which each piece of data takes its own time; order is kept.

    It dials again for each connection, so it is also the way to a learner that comes back.
    """

    def __init__(self, target: int, seed: int, delay_s: float) -> None:
        self._target, self._chance, self._delay_s = target, random.Random(seed), delay_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near = self._listener.accept()[0]
            except OSError:  # closed
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # the learner is away
                near.close()
                continue
            self._start(self._pass_on, near, far)
            self._start(self._pass_on, far, near)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(self._chance.uniform(0, self._delay_s))
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _start(work: Any, *arguments: socket.socket) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()


def behind(learner: Address, seed: int, delay_s: float) -> tuple[Address, list[Slow]]:
    """Return the address of a learner behind slow lines, and those."""
    ports = (learner.port, learner.feed_port)
    ways = [Slow(port, 2 * seed + number, delay_s) for number, port in enumerate(ports)]
    return Address("127.0.0.1", *(way.port for way in ways)), ways
