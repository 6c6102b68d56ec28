"""Worlds with agents that take turns, skip, die, join and are lost, with counts of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from farflung.actor.worlds.world import Due, End, Outcomes, Seat, Turn
from farflung.common.data.parcel import Ending

MASK = "info.mask"


@dataclass
class OwnStep:
    """One decision of a seat, as the world saw it."""

    frames: list[int]  # serial numbers of what the seat saw in this episode, up to its decision
    action: int
    reward: float = 0.0
    ending: Ending = Ending.OPEN
    after: int = -1  # serial number of what it saw next


@dataclass
class Agent:
    """One seat: absent, due, or waiting for what becomes of its last decision."""

    seen: list[int] = field(default_factory=list)  # in this episode
    pending: OwnStep | None = None

    @property
    def absent(self) -> bool:
        """It is in no episode."""
        return not self.seen


@dataclass(frozen=True)
class Habits:
    """The probabilities of the events of an agent in a turn."""

    skips: float = 0.0  # it does not act
    dies: float = 0.1
    stays_away: float = 0.0  # after an episode
    is_lost: float = 0.0
    in_turn: bool = False  # one agent of an environment acts at a time


class Table:
    """Environments with agents of several policies. Each observation has a serial number.

    An observation is (serial, 0, 0), its mask (serial, serial + 1). In every turn each agent that
    waits has a reward of its own.
    """

    def __init__(
        self,
        policies: tuple[str, ...],
        environments: int,
        habits: Habits,
        *,
        seed: int,
        masks: bool,
    ) -> None:
        self.seats = {p: tuple(Seat(e, p) for e in range(environments)) for p in policies}
        self.complete: dict[str, list[OwnStep]] = {policy: [] for policy in policies}
        self._masks = masks
        self._habits, self._rng = habits, np.random.default_rng(seed)
        self._agents = {p: [Agent() for _ in range(environments)] for p in policies}
        self._due: dict[str, list[int]] = {}
        self._serial = 0
        self._turns = 0

    def reset(self) -> Turn:
        """Let agents join."""
        return self._turn({})

    def step(self, actions: Mapping[str, np.ndarray]) -> Turn:
        """Let the due agents act, then let things happen to all that wait."""
        assert actions.keys() == self._due.keys()
        for policy, seats in self._due.items():
            for seat, action in zip(seats, actions[policy].tolist(), strict=True):
                agent = self._agents[policy][seat]
                assert agent.pending is None
                agent.pending = OwnStep(list(agent.seen), action)
        self._turns += 1
        outcomes = {policy: self._settle(policy) for policy in self.seats}
        return self._turn({policy: some for policy, some in outcomes.items() if some is not None})

    def close(self) -> None:
        """Close nothing."""

    def _chance(self, of: float) -> bool:
        return bool(self._rng.random() < of)

    def _settle(self, policy: str) -> Outcomes | None:
        """Decide what becomes of each agent that waits."""
        seats, rewards, ended, lost = [], [], {}, []
        for seat, agent in enumerate(self._agents[policy]):
            step = agent.pending
            if step is None:
                continue
            step.reward += float(self._rng.integers(100))
            if self._chance(self._habits.skips) or not self._has_turn(policy, seat):
                continue
            seats.append(seat)
            rewards.append(step.reward)
            agent.pending = None
            if self._chance(self._habits.is_lost):
                lost.append(seat)
                agent.seen = []
                continue
            self.complete[policy].append(step)
            if self._chance(self._habits.dies):
                step.ending = Ending(1 + int(self._rng.integers(2)))
                step.after = self._next_serial()
                columns = {name: row[0] for name, row in self._columns([step.after]).items()}
                ended[seat] = End(step.ending, columns)
                agent.seen = []
            else:
                agent.seen.append(self._next_serial())
                step.after = agent.seen[-1]
        if not seats:
            return None
        every = len(seats) == len(self.seats[policy])
        return Outcomes(
            np.array(rewards, np.float32), None if every else np.array(seats), ended, lost
        )

    def _turn(self, outcomes: dict[str, Outcomes]) -> Turn:
        """Let absent agents join, and say who is due."""
        self._due = {}
        for policy, agents in self._agents.items():
            for agent in agents:
                if agent.absent and not self._chance(self._habits.stays_away):
                    agent.seen = [self._next_serial()]
            seats = [s for s, a in enumerate(agents) if not a.absent and a.pending is None]
            if seats:
                self._due[policy] = seats
        due = {
            policy: Due(
                self._columns([self._agents[policy][seat].seen[-1] for seat in seats]),
                None if len(seats) == len(self.seats[policy]) else np.array(seats),
            )
            for policy, seats in self._due.items()
        }
        return Turn(due, outcomes)

    def _has_turn(self, policy: str, seat: int) -> bool:
        if not self._habits.in_turn:
            return True
        number = list(self.seats).index(policy)
        return (self._turns + seat) % len(self.seats) == number

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def _columns(self, serials: list[int]) -> dict[str, np.ndarray]:
        observations = np.zeros((len(serials), 3), np.float32)
        observations[:, 0] = serials
        masks = np.array([[serial, serial + 1] for serial in serials], np.int32)
        return {"observations": observations} | ({MASK: masks} if self._masks else {})
