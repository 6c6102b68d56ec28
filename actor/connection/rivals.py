"""The sentence about two learners at one address."""

from farflung.common.protocol.learner_tracker import LearnerTracker


def rivals(ours: LearnerTracker, run: str, learner_id: int, epoch: int) -> str:
    """Return a sentence about a second learner at the address of ours."""
    if run != ours.run:
        return (
            f"two learners publish at this address in turns ({ours.learner_id:x} and "
            f"{learner_id:x}): waiting until one is left"
        )
    first = f"learner {ours.learner_id:x} in epoch {ours.epoch}"
    both = f"{first} and learner {learner_id:x} in epoch {epoch}"
    return (
        f"two learners of the same run {run} publish here, as when its folder was copied "
        f"({both}): waiting until one is stopped"
    )
