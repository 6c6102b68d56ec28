"""Private snapshots of spec and newest weights: each actor that asks gets one, a few at a time."""

WAITING = 4096  # actors that wait at once; the others ask again by themselves
# Unconfirmed ones, so that a crowd of joiners does not overflow a pipe that they may share. Small
# ones may be on the way to many, else a crowd waits for one round trip after the other.
AT_ONCE, MOST_AT_ONCE = 2, 32
AT_ONCE_BYTES = 32 << 20  # of weights
PATIENCE_S = 2.0  # until an unconfirmed one no longer counts


class Snapshots:
    """The questions in order, and the answers that are not confirmed.

    A topic ends in `/<nonce>`; the part before it is one asker.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}  # asker -> topic
        self._unconfirmed: dict[str, float] = {}  # topic -> the time of its answer
        self._at_once = AT_ONCE

    def fit(self, message_bytes: int) -> None:
        """Allow for weights of this size in a snapshot from now on."""
        self._at_once = max(AT_ONCE, min(MOST_AT_ONCE, AT_ONCE_BYTES // max(1, message_bytes)))

    def ask(self, topic: str) -> bool:
        """Queue a subscription; a newer nonce replaces the asker's older one in its place.

        Return False if too many wait.
        """
        asker = topic.rpartition("/")[0]
        if asker not in self._waiting and len(self._waiting) >= WAITING:
            return False
        self._waiting[asker] = topic
        return True

    def next(self, now: float) -> str | None:
        """Return the topic to publish a snapshot on now, which counts as unconfirmed from now on.

        Return None if no snapshot is due.
        """
        self._unconfirmed = {
            topic: at for topic, at in self._unconfirmed.items() if now - at < PATIENCE_S
        }
        if not self._waiting or len(self._unconfirmed) >= self._at_once:
            return None
        topic = self._waiting.pop(next(iter(self._waiting)))
        self._unconfirmed[topic] = now
        return topic

    def confirm(self, topic: str) -> None:
        """Note that a hello named a snapshot, or that its topic was unsubscribed."""
        self._unconfirmed.pop(topic, None)
        asker = topic.rpartition("/")[0]
        if self._waiting.get(asker) == topic:
            del self._waiting[asker]
