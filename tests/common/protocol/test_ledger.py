"""The ledgers of both sides."""

from farflung.common.protocol.ledger import OTHER, REASONS, Intake, Ledger


def test_ledger_is_balanced_only_if_it_adds_up() -> None:
    """In parcels or in rows; its figures are flat."""
    ledger = Ledger()
    ledger.collected.add(3)
    assert not ledger.balanced
    ledger.drop("why", 2)
    assert not ledger.balanced
    ledger.dropped["why"].rows = 3
    assert ledger.balanced
    assert ledger.figures()["dropped.why.rows"] == 3
    assert ledger.figures()["collected.parcels"] == 1
    assert not Intake(received=1).balanced


def test_ledger_tells_a_bounded_number_of_reasons_apart() -> None:
    """A learner that refuses each parcel for another reason makes no report grow without end."""
    ledger = Ledger()
    for number in range(10 * REASONS):
        ledger.collected.add(1)
        ledger.refuse(f"reason {number}", 1)
    assert len(ledger.refused) == REASONS + 1
    assert ledger.refused[OTHER].parcels == 9 * REASONS
    assert ledger.balanced
