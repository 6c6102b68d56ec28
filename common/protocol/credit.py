"""Credit is the flow control: it bounds memory and staleness, and none at all pauses collection."""

from farflung.common.protocol.incarnation import WINDOW
from farflung.common.protocol.messages import Credit

TOTAL_BYTES = 1 << 30  # of all actors together
ACTOR_BYTES = 64 << 20


def grant(
    room: int,  # rows that pacing can still take in; 0 pauses collection
    actors: int,
    parcel_rows: float,  # of a usual parcel
    *,
    total_bytes: int = TOTAL_BYTES,
    actor_bytes: int = ACTOR_BYTES,
    messages: int = 1024,
) -> Credit:
    """Return the credit of each actor: an equal share of the bytes, and of the rows with room."""
    if room <= 0:
        return Credit(0, 0)
    share = max(1, actors)
    wanted = int(room / (share * max(1.0, parcel_rows)))
    return Credit(
        min(messages, WINDOW, max(1, wanted)), min(actor_bytes, max(1, total_bytes // share))
    )
