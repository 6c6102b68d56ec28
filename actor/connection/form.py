"""The form of what an actor sends under numbers: trajectories as parcels, unless it is a worker."""

from collections.abc import Callable
from typing import Any, Protocol

from farflung.common.data.spec import Spec
from farflung.common.protocol.outbox import Frame
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.wire import Envelope

Encode = Callable[[Any, int, int, int], Frame]
"""Form an item as a message, with its incarnation, number and base."""


class Cargo(Protocol):
    """A parcel, or gradients."""

    @property
    def rows(self) -> int:
        """Rows that it has or stands for."""

    @property
    def size(self) -> int:
        """Bytes, close enough to its message's for bounds."""


class Form(Protocol):
    """The form of one sort of items."""

    @property
    def word(self) -> str:
        """The word for an item, in messages for people."""

    @property
    def usual(self) -> frozenset[str]:
        """Reasons of refusals that are no problem: they are counted, and not shown."""

    @property
    def outlives_epochs(self) -> bool:
        """True if the next start of the learner takes what the one before did not acknowledge."""

    def encoder(self, spec: Spec, actor: str) -> Encode:
        """Return the function that forms the items of this actor, by the spec of a run."""


class Parcels:
    """The form of parcels."""

    word, usual, outlives_epochs = "parcel", frozenset[str](), True

    def encoder(self, spec: Spec, actor: str) -> Encode:
        """Return the function that forms the parcels of this actor."""
        codec, sender = ParcelCodec(spec), (spec.run, spec.policy, actor)

        def encode(parcel: Any, incarnation: int, sequence: int, base: int) -> Frame:
            number = incarnation, sequence, base
            version, place = parcel.version, parcel.place or 0
            return codec.encode(Envelope(*sender, *number, version, spec.schema, place), parcel)

        return encode


PARCELS = Parcels()
