"""Acknowledgements: their order, news first and then all in turn, and the credit in them.

Credit is the flow control: it bounds memory and staleness, and none at all pauses collection.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from farflung.common.protocol.incarnation import WINDOW
from farflung.common.protocol.messages import Credit

NEWS_S = 0.01  # between two rounds of news, so that one acknowledgement covers several parcels
# Of its credit, settled since an actor's last acknowledgement: it may soon have to wait for the
# next, which is due at once. One with credit for few waits anyway.
USED, LEAST_CREDIT = 0.5, 8
REPEAT_S = 1.0  # without news; spread over half a second where many fall due at once
REPEATS_PER_S = 100  # at least, where few fall due
CREDITS_PER_S = 1000  # incarnations with a share, and as many others: looks for another credit
LATELY_S = 30.0  # an incarnation that was seen within it is acknowledged
LISTENERS = 4096  # at most; beyond it, those that wait longest since their last one are dropped
SAVED_S = 0.1  # of a pace that was not used
TOTAL_BYTES = 1 << 30  # of credit, to all actors together
ACTOR_BYTES = 64 << 20  # of credit, to one actor
MOST_MESSAGES = 1024  # likewise

Key = tuple[str, int]  # actor and incarnation


@dataclass(slots=True)
class _Listener:
    """An incarnation that is acknowledged."""

    seen_at: float
    sent_at: float = float("-inf")
    news: int = 0  # since then
    many: float = math.inf  # of them: its credit is nearly used up
    credit: Credit | None = None  # of its last acknowledgement


class Pace:
    """A number of steps per second, evenly spread."""

    def __init__(self) -> None:
        self._at = float("-inf")
        self._saved = 0.0

    def steps(self, now: float, per_second: float) -> int:
        """Return how many steps are due now."""
        saved = self._saved + (now - self._at) * per_second
        saved = min(saved, max(1.0, SAVED_S * per_second))
        self._at, self._saved = now, saved % 1
        return int(saved)


class AcknowledgementSchedule:
    """The incarnations that were seen lately, and which of them are due.

    A round costs as much as it sends. One queue turns in the order of the last acknowledgement, so
    that each is repeated within about a second. Two turn for the look at credit, so that a change
    reaches all in turn, however often it changes: one of those with a share of it, and one of all
    others, so that a crowd of names does not make those with a share wait.
    """

    def __init__(self) -> None:
        self._repeats: OrderedDict[Key, _Listener] = OrderedDict()  # by time of the last one
        # By time of the last look: without a share of the credit, and with one.
        self._credits: tuple[OrderedDict[Key, _Listener], ...] = OrderedDict(), OrderedDict()
        self._news: dict[Key, None] = {}
        self._short: dict[Key, None] = {}  # news of those that are short of credit
        self.hurried = False  # some of them were due at the last look
        self._news_at = float("-inf")
        self._repeat_pace, self._credit_pace = Pace(), Pace()

    def __len__(self) -> int:
        return len(self._repeats)

    def __contains__(self, key: Key) -> bool:
        return key in self._repeats

    def note_message(self, key: Key, now: float) -> None:
        """Note that a message came from an incarnation; the first one counts as news."""
        listener = self._repeats.get(key)
        if listener is not None:
            listener.seen_at = now
            return
        if len(self._repeats) >= LISTENERS:
            self.forget(next(iter(self._repeats)))
        self._repeats[key] = self._credits[False][key] = _Listener(now)
        self._news[key] = None

    def add_news(self, key: Key) -> None:
        """Note that there is something new for an incarnation, if it was seen lately."""
        listener = self._repeats.get(key)
        if listener is not None:
            listener.news += 1
            (self._news if listener.news < listener.many else self._short)[key] = None

    def forget(self, key: Key) -> None:
        """Send an incarnation nothing more, until it is seen again."""
        if self._repeats.pop(key, None) is not None:
            for queue in self._credits:
                queue.pop(key, None)
            self._news.pop(key, None)
            self._short.pop(key, None)

    def hurry(self) -> None:
        """Let all news be due now."""
        self._news_at = float("-inf")

    def due(
        self,
        now: float,
        credit: Callable[[Key], Credit],
        has_share: Callable[[Key], bool] = lambda key: False,
    ) -> Iterator[tuple[Key, Credit]]:
        """Yield the incarnations that are due, each with its credit of now."""
        short, self._short = self._short, {}
        self.hurried = bool(short)
        for key in short:
            yield key, self._send(key, credit(key), now)
        if self._news and now - self._news_at >= NEWS_S:
            self._news_at = now
            news, self._news = self._news, {}
            for key in news:
                yield key, self._send(key, credit(key), now)
        yield from self._repeated(now, credit)
        looks = self._credit_pace.steps(now, CREDITS_PER_S)
        for shares in (True, False):
            yield from self._with_other_credit(shares, looks, now, credit, has_share)

    def _repeated(
        self, now: float, credit: Callable[[Key], Credit]
    ) -> Iterator[tuple[Key, Credit]]:
        for _ in range(self._repeat_pace.steps(now, max(REPEATS_PER_S, 2 * len(self)))):
            key, listener = next(iter(self._repeats.items()), (None, None))
            if key is None or listener is None or now - listener.sent_at < REPEAT_S:
                return
            if now - listener.seen_at > LATELY_S:
                self.forget(key)
            else:
                yield key, self._send(key, credit(key), now)

    def _with_other_credit(
        self,
        shares: bool,
        looks: int,
        now: float,
        credit: Callable[[Key], Credit],
        has_share: Callable[[Key], bool],
    ) -> Iterator[tuple[Key, Credit]]:
        for _ in range(min(len(self._credits[shares]), looks)):
            key, listener = self._credits[shares].popitem(last=False)
            self._credits[has_share(key)][key] = listener
            if (granted := credit(key)) != listener.credit:
                yield key, self._send(key, granted, now)

    def _send(self, key: Key, granted: Credit, now: float) -> Credit:
        listener = self._repeats[key]
        listener.sent_at, listener.credit, listener.news = now, granted, 0
        is_much = granted.messages >= LEAST_CREDIT
        listener.many = USED * granted.messages if is_much else math.inf
        self._repeats.move_to_end(key)
        self._news.pop(key, None)
        return granted


def grant(
    room: int,  # rows that pacing can still take in; 0 pauses collection
    actors: int,
    parcel_rows: float,  # of a usual parcel
    *,
    total_bytes: int = TOTAL_BYTES,
    actor_bytes: int = ACTOR_BYTES,
    messages: int = MOST_MESSAGES,
) -> Credit:
    """Return the credit of each actor: an equal share of the bytes, and of the rows with room."""
    if room <= 0:
        return Credit(0, 0)
    share = max(1, actors)
    wanted = int(room / (share * max(1.0, parcel_rows)))
    return Credit(
        min(messages, WINDOW, max(1, wanted)), min(actor_bytes, max(1, total_bytes // share))
    )
