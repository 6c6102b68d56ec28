"""The names that peers open: how fast, how many, and which of them stay when there are too many.

A name is one incarnation of an actor. A peer is a key's label, or a connection where there are no
keys. An actor has one name; a broker's connection carries those of many.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from farflung.common.net.bucket import Bucket
from farflung.common.net.keys import Client
from farflung.common.process.errors import Refused

Key = tuple[str, int]  # actor and incarnation

NAMES = 4096  # in all: each takes some KB, and its acknowledgement every second
# Of one peer, before their first parcel: as many actors as may join at once through one broker.
# Some take minutes for a parcel.
WITHOUT_PARCELS = 1024
# Parcels with rows until a name takes a share of the credit; before, it has credit for one at a
# time. Else a peer that starts again and again took a share with each start, for SILENT_S.
UNTIL_SHARE = 16
OPENED, OPENED_PER_S = 2048, 32.0  # by one peer: a fleet that starts, and starts again
# By all peers that have more than a few names. Reading them must not take a learner's time.
FEW, ALL_OPENED, ALL_OPENED_PER_S = 8, 4096, 128.0
# Of one peer, and for each of its names: an actor reports every two seconds. A long report counts
# as several: reading 35 KB of counters and problems takes 315 us, a short report 8 us.
WORDS, WORDS_PER_S, WORDS_PER_NAME_S, WORD_BYTES = 8192, 64.0, 4.0, 1024
# By all peers that say more than a few at once: without keys each connection is a peer.
FEW_WORDS, ALL_WORDS, ALL_WORDS_PER_S = 64, 16_384, 256.0
LOOK_S = 1.0  # between two looks at all names
SILENT_S = 8.0  # until a name takes no share, or three of its longest steps
LONGEST_STEP_S = 600.0  # that is believed
FORGOTTEN_S = 30.0  # of silence


class _Peer:
    """The names of one peer, in two orders of their last message."""

    def __init__(self, identity: int | str, now: float) -> None:
        self.identity = identity
        self.opened, self.words = Bucket(OPENED, now), Bucket(WORDS, now)
        self.without: OrderedDict[Key, _Name] = OrderedDict()  # that sent no parcel
        self.proven: OrderedDict[Key, _Name] = OrderedDict()
        self.named: set[str] = set()  # reasons of refusals that were shown

    def __len__(self) -> int:
        return len(self.without) + len(self.proven)

    @property
    def words_per_s(self) -> float:
        return WORDS_PER_S + WORDS_PER_NAME_S * len(self)


@dataclass(slots=True, eq=False)
class _Name:
    peer: _Peer
    seen_at: float
    usual_rows: float  # of its parcels, or that gradients stand for
    longest_step_s: float = 0.0
    has_parcels: bool = False
    has_rows: bool = False
    brought: int = 0  # parcels that earn a share, since it was withdrawn
    shares: bool = False  # it has a share and is there, as of the last look

    def silence_s(self, now: float) -> float:
        """Return for how long it has been silent; below 0 while its steps explain it."""
        return now - self.seen_at - max(SILENT_S, 3 * self.longest_step_s)


class Names:
    """All names of a learner, bounded in number and in speed for each peer.

    Names that sent a parcel go before those that did not, and those of a peer with few before
    those of one with many.
    """

    def __init__(
        self,
        forgotten: Callable[[Key], None] = lambda key: None,
        rows: float = 1.0,
        until_share: int = UNTIL_SHARE,
    ) -> None:
        self._forgotten = forgotten  # called with each name that has to make room
        self._rows = rows  # of a parcel, until a name has brought some
        self._until_share = until_share  # parcels with rows
        self._names: dict[Key, _Name] = {}
        self._peers: dict[int | str, _Peer] = {}
        self._opened, self._words = Bucket(ALL_OPENED, 0.0), Bucket(ALL_WORDS, 0.0)
        self._sharers = 0  # as of the last look, and those who came or left since
        self._looked_at = float("-inf")

    def __len__(self) -> int:
        return len(self._names)

    def spend_word(self, client: Client, now: float, size: int) -> None:
        """Take a message that is no parcel; refuse it before it is read if there are too many."""
        peer, weight = self._peer(client, now), 1 + size // WORD_BYTES
        fits = peer.words.take(now, peer.words_per_s, weight)
        if fits and peer.words.level > FEW_WORDS:
            fits = self._words.take(now, ALL_WORDS_PER_S + WORDS_PER_NAME_S * len(self), weight)
        if not fits:
            raise Refused("rate", "too many messages that are no parcels")

    def is_first_refusal(self, client: Client, reason: str, now: float) -> bool:
        """Return whether a peer has this refusal for the first time: only then it is shown."""
        named = self._peer(client, now).named
        is_first = reason not in named
        named.add(reason)
        return is_first

    def note_message(
        self, client: Client, key: Key, now: float, longest_step_s: float = 0.0
    ) -> None:
        """Note a message of a name. Refuse a new one of a peer that opened too many.

        A name that comes through another connection belongs to that: only its actor knows the
        number of its incarnation.
        """
        if now - self._looked_at >= LOOK_S:
            self._look(now)
        peer = self._peers.get(client.peer) or self._peer(client, now)
        name = self._names.get(key)
        if name is None or name.peer is not peer:
            name = self._move(key, name, peer, now)
        name.seen_at = now
        if longest_step_s > name.longest_step_s:
            name.longest_step_s = min(longest_step_s, LONGEST_STEP_S)
        if not name.shares and self._has_share(name):
            self._share(name, True)
        (peer.proven if name.has_parcels else peer.without).move_to_end(key)

    def note_parcel(self, key: Key, rows: int, *, earns: bool = True) -> bool:
        """Note that a message of a name counted, with so many rows; return True for the first.

        One that does not earn brings its name no nearer to a share: an evaluator has credit for
        many parcels before its first.
        """
        name = self._names.get(key)
        if name is None:
            return False
        is_first = not name.has_parcels
        if is_first:
            self._leave_peer(key, name)
            name.has_parcels = True
            name.peer.proven[key] = name
        if rows:
            name.usual_rows += (rows - name.usual_rows) / 16
            if not name.has_rows:  # credit in parcels must not follow a guess that is too low
                name.usual_rows = max(name.usual_rows, float(rows))
            name.has_rows = True
            name.brought += earns
        if not name.shares and self._has_share(name):
            self._share(name, True)
        return is_first

    def withdraw(self, key: Key) -> None:
        """Let a name take no share until it has brought as many parcels as a new one."""
        name = self._names.get(key)
        if name is not None:
            name.brought = 0
            self._share(name, False)

    def has_parcels(self, key: Key) -> bool:
        """Return whether a message of this name counted."""
        name = self._names.get(key)
        return name is not None and name.has_parcels

    def has_rows(self, key: Key) -> bool:
        """Return whether this name brought rows."""
        name = self._names.get(key)
        return name is not None and name.has_rows

    def has_share(self, key: Key) -> bool:
        """Return whether this name brought enough parcels with rows to share the credit."""
        name = self._names.get(key)
        return name is not None and self._has_share(name)

    def peer_of(self, key: Key) -> int | str | None:
        """Return the peer that a name belongs to, if it is known."""
        name = self._names.get(key)
        return None if name is None else name.peer.identity

    def usual_rows(self, key: Key) -> float:
        """Return the rows of this name's usual parcel."""
        name = self._names.get(key)
        return self._rows if name is None else name.usual_rows

    def sharers(self, now: float) -> int:
        """Return how many names share the credit, as of the last second."""
        self._look(now)
        return self._sharers

    def forget(self, key: Key) -> None:
        """Forget a name, since its actor left."""
        name = self._names.pop(key, None)
        if name is not None:
            self._leave_peer(key, name)
            self._share(name, False)

    def _peer(self, client: Client, now: float) -> _Peer:
        peer = self._peers.get(client.peer)
        if peer is None:
            peer = self._peers[client.peer] = _Peer(client.peer, now)
        return peer

    def _move(self, key: Key, name: _Name | None, peer: _Peer, now: float) -> _Name:
        """Return a name of this peer: a new one, or that of another."""
        if name is None:
            self._open(peer, now)
            self._make_room(peer)
            name = self._names[key] = _Name(peer, now, self._rows)
        else:
            self._leave_peer(key, name)
            name.peer = peer
        (peer.proven if name.has_parcels else peer.without)[key] = name
        return name

    def _open(self, peer: _Peer, now: float) -> None:
        if not peer.opened.take(now, OPENED_PER_S):
            raise Refused("names", "its sender opened too many names in a short time")
        if len(peer) >= FEW and not self._opened.take(now, ALL_OPENED_PER_S):
            raise Refused("names", "too many names were opened in a short time")

    def _make_room(self, peer: _Peer) -> None:
        """Forget one name if there are too many: the one that was not heard for the longest."""
        if len(peer.without) < WITHOUT_PARCELS:
            if len(self._names) < NAMES:
                return
            peer = max(self._peers.values(), key=lambda peer: len(peer.without))
            if not peer.without:
                peer = max(self._peers.values(), key=len)
        key = next(iter(peer.without or peer.proven))
        self.forget(key)
        self._forgotten(key)

    def _has_share(self, name: _Name) -> bool:
        return name.brought >= self._until_share

    def _share(self, name: _Name, shares: bool) -> None:
        self._sharers += shares - name.shares
        name.shares = shares

    @staticmethod
    def _leave_peer(key: Key, name: _Name) -> None:
        order = name.peer.proven if name.has_parcels else name.peer.without
        order.pop(key, None)

    def _look(self, now: float) -> None:
        """Look at all names once a second: which take no share, and which are forgotten."""
        if now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        for key, name in list(self._names.items()):
            silence_s = name.silence_s(now)
            if silence_s >= FORGOTTEN_S:
                self.forget(key)
                self._forgotten(key)
            elif silence_s >= 0 and name.shares:
                self._share(name, False)
        self._peers = {
            identity: peer
            for identity, peer in self._peers.items()
            if len(peer)
            or not peer.opened.is_empty(now, OPENED_PER_S)
            or not peer.words.is_empty(now, peer.words_per_s)
        }
