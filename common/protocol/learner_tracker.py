"""Whom an actor obeys: the highest epoch of its run, then the highest version; and what to do when it hears too little."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from farflung.common.data.version import Version
from farflung.common.protocol.messages import Announcement, Beacon, State

SILENCE_S = (
    8.0  # without hearing anything, or without an acknowledgement: the connection is made anew
)
LINELESS_S = 3.0  # beacons come, but without a line of ours
BEHIND_S = 1.0  # a version was announced and has not come
RETRY_S = 2.0  # until a snapshot is asked for again
RIVAL_S = 10.0  # two learners that alternate within it are rivals
ECHO_S = 0.5  # who lives speaks every second; the late words of one who died come together
ECHOES = 3  # times that an epoch that is over must be heard in turns with ours until its learner is known to live
DOUBLINGS = 2  # of waiting times, from one vain attempt to the next: 8, 16, then 32 s
RUNS = 64  # remembered, at most
NEVER = float("-inf")


class Verdict(Enum):
    """What the origin of a message means."""

    KNOWN = "known"
    FIRST = "first contact"
    NEWER = "newer epoch"  # the learner was started again: resend all
    NEW_RUN = "new run"  # drop what is unacknowledged, take spec and weights anew
    STALE = "stale"  # of an epoch that is over
    RIVAL = "rival"  # another learner speaks in turns with ours

    @property
    def obeyed(self) -> bool:
        """Whether the message counts."""
        return self not in (Verdict.STALE, Verdict.RIVAL)


class Action(Enum):
    """What the link has to do."""

    NOTHING = "nothing"
    ASK = "ask"  # subscribe to a fresh nonce and say hello
    REBUILD = "rebuild"  # make both sockets anew, resend all, ask


class _Echo(NamedTuple):
    """An epoch of our run that is over was heard all the same."""

    at: float  # when that last counted
    times: int  # in turns with ours


class LearnerTracker:
    """One actor's view of the learner of one policy. `draw` gives a fresh random nonce."""

    def __init__(self, draw: Callable[[], int]) -> None:
        self.run = ""
        self.life = 0
        self.epoch = 0
        self.held: Version | None = None  # the weights in use
        self.nonce: int | None = None  # the snapshot asked for and not yet here
        self.confirmed = 0  # the nonce of the last one that came: a hello names it
        self._draw = draw
        self._wanted = False
        self._asks = 0  # in vain
        self._asked_at = NEVER
        self._built_at = NEVER
        self._builds = 0  # since something was last answered
        self._heard_at = NEVER
        self._contact_at = NEVER  # since when there was no long silence
        self._life_at = NEVER  # our own learner's last word
        self._line_at = NEVER
        self._behind: tuple[Version, float] | None = None
        self._restoring = False
        self._reached: dict[
            str, Version
        ] = {}  # the highest of each run: a run that comes back does not go back
        self._former = 0  # the life that was obeyed before this one
        self._changed_at = NEVER
        self._rival_at = NEVER
        self._echo = _Echo(NEVER, 0)
        self._outlived_at = NEVER  # when an epoch that is over was last heard

    def connected(self, now: float) -> None:
        """The sockets were made, for the first time or anew."""
        self._built_at = now
        self._builds += 1

    def beacon(self, beacon: Beacon, now: float) -> Verdict:
        """Judge a beacon; if it is obeyed, take note of the version it names."""
        verdict = self._hear(beacon.run, beacon.learner_id, beacon.version.epoch, now)
        if verdict.obeyed:
            self._restoring = beacon.state is State.RESTORING
            newest = beacon.version
            if self._restoring:
                self._behind = (
                    None  # its next version comes when it has restored, however long that takes
                )
            elif self._behind is None and self.held is not None and self.held < newest:
                self._behind = newest, now
        return verdict

    def announcement(self, announcement: Announcement, now: float) -> Verdict:
        """Judge an announced spec."""
        return self._hear(announcement.spec.run, announcement.learner_id, announcement.epoch, now)

    def line(self, now: float) -> None:
        """An obeyed beacon had a line about this life of ours: the learner knows us."""
        self._line_at = now

    def take(self, run: str, version: Version) -> bool:
        """Whether weights are to be used: of this run, of an epoch that is not over, newer than those held. They count as held then."""
        if run != self.run or version < self._reached[run] or version == self.held:
            return False
        self.held = self._reached[run] = version
        if self._behind is not None and version >= self._behind[0]:
            self._behind = None
        return True

    def ask(self, now: float) -> int:
        """A fresh nonce to subscribe to, in place of the one before."""
        self.nonce = self._draw()
        self._wanted = False
        self._asks += 1
        self._asked_at = now
        return self.nonce

    def arrived(self, nonce: int) -> bool:
        """The snapshot of a nonce is here, spec and weights. True if it is the one asked for: unsubscribe, and say hello with it."""
        if nonce != self.nonce:
            return False
        self.nonce, self.confirmed, self._asks = None, nonce, 0
        return True

    @property
    def vain_asks(self) -> int:
        """How often a snapshot was asked for of a learner that speaks, without an answer."""
        return self._asks if self.run else 0

    def silence(self, now: float) -> float:
        """Seconds since anything was heard, or since the sockets were made."""
        return now - max(self._heard_at, self._built_at)

    def contested(self, now: float) -> bool:
        """Whether two learners claim this address. Their names go to the screen, and nothing is sent until one is left."""
        return now - self._rival_at < RIVAL_S

    def outlived(self, now: float) -> bool:
        """Whether all that is heard is a learner of our run whose epoch is over: a copy of the run went further, and is gone."""
        return now - self._outlived_at < LINELESS_S <= self.silence(now)

    def sends(self, now: float) -> bool:
        """Whether there is a learner to send parcels to: heard lately, and the only one."""
        return bool(self.run) and now - self._heard_at < SILENCE_S and not self.contested(now)

    def outdated_s(self, now: float) -> float:
        """For how long a newer version than the one in use has been known and has not come, while its learner was heard.

        A snapshot was asked for after the first second, and again and again since.
        """
        if self._behind is None or not self.sends(now):
            return 0.0
        return max(0.0, now - max(self._behind[1], self._contact_at))

    def due(self, now: float, *, drained: bool, unanswered_since: float | None) -> Action:
        """What to do now. Silence is judged only after the feed was read to its end (`drained`): what is unread is not silence.

        `unanswered_since` is the outbox's. After REBUILD call connected(), after either action ask().
        """
        if not drained or self.contested(now):
            return Action.NOTHING
        if self._heard_at > self._built_at and (
            unanswered_since is None or unanswered_since > self._built_at
        ):
            self._builds = 1
        if self._dead(now, unanswered_since):
            return Action.REBUILD
        return Action.ASK if self._lacks(now) else Action.NOTHING

    def _hear(self, run: str, life: int, epoch: int, now: float) -> Verdict:
        if run in self._reached and epoch < self._reached[run].epoch:
            return self._hear_again(run, now)
        if now - self._heard_at >= LINELESS_S:
            self._contact_at = now
        self._heard_at = now
        if not self.run:
            self._wanted = self.nonce is None
            return self._adopt(run, life, epoch, now, Verdict.FIRST)
        if run == self.run and epoch == self.epoch and life == self.life:
            self._life_at = now
            return Verdict.KNOWN
        if not (run == self.run and epoch > self.epoch) and self._rivals(life, now):
            self._rival_at = now
            return Verdict.RIVAL
        self._wanted, self.nonce = True, None
        return self._adopt(
            run, life, epoch, now, Verdict.NEWER if run == self.run else Verdict.NEW_RUN
        )

    def _hear_again(self, run: str, now: float) -> Verdict:
        """An epoch that is over speaks: late words, or a second life of our run. It is nobody to send to, so it does not count as heard."""
        if run != self.run:
            return Verdict.STALE
        self._outlived_at = now
        echo = self._echo
        if now - echo.at >= RIVAL_S:
            self._echo = _Echo(now, 1)
        elif now - echo.at >= ECHO_S and self._life_at > echo.at:
            self._echo = _Echo(now, echo.times + 1)
        if self._echo.times < ECHOES:
            return Verdict.STALE
        self._rival_at = now
        return Verdict.RIVAL

    def _rivals(self, life: int, now: float) -> bool:
        if self.contested(now):
            return now - self._life_at < RIVAL_S  # else ours has fallen silent: the other has won
        return life == self._former and now - self._changed_at < RIVAL_S

    def _adopt(self, run: str, life: int, epoch: int, now: float, verdict: Verdict) -> Verdict:
        if run != self.run:
            self.held = None
        self._reached[run] = max(self._reached.pop(run, Version(0, 0)), Version(epoch, 0))
        if len(self._reached) > RUNS:
            del self._reached[next(iter(self._reached))]
        self._former, self._changed_at = self.life, now
        self.run, self.life, self.epoch = run, life, epoch
        self._life_at = self._line_at = now
        self._rival_at = NEVER
        self._behind = None
        self._asks = 0
        return verdict

    def _dead(self, now: float, unanswered_since: float | None) -> bool:
        patience_s = SILENCE_S * _growth(self._builds)
        if now - max(self._heard_at, self._built_at) >= patience_s:
            return True
        if unanswered_since is None or self._restoring:
            return False
        return now - max(unanswered_since, self._built_at, self._contact_at) >= patience_s

    def _lacks(self, now: float) -> bool:
        """Whether a snapshot is to be asked for."""
        if not self.run or now - self._heard_at >= LINELESS_S:
            return False  # nobody there: what is subscribed stands, and is repeated when the connection comes
        if self.nonce is not None:
            return now - max(self._asked_at, self._contact_at) >= RETRY_S * _growth(self._asks)
        if self._wanted:
            return True
        if (
            self._behind is not None
            and now - self._behind[1] >= BEHIND_S
            and now - self._asked_at >= RETRY_S
        ):
            return True
        return (
            not self._restoring
            and now - max(self._line_at, self._asked_at, self._contact_at) >= LINELESS_S
        )


def _growth(attempts: int) -> int:
    return 1 << max(0, min(attempts - 1, DOUBLINGS))
