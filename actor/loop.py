"""The actor's loop: join, collect windows or play evaluations, send what came of it, and join again when another run is there."""

import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from farflung.actor import worker
from farflung.actor.connection.policy_client import Joined
from farflung.actor.connection.sockets import PUMP_S, WAIT_S, Connection
from farflung.actor.heartbeat import Heartbeat
from farflung.actor.worker import Means, Place
from farflung.actor.worlds.seats import Seats
from farflung.common.data.parcel import Parcel
from farflung.common.data.version import Version
from farflung.common.process.errors import ConfigurationError, PolicyTooOld
from farflung.common.process.exits import Exit
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.common.protocol.messages import State

log = logging.getLogger(__name__)


class ActorLoop:
    """One actor at work over one link."""

    def __init__(
        self,
        link: Connection,
        means: Means,
        stop: Stop,
        watchdog: Watchdog,
        who: Who,
        allowed: tuple[str, ...],
        once: bool,
        max_policy_age_s: float = 0.0,
        contact: Heartbeat | None = None,
    ) -> None:
        self._link, self._client, self._work = link, link.client, link.client.work
        self._means, self._stop, self._watchdog, self._who = means, stop, watchdog, who
        self._clock = means.clock
        self._allowed, self._once, self._max_policy_age_s = allowed, once, max_policy_age_s
        self._contact = contact or Heartbeat()
        self._pumped_at = 0.0

    def run(self, evaluates: bool) -> None:
        """Until somebody says stop, or (`once`) until the run is over."""
        while (joined := self._join()) is not None:
            if evaluates:
                self._evaluate(joined)
            else:
                self._collect(joined)

    def _join(self) -> Joined | None:
        """The snapshot of the run at our address, however long it takes to come."""
        while not self._over:
            if (joined := self._client.ready) is not None:
                self._require_allowed(joined)
                return joined
            self._pump(WAIT_S)
        return None

    def _collect(self, joined: Joined) -> None:
        with self._watchdog:
            collector, seats = worker.collector(
                joined.spec, Place(joined.index, joined.start), self._means
            )
        count = f"{len(seats)} seats" if len(seats) > 1 else "one seat"
        log.info(
            "collecting %s as actor %d.%d: %s",
            joined.spec.world.environment,
            joined.index,
            joined.start,
            count,
        )
        held: Version | None = None
        with self._seated(seats):
            while self._stays(joined):
                weights = self._client.weights
                if weights is not None and weights.version != held:
                    collector.use(weights)
                    held, self._who.version = weights.version, str(weights.version)
                collector.steps = max(collector.steps, self._client.steps)
                parcel = self._play(collector.window(), len(seats))
                if (
                    parcel is not None and parcel.rows
                ):  # none, where every environment failed at each step
                    self._hand_over(joined, parcel)

    def _evaluate(self, joined: Joined) -> None:
        """Play the wanted episodes whenever they are due."""
        with self._watchdog:
            evaluator, seats = worker.evaluator(
                joined.spec, Place(joined.index, joined.start), self._means
            )
        with self._seated(seats):
            while self._stays(joined):
                weights = self._client.weights
                if weights is None or not evaluator.is_due(weights):
                    self._pump(WAIT_S)
                    continue
                self._who.version = str(weights.version)
                parcel = self._play(evaluator.evaluate(weights), len(seats))
                if parcel is not None:
                    self._hand_over(joined, parcel)

    def _play(self, steps: Generator[None, None, Parcel], seats: int) -> Parcel | None:
        """Step through a window, looking after the link now and then; None if the process is to end."""
        before = self._clock()
        while True:
            try:
                with self._watchdog:
                    next(steps)
            except StopIteration as ended:
                parcel: Parcel = ended.value
                self._work.episodes += len(parcel.results.returns)
                return parcel
            now = self._clock()
            self._work.longest_step_s = max(self._work.longest_step_s, now - before)
            self._work.steps += seats
            if now - self._pumped_at >= PUMP_S:
                if self._over:
                    return None
                self._pump(0.0)
                now = self._clock()
            before = now

    def _hand_over(self, joined: Joined, parcel: Parcel) -> None:
        """Into the outbox; where it is full, or there is no credit, wait: that is how pacing holds collection back.

        Also while the learner is away: environments lose nothing by waiting, and then play under a newer policy.
        """
        while self._stays(joined):
            if self._client.offer(parcel):
                break
            self._pump(WAIT_S, waits=True)
        self._pump(0.0)
        while self._stays(joined) and self._client.outbox.ledger.waiting.parcels:
            self._pump(WAIT_S, waits=True)

    def _pump(self, timeout_s: float, waits: bool = False) -> None:
        self._work.waits = float(waits)
        self._link.pump(timeout_s)
        self._pumped_at = now = self._clock()
        self._require_fresh(now)
        if self._contact.lost(self._client.tracker.sends(now), now):
            # Whoever plays for one run only may have missed its end.
            self._stop.set(
                f"nobody answers at {self._link.address}", 0 if self._once else Exit.UNAVAILABLE
            )

    def _require_fresh(self, now: float) -> None:
        """End where the policy in use is known to be too old, and every snapshot that was asked for failed to bring a newer one."""
        age_s = self._client.tracker.outdated_s(now)
        if 0 < self._max_policy_age_s <= age_s:
            raise PolicyTooOld(
                f"for {age_s:.0f} s a newer policy than version {self._client.tracker.held} has been announced and has not come, "
                f"although it was asked for: --max-policy-age is {self._max_policy_age_s:g}"
            )

    def _stays(self, joined: Joined) -> bool:
        return self._client.joined is joined and not self._over

    @property
    def _over(self) -> bool:
        """Whether this process is to end."""
        if self._once and self._client.state is State.STOP:
            self._stop.set("the run is over")
        return bool(self._stop)

    def _require_allowed(self, joined: Joined) -> None:
        environment = joined.spec.world.environment
        if self._allowed and environment not in self._allowed:
            raise ConfigurationError(
                f"the learner asks for {environment}, which --allow-env does not name here"
            )

    @contextmanager
    def _seated(self, seats: Seats) -> Iterator[None]:
        try:
            yield
        finally:
            seats.close()
