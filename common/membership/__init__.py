"""Membership: whom an actor obeys, and who takes part in a learner's run. Bookkeeping over time, without sockets, threads or clocks.

An actor's `Membership` judges by what it hears which learner counts, when to ask for a snapshot of spec and weights, and when its
connection is to be made anew. A learner's `Snapshots` answers those who ask, a few at a time; its `Roster` gives each its place.
"""

from common.membership.allegiance import Action, Membership, Verdict
from common.membership.roster import Member, Presence, Roster, RosterState
from common.membership.snapshots import Snapshots

__all__ = ["Action", "Member", "Membership", "Presence", "Roster", "RosterState", "Snapshots", "Verdict"]
