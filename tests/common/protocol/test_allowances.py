"""Credit as a learner enforces it."""

import pytest

from farflung.common.protocol import allowances as module
from farflung.common.protocol.allowances import EARLIER, Allowances
from farflung.common.protocol.inbox import Inbox

KEY = "box-1", 7


def brought(allowances: Allowances, inbox: Inbox, numbers: range) -> int:
    """Return how many of these numbers are covered; they are admitted and not yet durable."""
    count = 0
    for number in numbers:
        if allowances.covers(KEY):
            inbox.admit(*KEY, number, 1)
            allowances.spend(KEY)
            count += 1
    return count


def test_one_number_comes_before_the_first_acknowledgement() -> None:
    """The second one has to wait for credit."""
    inbox = Inbox()
    assert brought(Allowances(inbox), inbox, range(1, 10)) == 1


def test_so_many_numbers_come_as_were_granted() -> None:
    """Four; after two of them are durable, two more by the same credit."""
    inbox = Inbox()
    allowances = Allowances(inbox)
    allowances.grant(KEY, 4)
    assert brought(allowances, inbox, range(1, 10)) == 4
    for number in (1, 2):
        inbox.commit(*KEY, number)
    assert brought(allowances, inbox, range(5, 10)) == 0
    allowances.grant(KEY, 4)
    assert brought(allowances, inbox, range(5, 10)) == 2


def test_credit_that_shrinks_takes_nothing_back() -> None:
    """Of eight numbers on their way all come, although the learner pauses meanwhile."""
    inbox = Inbox()
    allowances = Allowances(inbox)
    allowances.grant(KEY, 8)
    allowances.grant(KEY, 0)
    assert brought(allowances, inbox, range(1, 20)) == 8
    allowances.grant(KEY, 0)
    assert brought(allowances, inbox, range(9, 20)) == 0


def test_an_earlier_start_of_the_learner_may_have_granted_much() -> None:
    """An actor's numbers of that time come after a restart that grants nothing."""
    inbox = Inbox(2)
    allowances = Allowances(inbox)
    allowances.grant(KEY, 0)
    assert brought(allowances, inbox, range(1, EARLIER + 10)) == EARLIER


def test_a_forgotten_incarnation_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken for one with the largest credit, less what is on its way to disk."""
    monkeypatch.setattr(module, "KEPT", 2)
    inbox = Inbox()
    allowances = Allowances(inbox)
    allowances.grant(KEY, 5)
    assert brought(allowances, inbox, range(1, 4)) == 3
    for other in range(3):
        allowances.spend(("other", other))
    assert brought(allowances, inbox, range(4, EARLIER + 10)) == EARLIER - 3


def test_names_that_only_say_hello_displace_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A credit of one is what each has anyway."""
    monkeypatch.setattr(module, "KEPT", 2)
    inbox = Inbox()
    allowances = Allowances(inbox)
    allowances.grant(KEY, 2)
    for other in range(9):
        allowances.grant(("other", other), 1)
    assert brought(allowances, inbox, range(1, 9)) == 2
