"""`learner worker`: joins a learner as an actor does, and sends gradients instead of rows."""

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from farflung.actor import main as actor
from farflung.learner.worker.config import WorkerConfig

if TYPE_CHECKING:
    from farflung.actor.connection.inline import InlineConnection, Transport
    from farflung.actor.connection.policy_client import PolicyClient
    from farflung.actor.connection.port import Joined
    from farflung.common.net.keys import ClientKeys
    from farflung.common.net.sockets import Context
    from farflung.learner.worker.trainee import Trainee

log = logging.getLogger(__name__)

WAITING_BYTES = 1  # gradients that are not numbered yet: one waits, however large


@dataclass(frozen=True, slots=True)
class Worker:
    """The role of a worker: its client sends gradients, and its connection learns."""

    asked: WorkerConfig
    name: ClassVar[str] = "worker"
    learns: ClassVar[bool] = True

    def client(self, name: str) -> "PolicyClient":
        """Return a client that sends gradients."""
        from farflung.actor.connection.policy_client import PolicyClient
        from farflung.learner.worker.trainee import GradientForm

        asked = self.asked
        return PolicyClient(
            asked.policy,
            name,
            asked.environments,
            waiting_bytes=WAITING_BYTES,
            form=GradientForm(),
        )

    def form(
        self, context: "Context", client: "PolicyClient", keys: "ClientKeys | None"
    ) -> actor.Form:
        """Return the parts of an actor's process that learns while its loop waits."""
        from farflung.actor.connection.sockets import Sockets
        from farflung.actor.loop import ActorLoop

        transport = Sockets(context, self.asked.learner, client, keys=keys)
        return self.connection(client, transport), ActorLoop, transport.last_words

    def connection(self, client: "PolicyClient", transport: "Transport") -> "InlineConnection":
        """Return a connection that learns from what the actor's loop offers."""
        import torch

        from farflung.learner.worker.connection import WorkerConnection

        torch.set_num_threads(self.asked.threads)
        return WorkerConnection(
            client, transport, lambda joined: self._trainee(client, joined), time.monotonic
        )

    def _trainee(self, client: "PolicyClient", joined: "Joined") -> "Trainee":
        from farflung.learner.worker.making import algorithm_of
        from farflung.learner.worker.trainee import Trainee

        algorithm = algorithm_of(joined.spec, self.asked)
        log.info("learning as worker %d: %s", joined.index, algorithm.name)
        return Trainee(joined.spec, algorithm, client.actor, joined.index)


def work(asked: WorkerConfig) -> int:
    """Work until the end, with a log; return the exit code."""
    return actor.take_part(asked, Worker(asked))
