"""The opening of a world: its specs are checked, then it and its players are made."""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType

from farflung.actor import unrecorded
from farflung.actor.acting import spec_check
from farflung.actor.connection.port import Joined
from farflung.actor.play import Play
from farflung.actor.playing import Playing
from farflung.actor.rules import Rules
from farflung.actor.worlds.world import EVALUATION, World
from farflung.common.data.weights import Weights
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Watchdog
from farflung.common.process.log import LASTING

log = logging.getLogger(__name__)

Runs = Mapping[str, Joined]
"""The run that each policy of a world has joined; the first one's place seeds the world."""

OpenWorld = Callable[[Runs, str], World]
"""Make the world of these runs; the second argument names the role in the seed tree."""

MakePlayer = Callable[[Joined, int], Playing]
"""Make the player of a policy with so many seats."""


def open_play(
    runs: Runs,
    open_world: OpenWorld,
    player: MakePlayer,
    rules: Rules,
    watchdog: Watchdog,
    weights: Mapping[str, Weights | None] = MappingProxyType({}),
) -> Play:
    """Make the world and the players of runs; the episodes of an actor that collects begin.

    `weights` are those of frozen policies.
    """
    for joined in runs.values():
        _require_allowed(joined, rules)
        # Before a world is made for it
        spec_check.require_playable(joined.spec, collects=not (rules.evaluates or rules.learns))
    environment = next(iter(runs.values())).spec.world.environment
    if all(joined.spec.frozen for joined in runs.values()):
        raise ConfigurationError(f"no policy of {environment} learns: there is nothing to play for")
    if not rules.evaluates:
        log.info("making %s", environment, extra=LASTING)
    role = EVALUATION if rules.evaluates else "actor"
    with watchdog:
        everyone = unrecorded.with_scripts(runs)
        world = open_world(everyone, role)
        seats = {policy: len(seats) for policy, seats in world.seats.items()}
        learned = [policy for policy, one in runs.items() if not one.spec.frozen]
        players = {policy: player(runs[policy], seats[policy]) for policy in learned}
        play = Play(
            world,
            players,
            {
                policy: unrecorded.player(joined, seats[policy], role, weights.get(policy))
                for policy, joined in everyone.items()
                if policy not in players
            },
        )
        if not rules.evaluates:
            _begin(play)
    if not rules.evaluates:
        for policy in learned:
            _say(runs[policy], seats[policy], policy if len(everyone) > 1 else "")
    return play


def _begin(play: Play) -> None:
    try:
        play.reset()
    except BaseException:
        play.world.close()
        raise


def _say(joined: Joined, seats: int, policy: str) -> None:
    rounds = joined.spec.rounds
    if rounds is not None and joined.index >= rounds.actors:
        log.warning(
            "the rounds of this run have %d actors, and all places are taken: this actor waits",
            rounds.actors,
        )
    log.info(
        "collecting %s as actor %d.%d%s: %s",
        joined.spec.world.environment,
        joined.index,
        joined.start,
        f" of {policy}" if policy else "",
        f"{seats} seats" if seats > 1 else "one seat",
    )


def _require_allowed(joined: Joined, rules: Rules) -> None:
    environment = joined.spec.world.environment
    if rules.allowed and environment not in rules.allowed:
        raise ConfigurationError(
            f"the learner asks for {environment}, which --allow-env does not name here"
        )
