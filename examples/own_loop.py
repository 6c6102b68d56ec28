"""A simulator with a loop of its own asks a learner for actions. In two shells, in this folder:

    learner --env CartOnLine-v0 --import own_world --steps 20000
    python own_loop.py

The learner knows the world from own_world.py, which registers it. The loop needs no Gymnasium, and
could run on a robot.
"""

import logging
import sys

import numpy as np

from farflung.actor.session import ActorSession

PUSHES = (-0.05, 0.0, 0.05)  # what the three actions add to the speed
EDGE = 1.0  # beyond this the cart falls off its line
STEPS = 100  # of an episode, at most


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


def main(address: str) -> None:
    """Play until the run is over."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    rng, episodes = np.random.default_rng(), 0
    with ActorSession(address) as session:
        while not session.over:
            cart, total, ended = Cart(rng), 0.0, False
            while not (ended or session.over):
                action = session.act(cart.look())
                reward, fell, late = cart.push(action)
                session.record(
                    reward, terminated=fell, truncated=late, next_observation=cart.look()
                )
                total, ended = total + reward, fell or late
            episodes += ended
            if ended and episodes % 20 == 0:
                logging.info(
                    "episode %d: %.1f, acting on weights %s", episodes, total, session.version
                )
        sent = session.ledger.acknowledged
    logging.info(
        "the run is over: the learner took %d windows with %d steps", sent.parcels, sent.rows
    )


if __name__ == "__main__":
    main(*sys.argv[1:2] or ["127.0.0.1:5555"])
