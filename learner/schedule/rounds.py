"""The rounds that the settings of the sync and the sequential mode describe."""

from farflung.common.data.spec import Rounds
from farflung.learner.config import LearnerConfig
from farflung.learner.local.processors import local_actors
from farflung.learner.schedule.rollout import rollout_of


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
    return shares(config)


def shares(config: LearnerConfig) -> Rounds:
    """Return the rounds of these settings; without an option of them, a round is a window each."""
    windows = (config.round_steps or config.horizon) // config.horizon
    return Rounds(round_actors(config), windows, config.round_episodes)


def round_updates(config: LearnerConfig) -> int:
    """Return how many updates follow each round; 0: as many as the replay ratio allows."""
    if config.round_updates == "episodes":
        return round_actors(config) * config.round_episodes
    return 0 if config.round_updates == "steps" else config.round_updates


def replay_ratio(config: LearnerConfig) -> float:
    """Return the replay ratio; with one update for each environment step it is the batch size.

    With rollouts it is the number of epochs.
    """
    if rollout := rollout_of(config.settings):
        return float(rollout.epochs)
    return float(config.batch_size) if config.round_updates == "steps" else config.replay_ratio


def sentence(config: LearnerConfig) -> str:
    """Return how much is played and learned in a round."""
    rounds = shares(config)
    seats, batch, updates = config.environments, config.batch_size, round_updates(config)
    ratio = replay_ratio(config)
    who = f"a round: {_count(rounds.actors, 'actor')} x {_count(seats, 'environment')}"
    if rollout := rollout_of(config.settings):
        share = (
            _count(rounds.episodes, "episode")
            if rounds.episodes
            else _count(rounds.windows * config.horizon, "step")
        )
        return (
            f"{who}, {share} each; {_count(rollout.updates(batch), 'update')} of {batch} follow "
            f"each {rollout.rows} rows: each row is sampled {_count(rollout.epochs, 'time')}"
        )
    if rounds.episodes:
        total = _count(rounds.actors * rounds.episodes, "episode")
        learned = f"a replay ratio of {ratio:g}"
        if config.round_updates == "steps":
            learned = f"1 update of {batch} for each step"
        elif updates:
            learned = f"{_count(updates, 'update')} of {batch}"
        return f"{who}, {_count(rounds.episodes, 'episode')} each = {total}; then {learned}"
    steps = rounds.windows * config.horizon
    rows = rounds.actors * seats * steps
    if updates:
        ratio = updates * batch / rows
    learned = _count(updates or ratio * rows / batch, "update")
    return (
        f"{who} x {_count(steps, 'step')} = {_count(rows, 'row')}; then {learned} of {batch}: "
        f"each row is sampled {_count(ratio, 'time')}"
    )


def _count(number: float, noun: str) -> str:
    written = f"{number:.0f}" if number == int(number) else f"{number:.3g}"
    return f"{written} {noun}{'' if number == 1 else 's'}"
