"""The configuration of a worker: an actor's, and the device and code that it learns with."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from cyclopts import Group, Parameter

from farflung.actor.config import ActorConfig
from farflung.common.process.config import require

LEARNING = Parameter(group=Group("Learning", sort_key=2.5))


@dataclass(frozen=True, slots=True)
class WorkerConfig(ActorConfig):
    """The options of a worker; the learner sends everything else."""

    _: KW_ONLY
    algorithm: Annotated[str, LEARNING, Parameter(metavar="MODULE:CLASS", show_default=False)] = ""
    """Algorithm of your own that the learner names too: no name of the network is imported."""
    model: Annotated[str, LEARNING, Parameter(metavar="MODULE:FUNCTION", show_default=False)] = ""
    """Function that makes the network, likewise."""
    device: Annotated[str, LEARNING, Parameter(metavar="DEVICE")] = "cpu"
    """Device to learn on: auto, cpu, cuda, cuda:N or mps."""
    threads: Annotated[int, LEARNING, Parameter(metavar="N")] = 1
    """CPU threads of torch."""

    def __post_init__(self) -> None:
        ActorConfig.__post_init__(self)
        require(not self.evaluate, "--evaluate is for actors: a worker collects and learns")
        require(not self.acknowledged, "--acknowledged is for actors: gradients leave no receipts")
        require(not self.rate, "--rate is for actors: a worker learns between two windows")
        require(self.threads >= 1, "--threads must be at least 1")
