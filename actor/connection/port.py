"""The port of a connection: all that an actor's loop knows of the ways to learners.

An actor has `PolicyConnections`: several policies, each with its delivery, over a pair of sockets
for each address; in the sequential mode it has `InTurns` in their place, and messages are carried
between two turns. Two forms serve one policy. `InlineConnection` over `Sockets` exchanges messages
when the loop asks; `ThreadedConnection` has its sockets in a thread of their own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from farflung.actor.connection.archive import Archive
from farflung.actor.times import PREFIX
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version, Weights
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.ledger import Ledger
from farflung.common.protocol.messages import State
from farflung.common.protocol.spans import Tracer

EXCHANGE_S = 0.005  # between two exchanges while there is something else to do
WAIT_S = 0.1  # for a message while there is nothing else to do
GRACE_S = 3.0  # for the last acknowledgements, at the end


@dataclass(frozen=True, slots=True)
class Joined:
    """A place in a run, as a snapshot handed it out."""

    spec: Spec
    index: int  # -1: none yet
    start: int

    def is_at(self, index: int) -> bool:
        """Return whether this is the place of that index; those beyond the rounds are alike."""
        rounds = self.spec.rounds
        return rounds is None or self.index == index or min(self.index, index) >= rounds.actors


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
    gradients: int = 0  # that a worker computed
    replaced: int = 0  # games in which random actions stood for an archived version
    # Bytes that parts of it took, by the names of `actor.holding`; replaced as a whole.
    memory: Mapping[str, int] = field(default_factory=dict)
    # Of an actor at a fixed rate, by the names of a report; replaced as a whole.
    timing: Mapping[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  # of actor.times.Part, since it began
    hangs_s: float = 0.0  # that the present step of its environments takes, once that is suspect

    @property
    def counters(self) -> dict[str, float]:
        """The figures of a report, by name."""
        names = ("steps", "episodes", "waits", "longest_step_s", "lost_steps", "hangs_s")
        learned = {"gradients": float(self.gradients)} if self.gradients else {}
        games = {"replaced": float(self.replaced)} if self.replaced else {}
        seconds = {PREFIX + part: total for part, total in self.seconds.items()}
        own = {name: getattr(self, name) for name in names}
        return own | learned | games | seconds | dict(self.timing)


class Newest(NamedTuple):
    """The newest that a learner sent."""

    joined: Joined | None  # the run at the address, once its weights are here
    weights: Weights | None  # of that run
    steps: int  # that the learner has counted in the whole run
    came_at: float = 0.0  # when these weights came


NOTHING = Newest(None, None, 0)  # of no learner


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


class Delivery(Protocol):
    """One policy's way to its learner."""

    @property
    def away(self) -> bool:
        """The other policies play on without its learner: its rows are dropped meanwhile."""

    @property
    def work(self) -> Work:
        """Figures of this policy, for reports."""

    @property
    def newest(self) -> Newest:
        """The newest that came."""

    @property
    def archive(self) -> Archive:
        """The archived versions that were asked for. For an owner without a thread beside it."""

    @property
    def status(self) -> ConnectionStatus:
        """The state as of the last exchange."""

    @property
    def may_play(self) -> bool:
        """Another window may begin. Credit decides: all parcels before it have left."""

    def want(self, index: int) -> None:
        """Ask for this place in rounds, and in each later run, until it is handed out."""

    def offer(self, joined: Joined, parcel: Parcel) -> bool:
        """Take a parcel of a run to send. False: there is no room; the caller offers it again.

        A parcel of another run than the newest is dropped.
        """

    def problem(self, kind: str, text: str) -> None:
        """Send a problem to the learner's screen."""


class Connections(Protocol):
    """The ways of all policies of an actor; their messages are exchanged together."""

    @property
    def address(self) -> object:
        """The learners' addresses, for messages."""

    @property
    def work(self) -> Work:
        """Figures of the whole actor; of one policy they are its own."""

    @property
    def spans(self) -> Tracer:
        """The spans of the process, recorded while a learner asks for them."""

    @property
    def deliveries(self) -> Mapping[str, Delivery]:
        """The ways by policy. The learner of the first names the world, and so the others."""

    def seek(self, policies: Iterable[str]) -> None:
        """Look for the learners of these policies too, from now on; refuse what cannot be."""

    def problem(self, kind: str, text: str) -> None:
        """Send a problem to the screen of each learner."""

    def exchange(self, timeout_s: float) -> None:
        """Exchange messages; first wait at most so long for one. Raise where that cannot go on."""

    def hangs(self) -> None:
        """Report a step that hangs. For another thread, while the owner of the loop cannot."""

    def close(self, reason: str, patience_s: float) -> bool:
        """Send the rest, wait at most so long for its acknowledgement, and send the bye.

        Return whether everything was acknowledged.
        """


class Connection(Delivery, Connections, Protocol):
    """One policy's connection to its learner."""


def require_alone(policy: str, policies: Iterable[str], who: str) -> None:
    """Refuse policies of a world beside the one that is served."""
    others = [other for other in policies if other != policy]
    if others:
        raise ConfigurationError(
            f"the world of {policy} has seats of other policies too ({', '.join(others)}), "
            f"and {who} plays for one: start an actor, with --policy {policy}"
        )
