"""A learner that drains: link, gate, inlet and replay as in a training, no updates. `python bench/_learner.py` runs one for CartPole."""

import gc
import math
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import _measure  # noqa: F401  # from here on `actor` is the package
import torch

from common import sockets
from common.address import Address
from common.spec import Spec
from learner import asynchronous, build, talk
from learner.algorithms.dqn import DQN
from learner.build import Learner
from learner.config import LearnerConfig
from learner.herald import Outlook
from learner.inlet import Inlet
from learner.journal.writer import Journal
from learner.link import Link
from learner.pacing import Pacing
from learner.run import new_run
from learner.training import Training

WAIT_S = 0.05


def main() -> None:
    """Say where it listens, and drain until standard input closes."""
    closed = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), closed.set()), daemon=True).start()
    learner = cartpole()
    with listening(learner) as (link, inlet):
        print(link.address.port, link.address.feed_port, flush=True)
        while not closed.is_set():
            drain(learner.training, link, inlet)


def cartpole(horizon: int = 32) -> Learner:
    """A learner of CartPole-v1 whose actors always explore, so that episodes are as long as those of random actions."""
    return exploring("CartPole-v1", horizon=horizon)


def exploring(world: str, *, horizon: int = 32, stack: int = 1, capacity: int = 100_000) -> Learner:
    """A learner of a world whose actors always explore."""
    torch.set_num_threads(1)
    wanted = {"environment": world, "horizon": horizon, "stack": stack, "capacity": capacity}
    config = LearnerConfig(exploration_end=1.0, replay_ratio=math.inf, **wanted)
    with tempfile.TemporaryDirectory() as folder:
        return build.learner(config, new_run(str(Path(folder) / "runs"), "bench", config.environment, ""), torch.device("cpu"))


def learner_of(spec: Spec, capacity: int) -> Learner:
    """A learner of parcels that nobody acts for: its spec has no graph."""
    settings = replace(DQN.Settings(), hidden=(1,))
    algorithm = DQN(spec, settings, device=torch.device("cpu"), seed=0)
    uniform = algorithm.replay(spec, capacity=capacity, batch_size=1, seed=0)
    training = Training(spec, algorithm, uniform, Pacing(math.inf, 1, 0, spec.horizon), epoch=1)
    return Learner(training, talk.talk(spec))


@contextmanager
def listening(learner: Learner, journal: Callable[[Inlet], Journal | None] = lambda inlet: None) -> Iterator[tuple[Link, Inlet]]:
    """Its network thread at work, on free ports of loopback."""
    inlet = Inlet()
    gc.freeze()  # as before a training
    with sockets.context() as context:
        link = Link(context, Address("127.0.0.1", 0, 0), learner.gate, learner.herald, inlet, message_bytes=1 << 16)
        link.start(keeper := journal(inlet))
        link.publish(learner.training.publish())
        try:
            yield link, inlet
        finally:
            link.close()
            if keeper is not None:
                keeper.close()


def drain(training: Training, link: Link, inlet: Inlet, insert: Callable[[Training, Inlet], bool] = asynchronous.insert) -> None:
    """One turn of the training thread without its updates."""
    link.check()
    if not insert(training, inlet):
        inlet.wait(WAIT_S)
    inlet.room = training.pacing.room
    link.outlook = Outlook(inlet.room, training.steps, training.updates)


if __name__ == "__main__":
    main()
