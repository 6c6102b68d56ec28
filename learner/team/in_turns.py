"""A team in one process: its learners take turns with the actors that play for all of them.

Each learner has its own run, journal, replay and checkpoints, as with a process of its own. It does
all it can, and once each one waits for rows, every actor plays.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import torch

from farflung.common.process.config import Loaded
from farflung.common.process.lifecycle import Stop
from farflung.common.process.log import Log
from farflung.common.process.uncollected import collect_seldom
from farflung.common.protocol.messages import State
from farflung.learner.api.callback import Host
from farflung.learner.config import LearnerConfig
from farflung.learner.learner import Learner
from farflung.learner.local.actors import sequential_actors
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.observe.status import Status
from farflung.learner.schedule.rounds import round_actors
from farflung.learner.storage.run_folder import has_journal
from farflung.learner.team import opponents
from farflung.learner.team.folder import Folder, init_of
from farflung.learner.team.frozen import frozen
from farflung.learner.team.groups import Seats
from farflung.learner.team.status import PolicyStatus, Stage, TeamStatus
from farflung.learner.transport.in_process import Turns

log = logging.getLogger(__name__)

LOOK_S = 0.25  # between two looks at the statuses


class Member:
    """The learner of one policy, with its name in the log and random numbers of its own."""

    def __init__(
        self,
        agents: tuple[str, ...],
        loaded: Loaded[LearnerConfig],
        started: Log,
        stop: Stop,
        turns: Turns,
    ) -> None:
        self.agents, self.is_over = agents, False
        self.status: Status | None = None  # the newest
        self._name, self._log = loaded.config.policy, started
        screen = StatusSink[Status]("the status of a policy", self._note, LOOK_S)
        self.learner = Learner(loaded, Host(screen=screen), turns)
        self.learner.log, self.learner.stop = started, stop
        self._random: torch.Tensor | None = None

    @property
    def has_finished(self) -> bool:
        """Return whether the goal of the policy is reached."""
        return self.is_over and self.learner.training.supervisor.finished

    def start(self) -> None:
        """Do all that can be refused."""
        with self._turn():
            self.learner.startup()

    def prepare(self) -> None:
        """Restore what a resumed run had."""
        with self._turn():
            self.learner.prepare()

    def advance(self) -> bool:
        """Do all that can be done before actors play; return False once the run is over."""
        if not self.is_over:
            training = self.learner.training
            with self._turn():
                self.is_over = not training.loop.advance(training.supervisor)
                if self.is_over:
                    self._leave()
        return not self.is_over

    def look(self, left: Callable[[], int]) -> None:
        """Show how the run stands while an evaluation is played."""
        self.learner.training.supervisor.look(left)

    def finish(self, folder: Folder) -> int:
        """Write how the run ended where its process would have written it; return its code."""
        with (folder.path / "logs" / f"learner-{self._name}.log").open("a") as stream:
            return self.learner.training.report(stream)

    def _leave(self) -> None:
        training, stop = self.learner.training, self.learner.stop
        if not stop:
            training.loop.publish_once()  # for actors that play on for the others
        training.leave()

    def _note(self, status: Status) -> None:
        self.status = status

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Have the name in the log, and the generator that a process of its own would have."""
        who, before = self._log.who, torch.get_rng_state()
        team, who.name = who.name, self._name
        if self._random is not None:
            torch.set_rng_state(self._random)
        try:
            yield
        finally:
            self._random = torch.get_rng_state()
            torch.set_rng_state(before)
            who.name, who.version = team, "-"


class View:
    """The status of the team out of those of its members, on the screen now and then."""

    def __init__(
        self, members: Mapping[str, Member], lasting: TeamStatus, sink: StatusSink[TeamStatus]
    ) -> None:
        self._members, self._lasting, self._sink = members, lasting, sink
        self._began_at = self._looked_at = time.monotonic()

    def look(self) -> None:
        """Show the status, if the last look was a moment ago."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self._sink.show(self._status())

    def look_at_evaluation(self, left: Callable[[], int]) -> None:
        """Show the status while an evaluation is played."""
        for member in self._members.values():
            member.look(left)
        self.look()

    def close(self) -> None:
        """Show the last status."""
        over = all(member.has_finished for member in self._members.values())
        self._sink.close(replace(self._status(), state=State.STOP if over else State.AWAY))

    def _status(self) -> TeamStatus:
        policies = {
            policy: PolicyStatus(member.agents, _stage(member), member.status)
            for policy, member in self._members.items()
        }
        return replace(self._lasting, seconds=time.monotonic() - self._began_at, policies=policies)


def train(
    loaded: Loaded[LearnerConfig],
    seats: Seats,
    folder: Folder,
    started: Log,
    stop: Stop,
    show: Callable[[Mapping[str, Member]], View],
) -> int:
    """Train all policies until their goals are reached or a signal comes; return an exit code."""
    turns = Turns(stopped=lambda: bool(stop))
    with ExitStack() as resources:
        members: dict[str, Member] = {}
        for number, (policy, agents) in enumerate(seats.items()):
            own = settings(loaded.config, folder, policy, number)
            member = Member(agents, Loaded(own, loaded.origins), started, stop, turns)
            resources.enter_context(member.learner.resources)
            member.start()
            members[policy] = member
        for policy in opponents.frozen(loaded.config):
            turns.add(frozen(settings(loaded.config, folder, policy, 0)))
        view = show(members)
        resources.callback(view.close)
        first = members[next(iter(seats))].learner.config
        turns.seat(*sequential_actors(first, stop, view.look_at_evaluation, lambda: turns.now))
        resources.callback(turns.close)
        for member in members.values():
            resources.callback(member.learner.shutdown)
        for member in members.values():
            member.prepare()
        take_turns(list(members.values()), turns, view)
        return max(member.finish(folder) for member in members.values())


def take_turns(members: Sequence[Member], turns: Turns, view: View) -> None:
    """Let the learners do what they can and the actors play, until each learner is done."""
    collect_seldom()
    while playing := [member for member in members if member.advance()]:
        if all(member.learner.training.core.state.paused for member in playing):
            turns.idle()
        else:
            turns.play()
        view.look()


def settings(config: LearnerConfig, folder: Folder, policy: str, number: int) -> LearnerConfig:
    """Return the settings of one policy's learner, as a process of its own would have them."""
    run = folder.path / policy
    begun = has_journal(run)
    return replace(
        config,
        policy=policy,
        run_dir=str(folder.path),
        name=policy,
        resume=str(run) if begun else "" if config.durability == "none" else "auto",
        actors=0,
        round_actors=round_actors(config),
        device=f"auto:{number}" if config.device == "auto" else config.device,
        init=init_of(config, policy),
    )


def _stage(member: Member) -> Stage:
    if member.has_finished:
        return Stage.FINISHED
    return Stage.RUNNING if member.status is not None else Stage.STARTING
