"""Private snapshots of spec and newest weights: whoever subscribes to a topic of its own gets one, a few at a time."""

WAITING = 4096  # who may wait at once; the others ask again by themselves
AT_ONCE, MOST_AT_ONCE = (
    2,
    32,
)  # unconfirmed: so that a crowd of joiners does not overflow a pipe that they may share
AT_ONCE_BYTES = (
    32 << 20
)  # of weights: small ones may be under way to many, else a crowd waits for one round trip after the other
PATIENCE_S = 2.0  # until an unconfirmed one no longer counts


class Snapshots:
    """Who asked, in order, and who was answered and has not confirmed it. A topic ends in `/<nonce>`; what is before it is one asker."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}  # asker -> topic
        self._unconfirmed: dict[str, float] = {}  # topic -> when it was served
        self._at_once = AT_ONCE

    def fit(self, message_bytes: int) -> None:
        """So large are the weights in a snapshot from now on."""
        self._at_once = max(AT_ONCE, min(MOST_AT_ONCE, AT_ONCE_BYTES // max(1, message_bytes)))

    def ask(self, topic: str) -> bool:
        """Queue a subscription; a newer nonce replaces the asker's older one in its place. False: too many wait."""
        asker = topic.rpartition("/")[0]
        if asker not in self._waiting and len(self._waiting) >= WAITING:
            return False
        self._waiting[asker] = topic
        return True

    def next(self, now: float) -> str | None:
        """The topic to publish a snapshot on now, if there is one. It counts as unconfirmed from now on."""
        self._unconfirmed = {
            topic: at for topic, at in self._unconfirmed.items() if now - at < PATIENCE_S
        }
        if not self._waiting or len(self._unconfirmed) >= self._at_once:
            return None
        topic = self._waiting.pop(next(iter(self._waiting)))
        self._unconfirmed[topic] = now
        return topic

    def confirm(self, topic: str) -> None:
        """A hello named it, or it was unsubscribed: it arrived, or nobody is there any more."""
        self._unconfirmed.pop(topic, None)
        asker = topic.rpartition("/")[0]
        if self._waiting.get(asker) == topic:
            del self._waiting[asker]
