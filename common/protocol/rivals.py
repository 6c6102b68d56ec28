"""Learners beside the obeyed one: at its address, in its run, or in its very epoch.

Each start of a run has an epoch of its own. So two learners in one epoch of a run are proof that
one of them runs in a copy of the other's folder. Nothing is sent to either while both are there.
The obeyed one goes on once the other is silent. The other is obeyed in this epoch only if the
obeyed one is silent and acknowledged nothing, as if the actor started now: else it may lack what
was acknowledged. A higher epoch ends all this.
"""

from typing import NamedTuple

RIVAL_S = 10.0  # two learners that alternate within it are rivals
ECHO_S = 0.5  # a living learner sends every second; late messages of a dead one come together
ECHOES = 3  # times that an old epoch must alternate with ours until its learner is known to live
RUNS = 64  # remembered, at most
NEVER = float("-inf")


class Life(NamedTuple):
    """One start of a learner."""

    run: str
    learner_id: int
    epoch: int


class _Echo(NamedTuple):
    """An epoch of our run that is over, and was received all the same."""

    at: float  # the time of the last one that counted
    times: int  # in turns with ours


class Rivals:
    """The signs of life of learners that are not obeyed. While there are any, nothing is sent."""

    def __init__(self) -> None:
        self._rival_at = NEVER
        self._echo = _Echo(NEVER, 0)
        self._copied_at = NEVER  # another learner in the epoch of ours
        self._keepers: dict[str, Life] = {}  # of each run, the one that acknowledged something last

    def contested(self, now: float) -> bool:
        """Return whether a second learner was received lately."""
        return now - max(self._rival_at, self._copied_at) < RIVAL_S

    def copied(self, now: float) -> bool:
        """Return whether the second learner was in the epoch of ours."""
        return now - self._copied_at < RIVAL_S

    def note_rival(self, now: float) -> None:
        """Note a message of a learner that alternates with ours."""
        self._rival_at = now

    def note_copy(self, now: float) -> None:
        """Note a message of another learner in the epoch of ours."""
        self._copied_at = now

    def note_kept(self, life: Life) -> None:
        """Note that a learner acknowledged numbers of ours."""
        self._keepers.pop(life.run, None)
        self._keepers[life.run] = life
        if len(self._keepers) > RUNS:
            del self._keepers[next(iter(self._keepers))]

    def lacks(self, life: Life) -> bool:
        """Return whether another learner in this epoch has what this one may lack."""
        keeper = self._keepers.get(life.run, life)
        return keeper.epoch == life.epoch and keeper != life

    def note_old_epoch(self, now: float, obeyed_at: float) -> bool:
        """Note a message of an epoch that is over; return whether its learner is known to live."""
        echo = self._echo
        if now - echo.at >= RIVAL_S:
            self._echo = _Echo(now, 1)
        elif now - echo.at >= ECHO_S and obeyed_at > echo.at:
            self._echo = _Echo(now, echo.times + 1)
        if self._echo.times < ECHOES:
            return False
        self._rival_at = now
        return True

    def forget(self) -> None:
        """Forget the rivals: another learner is obeyed from now on."""
        self._rival_at = self._copied_at = NEVER


def sentence(ours: Life, other: Life, *, alone: bool) -> str:
    """Return a sentence about a second learner, which may be the only one that is left."""
    if other.run != ours.run:
        return (
            f"two learners publish at this address in turns ({ours.learner_id:x} and "
            f"{other.learner_id:x}): waiting until one is left"
        )
    first = f"learner {ours.learner_id:x} in epoch {ours.epoch}"
    if other.epoch == ours.epoch and alone:
        return (
            f"only learner {other.learner_id:x} of run {ours.run} is received, and {first} "
            "acknowledged parcels in that same epoch: one runs in a copy of the other's folder. "
            "Stop the copy, and let the original continue with --resume"
        )
    return (
        f"two learners of the same run {ours.run} publish here, as when its folder was copied "
        f"({first} and learner {other.learner_id:x} in epoch {other.epoch}): "
        "waiting until one is stopped"
    )
