"""Credit as a learner enforces it."""

import pytest

from farflung.common.protocol import allowances as module
from farflung.common.protocol.allowances import EARLIER, EXCESS, WITHHELD_S, Allowances
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


def test_credit_is_withheld_after_too_many_numbers_beyond_it() -> None:
    """Eight at once may be an accident. It is granted again after two seconds without more."""
    allowances = Allowances(Inbox())
    assert not any(allowances.exceed(KEY, 5.0) for _ in range(EXCESS))
    assert not allowances.withholds(KEY, 5.0)
    assert allowances.exceed(KEY, 5.0)
    assert allowances.withholds(KEY, 5.0 + WITHHELD_S - 0.1)
    assert not allowances.withholds(("box-2", 7), 5.0)
    assert not allowances.withholds(KEY, 5.0 + WITHHELD_S)


def test_one_number_a_second_beyond_the_credit_is_forgiven() -> None:
    """So an actor that sends its numbers again, to a copy of its run, is granted more later."""
    allowances = Allowances(Inbox())
    assert not any(allowances.exceed(KEY, second) for second in range(1000))


def test_numbers_beyond_the_credit_are_counted_for_a_bounded_number_of_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one that exceeded its credit the longest ago is forgiven."""
    monkeypatch.setattr(module, "KEPT", 2)
    allowances = Allowances(Inbox())
    for actor in ("first", "second", "first", "third"):
        for _ in range(EXCESS + 1):
            allowances.exceed((actor, 1), 0.0)
    assert [allowances.withholds((actor, 1), 0.0) for actor in ("first", "second", "third")] == [
        True,
        False,
        True,
    ]
