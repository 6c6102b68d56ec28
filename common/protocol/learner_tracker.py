"""The learner that an actor obeys: the highest epoch of its run, then the highest version."""

from collections.abc import Callable
from enum import Enum

from farflung.common.data.weights import Version
from farflung.common.protocol.messages import Acknowledgement, Announcement, Beacon, State
from farflung.common.protocol.rivals import NEVER, RIVAL_S, RUNS, Life, Rivals, sentence

SILENCE_S = 8.0  # without a message, or without an answer: the connection is rebuilt
UNACKNOWLEDGED_S = 3.0  # beacons come, but no acknowledgement of ours
BEHIND_S = 1.0  # a version was announced and has not come
RETRY_S = 2.0  # until a snapshot is asked for again
DOUBLINGS = 2  # of waiting times, from one vain attempt to the next: 8, 16, then 32 s


class Verdict(Enum):
    """The meaning of a message's origin."""

    KNOWN = "known"
    FIRST = "first contact"
    NEWER = "newer epoch"  # the learner was started again: resend all
    NEW_RUN = "new run"  # drop what is unacknowledged, take new spec and weights
    STALE = "stale"  # of an epoch that is over
    RIVAL = "rival"  # another learner alternates with ours

    @property
    def obeyed(self) -> bool:
        """The message counts."""
        return self not in (Verdict.STALE, Verdict.RIVAL)


class Action(Enum):
    """The next action of a connection."""

    NOTHING = "nothing"
    ASK = "ask"  # subscribe to a fresh nonce and send a hello
    REBUILD = "rebuild"  # make both sockets again, resend all, ask


class LearnerTracker:
    """One actor's view of the learner of one policy. `draw` returns a fresh random nonce."""

    def __init__(self, draw: Callable[[], int]) -> None:
        self.run = ""
        self.learner_id = 0
        self.epoch = 0
        self.held: Version | None = None  # the weights in use
        self.nonce: int | None = None  # of the snapshot that was asked for and has not come
        self.confirmed = 0  # the nonce of the last one that came: a hello names it
        self._draw = draw
        self._wanted = False
        self._asks = 0  # in vain
        self._asked_at = NEVER
        self._built_at = NEVER
        self._builds = 0  # since the last answer
        self._seen_at = NEVER
        self._contact_at = NEVER  # the end of the last long silence
        self._obeyed_at = NEVER  # the last message of the obeyed learner
        self._acknowledged_at = NEVER
        self._behind: tuple[Version, float] | None = None
        self._restoring = False
        # The highest version of each run: a run that comes back does not go back.
        self._reached: dict[str, Version] = {}
        self._former = 0  # the learner that was obeyed before this one
        self._changed_at = NEVER
        self._odd_since: float | None = None  # beacons of ours name older weights than came
        self._rivals = Rivals()
        self._outlived_at = NEVER  # the last message of an epoch that is over

    def connected(self, now: float) -> None:
        """Note that the sockets were made, for the first time or again."""
        self._built_at = now
        self._builds += 1

    def beacon(self, beacon: Beacon, now: float) -> Verdict:
        """Judge a beacon; if it is obeyed, note the version that it names."""
        verdict = self._judge(beacon.run, beacon.learner_id, beacon.version.epoch, now)
        if verdict.obeyed:
            self._restoring = beacon.state is State.RESTORING
            newest = beacon.version
            if self._restoring:
                self._behind = None  # its next version comes when it has restored
            elif self._behind is None and self.held is not None and self.held < newest:
                self._behind = newest, now
            self._compare(newest, now)
        return verdict

    def announcement(self, announcement: Announcement, now: float) -> Verdict:
        """Judge an announced spec."""
        return self._judge(announcement.spec.run, announcement.learner_id, announcement.epoch, now)

    def acknowledgement(self, acknowledgement: Acknowledgement, now: float) -> bool:
        """Return whether an acknowledgement counts: it does from the obeyed learner only."""
        origin = acknowledgement.run, acknowledgement.learner_id, acknowledgement.epoch
        if origin != (self.run, self.learner_id, self.epoch):
            return False
        self._acknowledged_at = now
        if acknowledgement.highest > 0:
            self._rivals.note_kept(Life(self.run, self.learner_id, self.epoch))
        return True

    def take(self, run: str, version: Version, now: float) -> bool:
        """Return whether weights are to be used, and count them as held then.

        They are if they are of this run, of no epoch that is over, and newer than those held. The
        versions of two learners in one epoch cannot be told apart: none is taken.
        """
        if run != self.run or version < self._reached[run] or version == self.held:
            return False
        if self._rivals.copied(now) and version.epoch == self.epoch:
            return False
        self.held = self._reached[run] = version
        if self._behind is not None and version >= self._behind[0]:
            self._behind = None
        return True

    def ask(self, now: float) -> int:
        """Return a fresh nonce to subscribe to, in place of the one before."""
        self.nonce = self._draw()
        self._wanted = False
        self._asks += 1
        self._asked_at = now
        return self.nonce

    def want(self, now: float, *, at_once: bool) -> None:
        """Let a snapshot be asked for: at once, in place of an open question, or now and then."""
        if at_once or (self.nonce is None and now - self._asked_at >= RETRY_S):
            self._wanted, self.nonce = True, None

    def arrived(self, nonce: int) -> bool:
        """Note that the snapshot of a nonce is here, spec and weights.

        Return whether it is the one asked for: then unsubscribe, and send a hello with it.
        """
        if nonce != self.nonce:
            return False
        self.nonce, self.confirmed, self._asks = None, nonce, 0
        return True

    @property
    def vain_asks(self) -> int:
        """The count of unanswered questions for a snapshot to a learner that sends."""
        return self._asks if self.run else 0

    def silence(self, now: float) -> float:
        """Return the seconds since the last message, or since the sockets were made."""
        return now - max(self._seen_at, self._built_at)

    def quiet_s(self, now: float) -> float:
        """Return the seconds since the last message."""
        return now - self._seen_at

    def contested(self, now: float) -> bool:
        """Return whether two learners claim this address; nothing is sent until one is left."""
        return self._rivals.contested(now)

    def rivalry(self, run: str, learner_id: int, epoch: int, now: float) -> str:
        """Return a sentence about a second learner at the address of ours."""
        ours, other = Life(self.run, self.learner_id, self.epoch), Life(run, learner_id, epoch)
        return sentence(ours, other, alone=now - self._obeyed_at >= RIVAL_S)

    def outlived(self, now: float) -> bool:
        """Return whether only an epoch of our run is there that is over.

        A copy of the run went further, and is gone.
        """
        return now - self._outlived_at < UNACKNOWLEDGED_S <= self.silence(now)

    def sends(self, now: float) -> bool:
        """Return whether there is a learner to send to: seen lately, and the only one."""
        return bool(self.run) and now - self._seen_at < SILENCE_S and not self.contested(now)

    def outdated_s(self, now: float) -> float:
        """Return how long a newer version has been known and has not come.

        Only time in which its learner was seen counts. A snapshot was asked for after the first
        second, and again and again since.
        """
        if self._behind is None or not self.sends(now):
            return 0.0
        return max(0.0, now - max(self._behind[1], self._contact_at))

    def due(self, now: float, *, drained: bool, unanswered_since: float | None) -> Action:
        """Return the action that is due.

        Silence is judged only after the feed was read to its end (`drained`): unread messages are
        no silence. `unanswered_since` is the outbox's. After REBUILD call connected(), after
        either action ask().
        """
        if not drained or self.contested(now):
            return Action.NOTHING
        is_answered = unanswered_since is None or unanswered_since > self._built_at
        if self._seen_at > self._built_at and is_answered:
            self._builds = 1
        if self._dead(now, unanswered_since):
            return Action.REBUILD
        return Action.ASK if self._lacks(now) else Action.NOTHING

    def _judge(self, run: str, learner_id: int, epoch: int, now: float) -> Verdict:
        if run in self._reached and epoch < self._reached[run].epoch:
            return self._judge_old(run, now)
        if self._is_copy(run, learner_id, epoch, now):
            self._rivals.note_copy(now)
            return Verdict.RIVAL
        if now - self._seen_at >= UNACKNOWLEDGED_S:
            self._contact_at = now
        self._seen_at = now
        if not self.run:
            self._wanted = self.nonce is None
            return self._adopt(run, learner_id, epoch, now, Verdict.FIRST)
        if run == self.run and epoch == self.epoch and learner_id == self.learner_id:
            self._obeyed_at = now
            return Verdict.KNOWN
        if not (run == self.run and epoch > self.epoch) and self._alternates(learner_id, now):
            self._rivals.note_rival(now)
            return Verdict.RIVAL
        self._wanted, self.nonce = True, None
        verdict = Verdict.NEWER if run == self.run else Verdict.NEW_RUN
        return self._adopt(run, learner_id, epoch, now, verdict)

    def _judge_old(self, run: str, now: float) -> Verdict:
        """Judge a message of an epoch that is over: late, or of a second learner of our run.

        Nothing is sent to such a learner, so it does not count as seen.
        """
        if run != self.run:
            return Verdict.STALE
        self._outlived_at = now
        lives = self._rivals.note_old_epoch(now, self._obeyed_at)
        return Verdict.RIVAL if lives else Verdict.STALE

    def _is_copy(self, run: str, learner_id: int, epoch: int, now: float) -> bool:
        """Return whether this is another learner in an epoch that we know, not to be obeyed."""
        second = (run, epoch) == (self.run, self.epoch) and learner_id != self.learner_id
        if second:
            self._doubt_weights()
        alone = now - self._obeyed_at >= RIVAL_S
        return (second and not alone) or self._rivals.lacks(Life(run, learner_id, epoch))

    def _compare(self, newest: Version, now: float) -> None:
        """Doubt weights that are newer than those that our learner names for some time."""
        if self._reached[self.run] <= newest:
            self._odd_since = None
        elif self._odd_since is None:
            self._odd_since = now
        elif now - self._odd_since >= UNACKNOWLEDGED_S:
            self._doubt_weights()

    def _doubt_weights(self) -> None:
        """Ask for weights again: those held may be of another learner in the epoch of ours."""
        self.held, self._wanted, self._behind = None, True, None
        self._reached[self.run] = Version(self.epoch, 0)

    def _alternates(self, learner_id: int, now: float) -> bool:
        if self.contested(now):
            return now - self._obeyed_at < RIVAL_S  # else ours fell silent: the other has won
        return learner_id == self._former and now - self._changed_at < RIVAL_S

    def _adopt(
        self, run: str, learner_id: int, epoch: int, now: float, verdict: Verdict
    ) -> Verdict:
        if run != self.run:
            self.held = None
        self._reached[run] = max(self._reached.pop(run, Version(0, 0)), Version(epoch, 0))
        if len(self._reached) > RUNS:
            del self._reached[next(iter(self._reached))]
        self._former, self._changed_at = self.learner_id, now
        self.run, self.learner_id, self.epoch = run, learner_id, epoch
        self._obeyed_at = self._acknowledged_at = now
        self._rivals.forget()
        self._behind = None
        # The question that was asked before the first contact counts: it has not been answered.
        self._asks = int(verdict is Verdict.FIRST and self.nonce is not None)
        return verdict

    def _dead(self, now: float, unanswered_since: float | None) -> bool:
        patience_s = SILENCE_S * _growth(self._builds)
        if now - max(self._seen_at, self._built_at) >= patience_s:
            return True
        if unanswered_since is None or self._restoring:
            return False
        return now - max(unanswered_since, self._built_at, self._contact_at) >= patience_s

    def _lacks(self, now: float) -> bool:
        """Return whether a snapshot is to be asked for."""
        if not self.run or now - self._seen_at >= UNACKNOWLEDGED_S:
            return False  # no learner: subscriptions stand, and are repeated at the reconnect
        if self.nonce is not None:
            return now - max(self._asked_at, self._contact_at) >= RETRY_S * _growth(self._asks)
        is_behind = self._behind is not None and now - self._behind[1] >= BEHIND_S
        if self._wanted or (is_behind and now - self._asked_at >= RETRY_S):
            return True
        known_at = max(self._acknowledged_at, self._asked_at, self._contact_at)
        return not self._restoring and now - known_at >= UNACKNOWLEDGED_S


def _growth(attempts: int) -> int:
    return 1 << max(0, min(attempts - 1, DOUBLINGS))
