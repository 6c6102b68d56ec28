"""The opening of a run: its spec is checked, then its world and its players are made."""

import logging
from collections.abc import Callable

from farflung.actor.acting import spec_check
from farflung.actor.connection.port import Joined
from farflung.actor.play import Play, Playing
from farflung.actor.rules import Rules
from farflung.actor.worlds.world import EVALUATION, World
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Watchdog
from farflung.common.process.log import LASTING

log = logging.getLogger(__name__)

OpenWorld = Callable[[Joined, str], World]
"""Make the world of a run; the second argument names the role in the seed tree."""

MakePlayer = Callable[[Joined, int], Playing]
"""Make the player of a policy with so many seats."""


def open_play(
    joined: Joined, open_world: OpenWorld, player: MakePlayer, rules: Rules, watchdog: Watchdog
) -> Play:
    """Make the world and the players of a run; the episodes of an actor that collects begin."""
    _require_allowed(joined, rules)
    # Before a world is made for it
    spec_check.require_playable(joined.spec, collects=not (rules.evaluates or rules.learns))
    if not rules.evaluates:
        log.info("making %s", joined.spec.world.environment, extra=LASTING)
    with watchdog:
        world = open_world(joined, EVALUATION if rules.evaluates else "actor")
        seats = {policy: len(seats) for policy, seats in world.seats.items()}
        play = Play(world, {policy: player(joined, count) for policy, count in seats.items()})
        if not rules.evaluates:
            _begin(play)
    if not rules.evaluates:
        _say(joined, sum(seats.values()))
    return play


def _begin(play: Play) -> None:
    try:
        play.reset()
    except BaseException:
        play.world.close()
        raise


def _say(joined: Joined, seats: int) -> None:
    rounds = joined.spec.rounds
    if rounds is not None and joined.index >= rounds.actors:
        log.warning(
            "the rounds of this run have %d actors, and all places are taken: this actor waits",
            rounds.actors,
        )
    log.info(
        "collecting %s as actor %d.%d: %s",
        joined.spec.world.environment,
        joined.index,
        joined.start,
        f"{seats} seats" if seats > 1 else "one seat",
    )


def _require_allowed(joined: Joined, rules: Rules) -> None:
    environment = joined.spec.world.environment
    if rules.allowed and environment not in rules.allowed:
        raise ConfigurationError(
            f"the learner asks for {environment}, which --allow-env does not name here"
        )
