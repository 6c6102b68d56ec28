"""A hostile sender beside the actors: it lies in its own name, guesses in others', and floods."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulation.oracle import Message

from farflung.common.data.weights import Version
from farflung.common.net.keys import BROKER, Client
from farflung.common.protocol.messages import Bye, Hello, Report

if TYPE_CHECKING:
    from simulation.simulator import Simulation

NAME = "mallory"
CLIENT = Client("", BROKER, 1 << 20)
PRESSING, PRESSED = "pressing", 70  # a name, and its parcels at once: more than any credit
FAR = (1, 2, 300, 4095, 4096, 1 << 16, 1 << 17, 1 << 40, 1 << 52)


@dataclass(frozen=True, slots=True)
class Hostile:
    """A message of the hostile sender."""

    message: Any


class HostileSender:
    """One peer, with a connection of its own to each learner."""

    def __init__(self, world: "Simulation") -> None:
        self.world = world
        self._incarnation = world.draw()
        self._sequence = self._pressed = 0
        self._tick()

    def _tick(self) -> None:
        chance = self.world.chance
        self.world.schedule.after(chance.uniform(0.05, 0.4), self._tick)
        for learner in self.world.learners:
            act = chance.choice((self._lie, self._lie, self._guess, self._flood, self._press))
            for message in act(learner.disk.run):
                self.world.oracle.seen[f"hostile {act.__name__.strip('_')}"] += 1
                learner.receive(Hostile(message))

    def _lie(self, run: str) -> list[Any]:
        """Return words and a parcel in its own name with any base and number."""
        chance = self.world.chance
        base = max(1, self._sequence + chance.choice((-1, 1)) * chance.choice(FAR))
        sequence = base + chance.choice((0, 0, 0, *FAR))
        self._sequence = chance.choice((self._sequence, self._sequence + 1, sequence % (1 << 41)))
        return [
            *self._words(run, NAME, self._incarnation, base),
            self._parcel(run, NAME, self._incarnation, sequence, base),
        ]

    def _guess(self, run: str) -> list[Any]:
        """Return the same in the name of an actor: its incarnation can only be guessed."""
        chance = self.world.chance
        name, guess, base = chance.choice(("one", "two")), self.world.draw(), chance.choice(FAR)
        return [
            *self._words(run, name, guess, base),
            self._parcel(run, name, guess, base, base),
            Bye(run, "default", name, guess, base, "gone"),
        ]

    def _flood(self, run: str) -> list[Any]:
        """Return the hellos of many names."""
        names = [f"name-{self.world.draw()}" for _ in range(6)]
        return [word for name in names for word in self._words(run, name, self.world.draw(), 1)]

    def _press(self, run: str) -> list[Any]:
        """Return parcels in another name of its own, in order, without a look at its credit."""
        first = self._pressed + 1
        self._pressed += PRESSED
        numbers = range(first, first + PRESSED)
        return [self._parcel(run, PRESSING, self._incarnation, n, first) for n in numbers]

    @staticmethod
    def _words(run: str, name: str, incarnation: int, base: int) -> list[Any]:
        identity = run, "default", name, incarnation
        return [
            Hello(*identity, 1, Version(0, 0), base),
            Report(*identity, base, Version(0, 0), {"longest_step_s": 1e9}),
        ]

    def _parcel(self, run: str, name: str, incarnation: int, sequence: int, base: int) -> Message:
        item = self.world.item(run)
        frame = f"{name}|{incarnation}|{sequence}|{item.identity}".encode()
        return Message(frame, run, name, incarnation, sequence, base, item)
