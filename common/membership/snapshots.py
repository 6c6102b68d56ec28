"""Private snapshots of spec and newest weights: whoever subscribes to a topic of its own gets one, a few at a time."""

WAITING = 4096  # who may wait at once; the others ask again by themselves
AT_ONCE = 2  # unconfirmed: so that a crowd of joiners does not overflow a pipe that they may share
PATIENCE_S = 2.0  # until an unconfirmed one no longer counts


class Snapshots:
    """Who asked, in order, and who was answered and has not confirmed it. A topic ends in `/<nonce>`; what is before it is one asker."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}  # asker -> topic
        self._unconfirmed: dict[str, float] = {}  # topic -> when it was served

    def ask(self, topic: str) -> bool:
        """Queue a subscription; a newer nonce replaces the asker's older one in its place. False: too many wait."""
        asker = topic.rpartition("/")[0]
        if asker not in self._waiting and len(self._waiting) >= WAITING:
            return False
        self._waiting[asker] = topic
        return True

    def next(self, now: float) -> str | None:
        """The topic to publish a snapshot on now, if there is one. It counts as unconfirmed from now on."""
        self._unconfirmed = {topic: at for topic, at in self._unconfirmed.items() if now - at < PATIENCE_S}
        if not self._waiting or len(self._unconfirmed) >= AT_ONCE:
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
