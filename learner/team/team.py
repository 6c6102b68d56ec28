"""A team at work: its processes are started, watched, replaced, and ended together."""

import logging
import time
from collections import deque
from dataclasses import replace
from functools import partial

from farflung.common.process.lifecycle import Stop
from farflung.common.protocol.messages import State
from farflung.learner.local.actors import EVALUATOR
from farflung.learner.local.children import Child, Children
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.team.folder import Folder
from farflung.learner.team.groups import Seats
from farflung.learner.team.plan import BROKER, Commands
from farflung.learner.team.status import PolicyStatus, Stage, TeamStatus
from farflung.learner.team.watching import Watching

log = logging.getLogger(__name__)

LOOK_S = 0.25
# A learner has a minute for its last checkpoint, and ends by itself after that.
END_S = 130.0
PROBLEMS = 10


class Team:
    """The learners of all policies, a broker in front of them, and the actors behind it."""

    def __init__(
        self,
        seats: Seats,
        folder: Folder,
        children: Children,
        watching: Watching,
        lasting: TeamStatus,
        sink: StatusSink[TeamStatus],
        stop: Stop,
    ) -> None:
        self._seats, self._folder, self._stop = seats, folder, stop
        self._children, self._watching, self._sink = children, watching, sink
        self._lasting = lasting
        self._learners: dict[str, Child] = {}
        self._fixed: frozenset[str] = frozenset()  # the processes of policies that learn nothing
        self._problems: deque[str] = deque(maxlen=PROBLEMS)
        self._started_at = time.monotonic()

    def start(self, learners: Commands, fixed: Commands, others: Commands) -> None:
        """Start all processes, the learners first; `fixed` are those that learn nothing."""
        now = time.monotonic()
        for policy, command in learners.items():
            reached = partial(self._folder.finished, policy)
            self._learners[policy] = self._children.add(f"learner-{policy}", command, now, reached)
        for name, command in {**fixed, **others}.items():
            self._children.add(name, command, now)
        self._fixed = frozenset(fixed)

    def run(self) -> None:
        """Watch over the processes until each learner has reached its goal, or a signal comes."""
        while not self._stop.wait(LOOK_S) and not self.over:
            for death in self._children.tick(time.monotonic()):
                log.warning(death)
                self._problems.append(death)
            self._require_processes()
            self._watching.look()
            self._sink.show(self.status())

    def end(self) -> None:
        """End all processes. Learners write their last checkpoints first."""
        for name in self._children.stop(END_S):
            log.warning("%s did not end by itself and was killed", name)
        self._watching.look()
        stage = State.STOP if self.over else State.AWAY
        self._sink.close(replace(self.status(), state=stage))

    @property
    def over(self) -> bool:
        """Return whether each learner has reached its goal."""
        return all(child.done for child in self._learners.values())

    def status(self) -> TeamStatus:
        """Return everything that is known now."""
        newest = self._watching.newest
        policies = {
            policy: PolicyStatus(agents, self._stage(policy), newest.get(policy))
            for policy, agents in self._seats.items()
        }
        seconds = time.monotonic() - self._started_at
        problems = tuple(self._problems)
        return replace(self._lasting, seconds=seconds, policies=policies, problems=problems)

    def _stage(self, policy: str) -> Stage:
        child = self._learners[policy]
        if child.done or child.given_up:
            return Stage.FINISHED if child.done else Stage.GIVEN_UP
        if child.pid is None:
            return Stage.RESTARTING
        return Stage.RUNNING if policy in self._watching.newest else Stage.STARTING

    def _require_processes(self) -> None:
        """Stop the team if a learner, the broker or each actor of its own is given up."""
        learners = {child.name for child in self._learners.values()}
        spared = learners | self._fixed | {BROKER, EVALUATOR}
        actors = [child for child in self._children.all if child.name not in spared]
        needed = [child for child in self._children.all if child.name in spared - {EVALUATOR}]
        lost = [child for child in needed if child.given_up]
        if actors and all(child.given_up for child in actors):
            lost.append(actors[-1])
        if lost:
            self._stop.set(lost[0].given_up, lost[0].process.returncode)
