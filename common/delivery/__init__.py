"""Delivery: nothing acknowledged is lost or counted twice. Bookkeeping over bytes and time, without sockets, threads or clocks.

An actor's `Outbox` numbers its parcels from 1 within an incarnation and keeps each until it is answered. The learner's `Inbox`
admits every number once, acknowledges it when it is durable, and names what it misses and what it refused. `base`, the lowest
number that an actor still holds, travels with all it says, so that both sides know what they may forget. What passes between them
is state, so any message may be lost, repeated or late. The same code runs in the simulator under tests/simulation.
"""

from common.delivery.credit import ACTOR_BYTES, TOTAL_BYTES, grant
from common.delivery.inbox import Admission, Inbox, InboxState
from common.delivery.ledger import Intake, Ledger, Tally
from common.delivery.outbox import Frame, Outbox, WhenFull

__all__ = [
    "ACTOR_BYTES",
    "TOTAL_BYTES",
    "Admission",
    "Frame",
    "Inbox",
    "InboxState",
    "Intake",
    "Ledger",
    "Outbox",
    "Tally",
    "WhenFull",
    "grant",
]
