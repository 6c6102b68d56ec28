"""The role of a worker: it joins a learner as an actor does, and sends gradients for rows."""

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from farflung.actor import main as actor
from farflung.common.data.layout import layout
from farflung.common.data.spec import Spec
from farflung.common.process.uncollected import uncollected
from farflung.common.protocol.wire import MAX_MESSAGE_BYTES, most_experience_bytes
from farflung.learner.worker.config import WorkerConfig

if TYPE_CHECKING:
    from farflung.actor.connection.inline import InlineConnection, Transport
    from farflung.actor.connection.policies import MakeClient
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
    evaluates: ClassVar[bool] = False

    def client(self, name: str, policy: str) -> "PolicyClient":
        """Return a client that sends gradients."""
        from farflung.actor.connection.policy_client import PolicyClient
        from farflung.learner.worker.trainee import GradientForm

        asked = self.asked
        return PolicyClient(
            policy,
            name,
            asked.environments,
            waiting_bytes=WAITING_BYTES,
            form=GradientForm(),
        )

    def form(
        self, context: "Context", client: "MakeClient", keys: "ClientKeys | None"
    ) -> actor.Form:
        """Return the parts of an actor's process that learns while its loop waits."""
        from farflung.actor.connection.sockets import Sockets
        from farflung.actor.loop import ActorLoop

        own = client(self.asked.policy)
        transport = Sockets(context, self.asked.learner, own, keys=keys)
        return self.connection(own, transport), ActorLoop, transport.last_words

    def connection(self, client: "PolicyClient", transport: "Transport") -> "InlineConnection":
        """Return a connection that learns from what the actor's loop offers."""
        with uncollected():
            import torch

            from farflung.learner.worker.connection import WorkerConnection

        torch.set_num_threads(self.asked.threads)
        return WorkerConnection(
            client, transport, lambda joined: self._trainee(client, joined), time.monotonic
        )

    def _trainee(self, client: "PolicyClient", joined: "Joined") -> "Trainee":
        from farflung.learner.worker.making import algorithm_of
        from farflung.learner.worker.trainee import Trainee

        if sentence := size_warning(joined.spec):
            log.warning(sentence)
            client.problem("size", sentence)
        algorithm = algorithm_of(joined.spec, self.asked)
        log.info("learning as worker %d: %s", joined.index, algorithm.name)
        return Trainee(joined.spec, algorithm, client.actor, joined.index)


def size_warning(spec: Spec) -> str:
    """Return a sentence if gradients are larger than a broker passes on, unless it is told to."""
    _, size = layout(tensor.size for tensor in spec.graph.weights)
    most = most_experience_bytes(size)
    if most == MAX_MESSAGE_BYTES:
        return ""
    return (
        f"gradients of this policy are messages of {size >> 20} MiB: a broker on the way passes "
        f"them on with --largest-message {most}, and cuts the connection without it"
    )
