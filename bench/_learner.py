"""A learner that only drains: network thread, receiver, queue and replay, but no updates.

`python bench/_learner.py` runs one for CartPole.
"""

import math
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import _measure  # noqa: F401  # sets the import path
import torch

from farflung.common.data.spec import Spec
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.uncollected import collect_seldom
from farflung.learner.algorithms.dqn import DQN
from farflung.learner.config import LearnerConfig
from farflung.learner.core.build import build_core
from farflung.learner.core.core import Core
from farflung.learner.core.pacing import CoreState, Pacing
from farflung.learner.endpoint.endpoint import FIRST_EPOCH, Endpoint
from farflung.learner.endpoint.items import PARCELS, ItemLog, ItemQueue, Unlogged
from farflung.learner.loop import Loop
from farflung.learner.schedule.schedule import UPDATE, Action, Asynchronous, Moment, Wait
from farflung.learner.storage.run_folder import new_run
from farflung.learner.transport.network_thread import NetworkThread


class CoreAndEndpoint(NamedTuple):
    """A learner without transport and supervision."""

    core: Core
    endpoint: Endpoint


def main() -> None:
    """Print the ports, and drain until standard input closes."""
    closed = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), closed.set()), daemon=True).start()
    learner = cartpole()
    with listening(learner) as (link, loop):
        print(link.address.port, link.address.feed_port, flush=True)
        while not closed.is_set():
            drain(loop)


def cartpole(horizon: int = 32) -> CoreAndEndpoint:
    """Return a learner of CartPole-v1 with random actions, so that episodes stay short."""
    return exploring("CartPole-v1", horizon=horizon)


def exploring(
    world: str, *, horizon: int = 32, stack: int = 1, capacity: int = 100_000
) -> CoreAndEndpoint:
    """Return a learner of an environment with random actions."""
    wanted = {"environment": world, "horizon": horizon, "stack": stack, "capacity": capacity}
    return learner_with(LearnerConfig(exploration_end=1.0, replay_ratio=math.inf, **wanted))


def learner_with(config: LearnerConfig) -> CoreAndEndpoint:
    """Return a learner of these settings, on one processor."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        run = new_run(str(Path(folder) / "runs"), "bench", config.environment, "")
        core = build_core(config, run, torch.device("cpu"), FIRST_EPOCH)
    return CoreAndEndpoint(core, Endpoint(core.spec))


def learner_of(spec: Spec, capacity: int) -> CoreAndEndpoint:
    """Return a learner for parcels that no policy chose: its spec has no graph."""
    settings = replace(DQN.Settings(), hidden=(1,))
    algorithm = DQN(spec, settings, device=torch.device("cpu"), seed=0)
    uniform = algorithm.replay(spec, capacity=capacity, batch_size=1, seed=0)
    core = Core(spec, algorithm, uniform, Pacing(math.inf, 1, 0, spec.horizon), epoch=1)
    return CoreAndEndpoint(core, Endpoint(spec))


class Draining:
    """The schedule of the async mode, with or without its updates."""

    takes = PARCELS
    keeps_rounds = False

    def __init__(self, publish_every: int = 1) -> None:
        self.trains = False
        self._asynchronous = Asynchronous(publish_every)

    def decide(self, core: CoreState, queue: ItemQueue, moment: Moment) -> Action:
        """Wait where training would update, unless it trains."""
        action = self._asynchronous.decide(core, queue, moment)
        if action is UPDATE and not self.trains:
            return Wait(core.pacing.waiting)
        return action

    def room(self, core: CoreState, moment: Moment) -> int:
        """Return the room that training would grant."""
        return self._asynchronous.room(core, moment)

    def missing(self, core: CoreState, queue: ItemQueue) -> list[int]:
        """Return none: there are no rounds."""
        return []


@contextmanager
def listening(
    learner: CoreAndEndpoint,
    make_log: Callable[[ItemQueue], ItemLog] = lambda queue: Unlogged(queue.put),
    schedule: Draining | None = None,
) -> Iterator[tuple[NetworkThread, Loop]]:
    """Run its network thread on free ports of loopback, and yield it with the training loop."""
    endpoint = learner.endpoint
    collect_seldom()  # as at the start of training
    with sockets.context() as context:
        link = NetworkThread(context, Address("127.0.0.1", 0, 0), endpoint)
        endpoint.log = make_log(endpoint.queue)
        link.start()
        loop = Loop(learner.core, schedule or Draining(), endpoint, link)
        drain(loop)
        try:
            yield link, loop
        finally:
            link.close()
            endpoint.log.close()


def drain(loop: Loop) -> None:
    """Do one action of the training thread."""
    loop.do(loop.decide(over=False, rows_wanted=sys.maxsize))


if __name__ == "__main__":
    main()
