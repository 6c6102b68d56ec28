"""The brokers that are heard on feeds: the newest status of each, and rates between two of them."""

from dataclasses import dataclass
from typing import Any

import msgspec

from farflung.learner.observe.broker_status import BrokerStatus

BROKERS = 64  # one more is left out
HEARD_S = 5.0  # a broker publishes every second; after so long it counts as silent
FORGOTTEN_S = 60.0  # after so long it leaves the table


@dataclass(frozen=True, slots=True)
class Heard:
    """A broker as it was heard last."""

    status: BrokerStatus
    address: str  # of the feed
    at: float  # by the monotonic clock
    received_per_second: float | None = None
    passed_per_second: float | None = None  # bytes
    feed_per_second: float | None = None  # messages


class Brokers:
    """The brokers by their identities, which are new at each start. Not for several threads."""

    def __init__(self) -> None:
        self._heard: dict[int, Heard] = {}

    def hear(self, identity: int, status: BrokerStatus, address: str, now: float) -> None:
        """Take a status. A broker may be heard on several feeds: each of its statuses counts once.

        An identity is its sender's word; so the number of brokers has a bound.
        """
        gone = [key for key, each in self._heard.items() if now - each.at >= FORGOTTEN_S]
        for key in gone:
            del self._heard[key]
        before = self._heard.get(identity)
        if before is None and len(self._heard) >= BROKERS:
            return
        if before is not None and status.seconds <= before.status.seconds:
            return
        self._heard[identity] = Heard(status, address, now, *_rates(before, status))

    def table(self, now: float) -> list[dict[str, Any]]:
        """Return the brokers by their names, as plain data. A silent one has no rates."""
        found = []
        for identity, each in self._heard.items():
            status = msgspec.to_builtins(each.status)
            heard = now - each.at < HEARD_S
            rates = (each.received_per_second, each.passed_per_second, each.feed_per_second)
            received, passed, feed = rates if heard else (None, None, None)
            found.append(
                {
                    "id": f"{identity:x}",
                    "address": each.address,
                    "heard": heard,
                    "silent_s": round(now - each.at, 1),
                    "received_per_second": received,
                    "passed_bytes_per_second": passed,
                    "feed_messages_per_second": feed,
                    "queued": sum(one.queued for one in each.status.upstreams),
                    "queued_bytes": sum(one.queued_bytes for one in each.status.upstreams),
                    "refused_in_all": sum(each.status.refused.values()),
                    "dropped": sum(sum(one.dropped.values()) for one in each.status.upstreams),
                    **status,
                }
            )
        return sorted(found, key=lambda each: (each["broker"], each["id"]))


def _rates(before: Heard | None, status: BrokerStatus) -> tuple[float | None, ...]:
    """Return messages received, bytes passed and messages on the feed, each per second."""
    if before is None:
        return None, None, None
    seconds, old = status.seconds - before.status.seconds, before.status
    return tuple(
        max(0.0, new - was) / seconds
        for new, was in (
            (status.received, old.received),
            (_passed(status), _passed(old)),
            (status.feed_messages, old.feed_messages),
        )
    )


def _passed(status: BrokerStatus) -> float:
    return sum(each.passed_bytes for each in status.upstreams)
