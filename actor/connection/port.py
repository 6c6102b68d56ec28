"""The port of a connection: all that an actor's loop knows of the way to a learner.

Three forms implement it. `InlineConnection` over `Sockets` exchanges messages when the loop
asks; `ThreadedConnection` has its sockets in a thread of their own; in the sequential mode the
learner carries the messages of an `InlineConnection` over `InTurns`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version, Weights
from farflung.common.protocol.ledger import Ledger
from farflung.common.protocol.messages import State

EXCHANGE_S = 0.005  # between two exchanges while there is something else to do
WAIT_S = 0.1  # for a message while there is nothing else to do
GRACE_S = 3.0  # for the last acknowledgements, at the end


@dataclass(frozen=True, slots=True)
class Joined:
    """A place in a run, as a snapshot handed it out."""

    spec: Spec
    index: int
    start: int


@dataclass(slots=True)
class Work:
    """An actor's own figures for the learner's screen. The owner of its loop counts them."""

    # Of an evaluator, the version that it plays: the learner keeps those weights for the result.
    evaluating: Version | None = None
    steps: int = 0
    episodes: int = 0
    waits: float = 0.0  # 1 while the learner has no room for what was played
    longest_step_s: float = 0.0
    lost_steps: int = 0  # without a recorded outcome
    # Of an actor at a fixed rate, by the names of a report; replaced as a whole.
    timing: Mapping[str, float] = field(default_factory=dict)

    @property
    def counters(self) -> dict[str, float]:
        """The figures of a report, by name."""
        names = ("steps", "episodes", "waits", "longest_step_s", "lost_steps")
        return {name: getattr(self, name) for name in names} | dict(self.timing)


class Newest(NamedTuple):
    """The newest that a learner sent."""

    joined: Joined | None  # the run at the address, once its weights are here
    weights: Weights | None  # of that run
    steps: int  # that the learner has counted in the whole run
    came_at: float = 0.0  # when these weights came


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """The state of a connection, as of the last exchange."""

    state: State  # of the learner
    sends: bool  # the learner does: it is there, and the only one
    listens: bool  # and takes what is sent
    idle: bool  # nothing waits, and everything sent is acknowledged
    held: Version | None  # the weights in use
    outdated_s: float  # since newer weights were announced, asked for, and have not come
    ledger: Ledger


class Connection(Protocol):
    """One policy's connection to its learner."""

    @property
    def address(self) -> object:
        """The learner's address, for messages."""

    @property
    def work(self) -> Work:
        """Figures that the owner of the loop counts, for reports."""

    @property
    def newest(self) -> Newest:
        """The newest that came."""

    @property
    def status(self) -> ConnectionStatus:
        """The state as of the last exchange."""

    @property
    def may_play(self) -> bool:
        """Another window may begin. Credit decides: all parcels before it have left."""

    def offer(self, joined: Joined, parcel: Parcel) -> bool:
        """Take a parcel of a run to send. False: there is no room; the caller offers it again.

        A parcel of another run than the newest is dropped.
        """

    def problem(self, kind: str, text: str) -> None:
        """Send a problem to the learner's screen."""

    def exchange(self, timeout_s: float) -> None:
        """Exchange messages; first wait at most so long for one. Raise where that cannot go on."""

    def close(self, reason: str, patience_s: float) -> bool:
        """Send the rest, wait at most so long for its acknowledgement, and send the bye.

        Return whether everything was acknowledged.
        """
