"""Delivery keeps its promises under every fault, and the simulator notices if it does not."""

import pytest
from simulation.mutations import MUTATIONS, Mutation, load
from simulation.oracle import Violation
from simulation.simulator import simulate, simulate_many

FAULTS = (
    "copies",
    "actors killed",
    "learners killed",
    "zombies",
    "partitions",
    "resets",
    "pauses",
    "credits",
    "runs",
    "rivals",
)
HAPPENED = (
    "resends",
    "duplicate",
    "refused",
    "rebuilds",
    "new run",
    "newer epoch",
    "stale",
    "rival",
    "second life",
    "acknowledged by a copy",
    "back from retirement",
    "acknowledgements not obeyed",
    "acknowledgements too late",
    "unanswered",
)


@pytest.mark.slow
def test_no_promise_is_broken() -> None:
    """Under every fault nothing acknowledged is lost, nothing counts twice, no credit is exceeded,
    and in the end all drains. `make simulate` has 1,000 seeds.

    The seeds contain each kind of fault, and each kind of answer to one.
    """
    seen = simulate_many(range(40))
    assert [name for name in (*FAULTS, *HAPPENED) if not seen[name]] == []


def test_a_seed_is_one_history() -> None:
    """The same seed yields the same history to the last event."""
    assert simulate(3).summary() == simulate(3).summary()
    assert simulate(3).kept == simulate(3).kept
    assert simulate(3).summary() != simulate(4).summary()


def test_code_from_source_is_the_same_code() -> None:
    """Code loaded from source behaves like imported code.

    A mutation is then caught for its fault alone.
    """
    assert simulate(5, load()).summary() == simulate(5).summary()


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_planted_fault_is_caught(mutation: Mutation) -> None:
    """Each planted fault breaks a promise within 150 seeds."""
    with pytest.raises(Violation):
        simulate_many(mutation.seeds(150), load(mutation))
