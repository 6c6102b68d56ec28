"""The books of a worker as a line, and the warning of large gradients."""

from msgspec import structs
from support.makers import a_spec

from farflung.common.data.spec import Tensor
from farflung.common.protocol.ledger import Ledger, Tally
from farflung.learner.worker import books
from farflung.learner.worker.worker import size_warning


def test_books_name_the_fate_of_all_gradients() -> None:
    """12 computed: 5 applied, 3 refused, 2 dropped, 2 on their way."""
    ledger = Ledger(
        collected=Tally(12),
        acknowledged=Tally(5),
        sent=Tally(1),
        waiting=Tally(1),
        refused={"stale": Tally(2), "epoch": Tally(1)},
        dropped={"epoch ended": Tally(2)},
    )
    assert books.line(ledger) == (
        "gradients so far: 12 computed = 5 applied + 3 refused (epoch 1, stale 2) + "
        "2 dropped (epoch ended 2) + 2 on their way"
    )
    assert books.line(Ledger()) == (
        "gradients so far: 0 computed = 0 applied + 0 refused + 0 dropped + 0 on their way"
    )


def test_gradients_beyond_a_brokers_limit_are_named_with_the_flag_that_raises_it() -> None:
    """63 MiB of weights and 1 MiB beside them still fit; 128 MiB need 129."""
    found = [
        size_warning(
            structs.replace(
                a_spec(),
                graph=structs.replace(a_spec().graph, weights=(Tensor("w", "float32", (n, 1024)),)),
            )
        )
        for n in (63 * 256, 128 * 256)
    ]
    assert found[0] == ""
    assert found[1] == (
        "gradients of this policy are messages of 128 MiB: a broker on the way passes them on "
        "with --largest-message 135266304, and cuts the connection without it"
    )
