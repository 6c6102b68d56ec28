"""The upkeep of an actor beside its steps: the account, the heartbeat, the end it must come to."""

import logging

from farflung.actor.account import Account
from farflung.actor.connection.port import Connections
from farflung.actor.rules import Rules
from farflung.common.process.errors import Exit, PolicyTooOld
from farflung.common.process.lifecycle import Stop
from farflung.common.process.log import Who
from farflung.common.protocol.messages import State

log = logging.getLogger(__name__)

LOOK_S = 0.01  # between two looks: windows of one environment are handed over more often


class Upkeep:
    """Looks after an actor now and then: after an exchange of messages."""

    def __init__(self, connection: Connections, rules: Rules, stop: Stop, who: Who) -> None:
        self.account = Account(rules.evaluates)
        self._connection, self._rules, self._stop, self._who = connection, rules, stop, who
        self._look_at = float("-inf")

    def look(self, now: float) -> None:
        """Write the account and the heartbeat; stop without a learner, raise at an old policy."""
        if now < self._look_at:
            return
        self._look_at, connection = now + LOOK_S, self._connection
        if line := self.account.line(now, connection.work, self._who.version):
            log.info(line)
        statuses = [delivery.status for delivery in connection.deliveries.values()]
        for status in statuses:
            if 0 < self._rules.max_policy_age_s <= status.outdated_s:
                raise PolicyTooOld(
                    f"for {status.outdated_s:.0f} s a newer policy than version {status.held} has "
                    "been announced and has not come, although it was asked for: "
                    f"--max-policy-age is {self._rules.max_policy_age_s:g}"
                )
        if self._rules.heartbeat.lost(any(status.sends for status in statuses), now):
            # An actor that plays for one run only may have missed its end.
            code = 0 if self._rules.once else Exit.UNAVAILABLE
            self._stop.set(f"no learner answers at {connection.address}", code)

    @property
    def over(self) -> bool:
        """True when the process must end."""
        if self._rules.once and self._has_ended:
            self._stop.set("the run is over")
        return bool(self._stop)

    @property
    def _has_ended(self) -> bool:
        """True when the runs of all policies are over that learn."""
        deliveries = self._connection.deliveries.values()
        newest = ((delivery, delivery.newest.joined) for delivery in deliveries)
        learned = [one for one, joined in newest if joined is None or not joined.spec.frozen]
        return all(delivery.status.state is State.STOP for delivery in learned)
