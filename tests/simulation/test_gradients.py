"""Each gradient takes one step at most under every fault, and the simulator notices if not."""

from collections import Counter
from unittest.mock import patch

import pytest
from simulation.gradients import simulate_training
from simulation.oracle import Violation

from farflung.common.protocol.inbox import Admission, Inbox
from farflung.learner.endpoint.gradients import GradientCheck

HAPPENED = (
    *("learners killed", "workers killed", "partitions", "resets", "rebuilds", "applied"),
    *("refused: stale", "dropped: epoch ended"),
)
SEEDS = range(12)


@pytest.mark.slow
def test_gradients_take_one_step_at_most_and_the_books_agree() -> None:
    """Under every fault; each kind of fault happens."""
    seen = sum((simulate_training(seed) for seed in SEEDS), start=Counter[str]())
    assert [name for name in HAPPENED if not seen[name]] == []


def test_a_seed_is_one_history() -> None:
    """The same seed yields the same history."""
    assert simulate_training(3) == simulate_training(3)


def broken(promise: str) -> None:
    """Require that some seed breaks this promise."""
    with pytest.raises(Violation, match=promise):
        sum((simulate_training(seed) for seed in SEEDS), start=Counter[str]())


@pytest.mark.slow
def test_learner_that_takes_repeated_gradients_is_noticed() -> None:
    """Its inbox calls every number new."""
    admit = Inbox.admit

    def forgets(self: Inbox, actor: str, incarnation: int, sequence: int, base: int) -> Admission:
        admission = admit(self, actor, incarnation, sequence, base)
        return Admission.NEW if admission is Admission.DUPLICATE else admission

    with patch.object(Inbox, "admit", forgets):
        broken("one step|books")


@pytest.mark.slow
def test_learner_that_takes_gradients_of_an_earlier_epoch_is_noticed() -> None:
    """They come late, and its inbox does not know their numbers."""

    def trusts(self: GradientCheck, opened, envelope, newest):  # type: ignore[no-untyped-def]
        return self._codec.decode(opened, envelope)

    with patch.object(GradientCheck, "read", trusts):
        broken("weights of its epoch")


@pytest.mark.slow
def test_learner_that_acknowledges_what_it_refused_is_noticed() -> None:
    """A worker would count a step that was never taken."""
    with patch.object(Inbox, "refuse", lambda self, *number: None):
        broken("took a step|count the same")
