"""The parts of a world's turns: a policy at an actor, as the turns see it."""

from typing import Protocol

import numpy as np

from farflung.actor.worlds.world import Due, Outcomes
from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Weights


class Acts(Protocol):
    """A policy at an actor, as it acts."""

    def act(self, due: Due) -> np.ndarray:
        """Return actions [n, *shape] for the due seats."""


class Acting(Acts, Protocol):
    """A policy at an actor, as the world sees it."""

    def record(self, outcomes: Outcomes | None, due: Due | None) -> None:
        """Take in what became of seats, and what is due now."""


class Unrecorded(Acting, Protocol):
    """A policy that learns nothing, and of which nothing is recorded."""

    def restart(self) -> None:
        """Forget all episodes: the world is reset."""


class Playing(Acting, Protocol):
    """A policy at an actor: a Player, which records windows, or an Evaluator."""

    full: bool  # the window or the evaluation is over; so it is before the first one

    @property
    def owes(self) -> bool | None:
        """True while part of a round is to be played that ends for all policies; None: never."""

    def wants(self, weights: Weights) -> bool:
        """Return whether there is something to play under these weights."""

    def begin(self, weights: Weights, steps: int, spare: bool = False) -> None:
        """Start a window or an evaluation."""

    def parcels(self) -> list[Parcel]:
        """Return what was played since `begin`."""
