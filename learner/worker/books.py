"""The books of a worker: the fate of its gradients so far, as a line of its log."""

from collections.abc import Mapping

from farflung.common.protocol.ledger import Ledger, Tally


def line(ledger: Ledger) -> str:
    """Return the books; their sum is the number of gradients that were computed.

    A worker logs them before its first gradients of each start of the learner, and at its end.
    """
    fates = [
        f"{ledger.acknowledged.parcels} applied",
        _by_reason(ledger.refused, "refused"),
        _by_reason(ledger.dropped, "dropped"),
        f"{ledger.sent.parcels + ledger.waiting.parcels} on their way",
    ]
    return f"gradients so far: {ledger.collected.parcels} computed = {' + '.join(fates)}"


def _by_reason(tallies: Mapping[str, Tally], word: str) -> str:
    total = sum(tally.parcels for tally in tallies.values())
    reasons = ", ".join(f"{reason} {tally.parcels}" for reason, tally in sorted(tallies.items()))
    return f"{total} {word} ({reasons})" if reasons else f"{total} {word}"
