"""A world and the players of its policies, turn after turn. No sockets, no clock."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from farflung.actor.worlds.world import Due, Outcomes, Turn, World
from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Weights


class Playing(Protocol):
    """A policy at an actor: a Player, which records windows, or an Evaluator."""

    full: bool  # the window or the evaluation is over; so it is before the first one

    def wants(self, weights: Weights) -> bool:
        """Return whether there is something to play under these weights."""

    def begin(self, weights: Weights, steps: int) -> None:
        """Start a window or an evaluation."""

    def act(self, due: Due) -> np.ndarray:
        """Return actions [n, *shape] for the due seats."""

    def record(self, outcomes: Outcomes | None, due: Due | None) -> None:
        """Take in what became of seats, and what is due now."""

    def parcels(self) -> list[Parcel]:
        """Return what was played since `begin`."""


class Play:
    """Turns of a world, in which each policy has a player."""

    def __init__(self, world: World, players: Mapping[str, Playing]) -> None:
        self.world, self.players = world, players
        self._players = tuple(players.items())
        self.full = False  # a player has finished
        self._turn = Turn({}, {})

    def reset(self) -> None:
        """Begin an episode everywhere."""
        self._turn = turn = self.world.reset()
        for policy, player in self._players:
            player.record(None, turn.due.get(policy))

    def begin(self, weights: Weights, steps: int) -> bool:
        """Let each player that has finished begin again; return whether all can go on."""
        for player in self.players.values():
            if player.full:
                if not player.wants(weights):
                    return False
                player.begin(weights, steps)
        self.full = False
        return True

    def step(self) -> int:
        """Let each policy act for its due seats and record what follows; return their number."""
        players, actions, count = self.players, {}, 0
        for policy, due in self._turn.due.items():
            actions[policy] = chosen = players[policy].act(due)
            count += len(chosen)
        self._turn = turn = self.world.step(actions)
        seen, outcomes = turn
        for policy, player in self._players:
            player.record(outcomes.get(policy), seen.get(policy))
            if player.full:
                self.full = True
        return count
