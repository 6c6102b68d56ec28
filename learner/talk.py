"""What actors meet of a learner: the spec, the gate that hears them, the herald that tells them. None of it needs torch."""

import logging
import time
from dataclasses import dataclass

from msgspec import structs

from farflung.actor.worlds import gymnasium
from farflung.common.data.fields import draw_identity
from farflung.common.data.spec import Evaluation, Exploration, Graph, Spec, World, column_name
from farflung.common.process import atomic_file
from farflung.common.process.errors import Refused
from farflung.common.protocol import wire
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.messages import Announcement
from farflung.common.protocol.roster import Roster, RosterState
from farflung.common.protocol.snapshots import Snapshots
from farflung.learner.config import LearnerConfig
from farflung.learner.endpoint.publisher import Publisher
from farflung.learner.endpoint.receiver import Receiver
from farflung.learner.storage.run_folder import Run

log = logging.getLogger(__name__)

FIRST_EPOCH = 1
STARTS = (
    1 << 20
)  # of each index in one life of the learner: places that were given out after the last checkpoint are not used again
UNWRITTEN = Graph(b"", (), (), ())
GRAPH, SPEC = (
    ("policy", "graph.onnx"),
    ("policy", "spec"),
)  # the second is an announcement as on the wire, with the graph in it


@dataclass(frozen=True, slots=True)
class Talk:
    """One spec, and both sides of the talk about it."""

    spec: Spec
    receiver: Receiver
    publisher: Publisher

    @property
    def epoch(self) -> int:
        """Of this life of the learner."""
        return self.receiver.inbox.epoch


def talk(spec: Spec, inbox: Inbox | None = None, members: RosterState | None = None) -> Talk:
    """A talk about this spec; with the inbox and the members of a life before this one, if there was one."""
    inbox = inbox or Inbox(FIRST_EPOCH)
    first_start = (inbox.epoch - FIRST_EPOCH) * STARTS
    roster = (
        Roster(first_start)
        if members is None
        else Roster.restore(members, time.monotonic(), first_start)
    )
    snapshots = Snapshots()
    receiver = Receiver(spec, inbox, roster, snapshots)
    return Talk(spec, receiver, Publisher(spec, draw_identity(), inbox.epoch, receiver, snapshots))


def describe(config: LearnerConfig, run: Run, head: str) -> Spec:
    """What actors will be told, but for the graph."""
    world = World(config.environment, config.arguments, config.wrappers, config.seed)
    described = gymnasium.describe(world)
    images = [
        key
        for key, leaf in described.observation.items()
        if leaf.dtype == "uint8" and len(leaf.shape) >= 2
    ]
    return Spec(
        run=run.identity,
        policy=config.policy,
        mode=config.mode,
        world=world,
        observation=described.observation,
        action=described.action,
        head=head,
        horizon=config.horizon,
        stack=config.stack,
        graph=UNWRITTEN,
        exploration=Exploration(
            config.exploration_start,
            config.exploration_end,
            config.exploration_steps,
            config.exploration_ladder,
        ),
        evaluation=Evaluation(config.evaluate_every, config.evaluate_episodes),
        compression={column_name(key): "lz4" for key in images if config.compress},
    )


def keep(run: Run, spec: Spec) -> None:
    """Leave spec and acting graph in the run's folder: a graph takes seconds to write, and a life that goes on need not."""
    atomic_file.make_folder(run.folder / "policy")
    atomic_file.write(run.file(*GRAPH), spec.graph.model)
    atomic_file.write(run.file(*SPEC), bytes(wire.encode(Announcement(spec, 0, 0, -1, -1))))


def kept(config: LearnerConfig, run: Run) -> Spec | None:
    """The spec under these settings with the graph that the run has already, if it has one and these settings can mean the same."""
    try:
        message = wire.read(wire.open_frame(run.file(*SPEC).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, Refused) as error:
        log.warning(
            "the acting graph in %s cannot be read and is written anew: %s", run.folder, error
        )
        return None
    if not isinstance(message, Announcement):
        return None
    before = message.spec
    described = describe(config, run, before.head)
    now = structs.replace(described, graph=before.graph, extras=before.extras)
    seen = [(spec.observation, spec.action, spec.stack) for spec in (before, now)]
    return now if seen[0] == seen[1] else None
