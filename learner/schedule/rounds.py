"""The rounds that the settings of the sync and the sequential mode describe."""

from farflung.common.data.spec import Rounds
from farflung.learner.config import LearnerConfig
from farflung.learner.local.processors import local_actors


def round_actors(config: LearnerConfig) -> int:
    """Return how many actors play a round: those elsewhere count too. There is at least one."""
    return config.round_actors or max(1, local_actors(config))


def rounds_of(config: LearnerConfig) -> Rounds | None:
    """Return an actor's share of a round; None in the async mode.

    None in the sequential mode too, unless an option of rounds is set: then each turn of all actors
    is a round.
    """
    options = (config.round_actors, config.round_steps, config.round_episodes)
    if config.mode == "async" or (config.mode == "sequential" and not any(options)):
        return None
    windows = (config.round_steps or config.horizon) // config.horizon
    return Rounds(round_actors(config), windows, config.round_episodes)


def sentence(config: LearnerConfig, rounds: Rounds) -> str:
    """Return how much is played and learned in a round."""
    actors, seats, batch = rounds.actors, config.environments, config.batch_size
    updates, ratio = config.round_updates, config.replay_ratio
    who = f"a round: {actors} actors x {seats} environments"
    if rounds.episodes:
        played = f"{who}, {rounds.episodes} episodes each = {actors * rounds.episodes} episodes"
        learned = f"{updates} updates of {batch}" if updates else f"a replay ratio of {ratio:g}"
        return f"{played}; then {learned}"
    steps = rounds.windows * config.horizon
    rows = actors * seats * steps
    if updates:
        ratio = updates * batch / rows
    return (
        f"{who} x {steps} steps = {rows} rows; then {updates or ratio * rows / batch:g} updates of "
        f"{batch}: each row is sampled {ratio:g} times"
    )
