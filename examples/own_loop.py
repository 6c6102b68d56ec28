"""A robot with a loop of its own asks a learner for actions, 50 times a second. Two shells, here:

    learner --env CartOnLine-v0 --import own_world --interventions --steps 20000
    python own_loop.py

The learner knows the world from own_world.py, which registers it. The loop needs no Gymnasium. Now
and then a person takes the controls; the learner is sent the actions that were really taken.
`python own_loop.py HOST:PORT --hz 0` does not wait between two steps, as a simulator would not.
At 50 Hz the session's last line says how late its steps were.
"""

import argparse
import logging

import numpy as np

from farflung.actor.session import ActorSession

PUSHES = (-0.05, 0.0, 0.05)  # what the three actions add to the speed
EDGE = 1.0  # beyond this the cart falls off its line
STEPS = 100  # of an episode, at most
CHANCE = 0.01  # in each step, that a person takes the controls
HELD_STEPS = 25  # then for so many


class Cart:
    """A cart on a line, which should come to rest in the middle."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.position, self.speed, self.steps = rng.uniform(-0.8, 0.8), rng.uniform(-0.05, 0.05), 0

    def push(self, action: int) -> tuple[float, bool, bool]:
        """Make one step; return the reward, whether the cart fell off, and whether time is over."""
        self.speed = 0.95 * self.speed + PUSHES[action]
        self.position += self.speed
        self.steps += 1
        return 1.0 - abs(self.position), abs(self.position) > EDGE, self.steps == STEPS

    def look(self) -> list[float]:
        """Return the reading of a sensor."""
        return [self.position, self.speed]


class Person:
    """Takes the controls for half a second, now and then."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._left = rng, 0  # steps in which the person still steers

    def steers(self) -> bool:
        """Return whether the person steers in this step."""
        self._left = max(0, self._left - 1)
        if not self._left and self._rng.random() < CHANCE:
            self._left = HELD_STEPS
        return self._left > 0

    def steer(self, cart: Cart) -> int:
        """Return the action that brings the cart to the middle."""
        wanted = -0.3 * cart.position - cart.speed
        return min(range(len(PUSHES)), key=lambda action: abs(PUSHES[action] - wanted))


def main(address: str, rate_hz: float) -> None:
    """Play until the run is over."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rng = np.random.default_rng()
    person, episodes, interventions = Person(rng), 0, 0
    with ActorSession(address, rate=rate_hz) as session:
        while not session.over:
            cart, total, ended = Cart(rng), 0.0, False
            while not (ended or session.over):
                if rate_hz:
                    session.next_period()
                action = session.act(cart.look())
                if person.steers():
                    action, interventions = person.steer(cart), interventions + 1
                reward, fell, late = cart.push(action)
                ended = session.record(reward, fell, late, cart.look(), action=action)
                total += reward
            episodes += ended
            if ended and episodes % 20 == 0:
                logging.info(
                    "episode %d: %.1f, acting on weights %s", episodes, total, session.version
                )
        sent = session.ledger.acknowledged
    logging.info("a person took %d actions", interventions)
    logging.info(
        "the run is over: the learner took %d windows with %d steps", sent.parcels, sent.rows
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("address", nargs="?", default="127.0.0.1:5555")
    parser.add_argument("--hz", type=float, default=50.0)
    asked = parser.parse_args()
    main(asked.address, asked.hz)
