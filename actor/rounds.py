"""An actor's share of the rounds of the sync mode. No world, no connection, no clock."""

from collections.abc import Sequence
from dataclasses import replace

from farflung.common.data.parcel import Parcel, Place
from farflung.common.data.spec import Rounds
from farflung.common.data.weights import Version


class Share:
    """The windows that one actor plays under each version; then it waits for the next version.

    A version counts by its number: a learner that was resumed publishes the newest one again under
    a higher epoch, and the round goes on. A window beyond the share is spare: it has no place in a
    round. Where other policies play on, one that waits for its learner plays such windows. So does
    one that has played its share before others have, if other actors take part too.
    """

    def __init__(self, rounds: Rounds | None, index: int) -> None:
        self._rounds, self._index = rounds, index
        self._has_place = rounds is None or index < rounds.actors
        self._number = 0  # of the version that began the newest round
        self._windows = self._episodes = 0  # still to be played in it
        self._spare = False  # the present window

    def wants(self, version: Version) -> bool:
        """Return whether there is a window to play under a version."""
        if self._rounds is None:
            return True
        if version.number == self._number:
            return self._windows > 0
        return self._has_place and version.number > self._number

    @property
    def owes(self) -> bool | None:
        """True while part of a round is to be played that ends for all policies.

        None: there are no rounds, or this actor plays them alone, and each policy has its own.
        """
        if self._rounds is None or self._rounds.actors == 1:
            return None
        return self._windows > 0

    def begin(self, version: Version, spare: bool = False) -> None:
        """Begin a window, and with a new version a round; what is left of an older one is void."""
        self._spare = spare or not self.wants(version)
        if self._rounds is not None and not self._spare and version.number > self._number:
            self._number = version.number
            self._windows, self._episodes = self._rounds.windows, self._rounds.episodes

    def is_over(self, ended: int) -> bool:
        """Count the episodes that ended in a step; return whether the round is over by that."""
        if self._rounds is None or not self._rounds.episodes or self._spare:
            return False
        self._episodes -= ended
        return self._episodes <= 0

    def placed(self, parcels: Sequence[Parcel]) -> list[Parcel]:
        """Count a window; return its parcels with their places. The last one may end the round.

        A spare window is not counted, and its parcels have no place.
        """
        if self._spare:
            return list(parcels)
        places = [Place(self._index, ends=False) for _ in parcels]
        if self._ends(parcels):
            places[-1] = Place(self._index, ends=True)
        return [replace(one, place=place) for one, place in zip(parcels, places, strict=True)]

    def _ends(self, parcels: Sequence[Parcel]) -> bool:
        """Return whether a window ends the round.

        One in which all steps were lost, or belong to older versions, is played again.
        """
        if self._rounds is None or not parcels or parcels[-1].version.number != self._number:
            return False
        if self._rounds.episodes:
            self._windows = int(self._episodes > 0)
        else:
            self._windows -= 1
        return self._windows == 0
