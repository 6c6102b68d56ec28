"""The reasons for which a learner refuses a command, as sentences."""

REASONS = {
    "no effect": "it would have no effect in this run; the learner's log says why",
    "busy": "an evaluation is being played: ask again once it has ended",
    "epoch": "it was for an earlier start of the learner",
    "run": "it was for another run",
    "rate": "too many commands in a short time: ask again in a moment",
    "disk": "it cannot be written down: look at the disk of the run",
    "kind": "this learner takes no commands: it is of an older release",
    "command": "it does not know this command: is it of an older release?",
    "key": "it does not know one of these settings: is it of an older release?",
    "value": "a value is beyond its bounds",
}


def meaning(reason: str) -> str:
    """Return the sentence of a reason."""
    return REASONS.get(reason, reason)
