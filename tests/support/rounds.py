"""Runs of the sync mode and of one process, and slow lines between learner and actors."""

import math
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
    return figures_in(program.said)


def figures_in(said: str) -> Figures:
    """Return the figures in the last lines of a learner."""
    found = re.search(r"parameters: (\w+)\nreplay: (\w+) \(the newest \d+ rows in", said)
    assert found is not None, said
    return Figures(*found.groups())


def in_one_process(shell: Shell, actors: int, *flags: object, **variables: str) -> Program:
    """Start a learner of the sequential mode."""
    words = ("--mode", "sequential", "--actors", actors, "--name", "sequential")
    common = ("--run-dir", shell.folder / "runs", "--ui", "lines", "--evaluate-every", 0)
    made: Program = shell.start("learner", *common, *flags, *words, fork=shell.forks, **variables)
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

    It dials again for each connection, so it is also the way to a learner that comes back. From
    that port it carries so many bytes and then waits: so a learner does not get ahead of a test.
    """

    def __init__(self, target: int, seed: int, delay_s: float, carries: float = math.inf) -> None:
        self._target, self._chance, self._delay_s = target, random.Random(seed), delay_s
        self._carries, self._changed = carries, threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def carry(self, more: float) -> None:
        """Carry so many bytes more from the port."""
        with self._changed:
            self._carries += more
            self._changed.notify_all()

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
            self._start(self._pass_on, far, near, counted=True)

    def _pass_on(self, source: socket.socket, target: socket.socket, counted: bool = False) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(self._chance.uniform(0, self._delay_s))
                if counted:
                    self._wait_for(len(data))
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _wait_for(self, size: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._carries >= size)
            self._carries -= size

    @staticmethod
    def _start(work: Any, *sockets: socket.socket, **options: bool) -> None:
        threading.Thread(target=work, args=sockets, kwargs=options, daemon=True).start()


def behind(
    learner: Address, seed: int, delay_s: float, carries: float = math.inf
) -> tuple[Address, Slow, Slow]:
    """Return the address of a learner behind slow lines, and those; the feed's is the second."""
    ways = Slow(learner.port, 2 * seed, delay_s), Slow(learner.feed_port, seed, delay_s, carries)
    return Address("127.0.0.1", *(way.port for way in ways)), *ways
