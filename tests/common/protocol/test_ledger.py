"""The ledgers of both sides."""

from farflung.common.protocol.ledger import Intake, Ledger


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
