"""The delivery of one policy among several: its learner may fall silent while the others go on.

A policy of which the learner takes nothing for `AWAY_S` is away. Then its agents act on the last
weights, its waiting rows are dropped, oldest first, and so are those of each further window, all
counted. It is back as soon as its learner is heard and has room. No sockets.

In rounds the rows that belong to a round are kept, and a policy is away too if one of them was
refused: that round never ends.
"""

import logging
from collections.abc import Sequence

from farflung.actor.connection.archive import Archive
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.port import ConnectionStatus, Joined, Newest, Work
from farflung.actor.realtime.alone import WithoutLearner
from farflung.common.data.parcel import Parcel
from farflung.common.protocol.messages import State

log = logging.getLogger(__name__)

AWAY_S = 10.0  # in which a learner took nothing: from then on the others do not wait for it
QUIET_S = 3.0  # without a beacon: its rows wait, and the world does not
LEARNER_AWAY = "learner away"
NO_ROUND = "no round"  # is what spare windows belong to


class PolicyDelivery:
    """One policy, with a client for it at each address; the one that found the learner counts."""

    def __init__(self, clients: Sequence[PolicyClient], answer: WithoutLearner, now: float) -> None:
        self.policy, self.client = clients[0].policy, clients[0]
        self.away = False
        self._quiet = False  # likely away soon: rows wait meanwhile, and the world does not
        self._clients, self._answer = list(clients), answer
        self._took_at = self._now = now
        self._dropped = 0  # rows, since the learner is away
        self._joined: Joined | None = None  # at the last look
        self._refused = 0  # parcels, before that run
        self._named = 0  # the second learner that was named last

    @property
    def work(self) -> Work:
        """Figures of this policy, for reports."""
        return self.client.work

    @property
    def newest(self) -> Newest:
        """The newest that came."""
        return self.client.newest

    @property
    def archive(self) -> Archive:
        """The archived versions that were asked for."""
        return self.client.archive

    @property
    def status(self) -> ConnectionStatus:
        """The state as of the last look."""
        return self.client.status(self._now)

    @property
    def rows(self) -> int:
        """All that its players have recorded, also if that was dropped."""
        return self.client.outbox.ledger.collected.rows

    @property
    def may_play(self) -> bool:
        """Another window may begin: all parcels before it have left, or nothing can leave."""
        return self.client.may_play or self._quiet

    def offer(self, joined: Joined, parcel: Parcel) -> bool:
        """Take a parcel of a run to send, or drop it while the learner is away.

        False: there is no room.
        """
        of_none = joined.spec.rounds is not None and not parcel.evaluation  # if it has no place
        if parcel.place is None and (self.away or of_none):
            reason = LEARNER_AWAY if self.away else NO_ROUND
            self.client.outbox.ledger.miss(reason, 1, parcel.rows)
            self._dropped += parcel.rows if self.away else 0
            return True
        return self.client.offer_of(joined, parcel)

    def want(self, index: int) -> None:
        """Ask for this place, at each address."""
        for client in self._clients:
            client.want(index)

    def problem(self, kind: str, text: str) -> None:
        """Send a problem to the learner's screen."""
        self.client.problem(kind, text)

    def pass_time(self, now: float) -> None:
        """Note the time of an exchange, by which `status` is judged."""
        self._now = now

    def look(self, now: float) -> None:
        """Decide whether the learner is away, for a policy that has others beside it."""
        self._now = now
        joined = self.client.joined
        if joined is not self._joined:
            self._joined, self._refused = joined, self._refusals
        waits = joined is None or self._answer is WithoutLearner.STOP
        if waits or self._takes(now):
            self._took_at = now
            if self.away:
                self._return()
        elif now - self._took_at >= AWAY_S:
            self._leave()
        quiet = self.client.tracker.quiet_s(now) >= QUIET_S
        self._quiet = self.away or (quiet and not waits and not self._in_rounds)

    def choose(self, now: float) -> PolicyClient | None:
        """Let the client count that found the learner; return one that found the same learner too.

        The first one that is found counts, until it is silent and another one is there.
        """
        for client in self._clients:
            if client is self.client or client.joined is None or not client.tracker.sends(now):
                continue
            if self.client.joined is None or self.client.tracker.quiet_s(now) >= AWAY_S:
                self.client, self._took_at = client, now
            elif client.tracker.learner_id == self.client.tracker.learner_id:
                self._clients.remove(client)
                return client
            else:
                self._name_rival(client)
        return None

    def _takes(self, now: float) -> bool:
        """Return whether the learner is heard and has room, as far as one can know."""
        client = self.client
        if not client.listens(now) or client.tracker.quiet_s(now) >= QUIET_S:
            return False
        if client.state is State.PAUSE:
            return False
        if self._in_rounds:
            return self._refusals == self._refused
        return client.outbox.has_credit or (client.may_play and not self.away)

    @property
    def _in_rounds(self) -> bool:
        return self._joined is not None and self._joined.spec.rounds is not None

    @property
    def _refusals(self) -> int:
        return sum(tally.parcels for tally in self.client.outbox.ledger.refused.values())

    def _leave(self) -> None:
        outbox = self.client.outbox
        if not self._in_rounds:
            self._dropped += outbox.ledger.waiting.rows
            outbox.drop_waiting(LEARNER_AWAY)
        if not self.away:
            self.away = True
            if self.client.state is State.STOP:
                text = "the run of %s is over: its agents go on with version %s"
                log.info(text, self.policy, self.client.tracker.held)
                return
            log.warning(
                "the learner of %s has taken nothing for %.0f s: its agents go on with version %s, "
                "and their rows are dropped (--without-learner stop waits instead)",
                self.policy,
                AWAY_S,
                self.client.tracker.held,
            )

    def end(self) -> None:
        """Log the rows that were dropped, if the learner is still away."""
        if self.away:
            log.warning("the learner of %s is still away: %s", self.policy, self._lost)

    def _return(self) -> None:
        self.away = False
        log.info("the learner of %s is back: %s", self.policy, self._lost)
        self.problem("away", self._lost)
        self._dropped = 0

    @property
    def _lost(self) -> str:
        return f"{self._dropped:,} rows were dropped while this learner took nothing"

    def _name_rival(self, other: PolicyClient) -> None:
        """Say that this policy has a second learner, in the log and on both screens."""
        ours, second = self.client.tracker, other.tracker
        sentence = (
            f"two learners train policy {self.policy}: {ours.learner_id:x} in run {ours.run}, "
            f"which is obeyed, and {second.learner_id:x} in run {second.run} at another address. "
            "Stop one of them, or start it with another --policy"
        )
        if second.learner_id != self._named:
            self._named = second.learner_id
            log.warning("%s", sentence)
            for client in (self.client, other):
                client.problem("rival", sentence)
