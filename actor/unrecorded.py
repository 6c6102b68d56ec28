"""Policies that learn nothing: scripts, random actions, frozen weights. No row of them is kept."""

from collections.abc import Mapping

import numpy as np
from msgspec import structs

from farflung.actor.acting.policy import Policy
from farflung.actor.connection.port import Joined
from farflung.actor.evaluator import Evaluator
from farflung.actor.playing import Unrecorded
from farflung.actor.scripts import Scripted, any_action, registered
from farflung.actor.worlds import families
from farflung.actor.worlds.world import Due, Outcomes
from farflung.common import heads
from farflung.common.data import seeds
from farflung.common.data.selfplay import RANDOM_ACTIONS
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Weights


class Frozen:
    """Acts by weights that stay as they are, and explores as their learner says."""

    def __init__(
        self, spec: Spec, seats: int, weights: Weights, index: int, rng: np.random.Generator
    ) -> None:
        heads.require(spec)
        chooser = heads.find(spec.head).explorer(spec, seats, max(0, index), rng)
        self._player = Evaluator(spec, seats, Policy(spec.graph), chooser)
        self._weights = weights
        self.restart()

    def restart(self) -> None:
        """Forget all episodes: the world is reset."""
        self._player.begin(self._weights, self._weights.steps)

    def act(self, due: Due) -> np.ndarray:
        """Return actions [n, *shape] for the due seats."""
        return self._player.act(due)

    def record(self, outcomes: Outcomes | None, due: Due | None) -> None:
        """See what became of seats, and what is due now."""
        self._player.record(outcomes, due)


def with_scripts(runs: Mapping[str, Joined]) -> dict[str, Joined]:
    """Return the runs of a world, and beside them places for the policies that scripts play.

    They are in the world's order. Such a policy has no learner: its spaces are asked here.
    """
    first = next(iter(runs.values()))
    world = first.spec.world
    if not world.scripts:
        return dict(runs)
    found = dict(runs)
    for policy in world.scripts:
        described = families.describe(world, policy, masked=True)
        spec = structs.replace(
            first.spec,
            policy=policy,
            observation=described.observation,
            action=described.action,
            stack=1,
            compression={},
            extras=() if described.mask is None else (described.mask,),
        )
        found[policy] = Joined(spec, first.index, first.start)
    return {policy: found[policy] for policy in world.seats}


def player(joined: Joined, seats: int, role: str, weights: Weights | None = None) -> Unrecorded:
    """Return the player of a policy that learns nothing, at its place in the seed tree."""
    spec, index, start = joined.spec, joined.index, joined.start
    rng = seeds.generator(spec.world.seed, "unrecorded", role, spec.policy, index, start)
    if weights is not None:
        return Frozen(spec, seats, weights, index, rng)
    name = spec.world.scripts[spec.policy]
    script = any_action(spec.action) if name == RANDOM_ACTIONS else registered(name, "the learner")
    return Scripted(spec, script, name, rng)
