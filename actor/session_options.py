"""The options of a session that cannot be, or cannot work together."""

from farflung.actor.realtime.alone import Answer, WithoutLearner
from farflung.actor.realtime.clock import MOST_HZ
from farflung.common.process.errors import ConfigurationError


def require_options(seats: int, rate: float, evaluate: bool, without_learner: Answer) -> None:
    """Refuse options that no session has."""
    if seats < 1:
        raise ConfigurationError(f"seats={seats}: a session has at least one")
    if rate and not 0 < rate <= MOST_HZ:  # NaN is not either
        raise ConfigurationError(f"rate={rate:g}: choose one up to {MOST_HZ:,} Hz")
    if without_learner is not WithoutLearner.GO_ON and (evaluate or not rate):
        raise ConfigurationError(
            "without_learner= is about the steps that a session collects at a fixed rate: "
            "open it with rate=HZ, and without evaluate=True"
        )
