"""The configuration of a worker: to collect as an actor does, and the device and code to learn."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from cyclopts import Group, Parameter

from farflung.actor.config import CollectorConfig
from farflung.common.process.config import require

LEARNING = Parameter(group=Group("Learning", sort_key=2.5))


@dataclass(frozen=True, slots=True)
class WorkerConfig(CollectorConfig):
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
        CollectorConfig.__post_init__(self)
        require(len(self.addresses) == 1, "a worker learns for one policy: name one address")
        require(self.threads >= 1, "--threads must be at least 1")
