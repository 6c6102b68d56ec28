"""Delivery of several policies keeps its promises under every fault, and the simulator notices."""

import pytest
from simulation.mutations import Mutation
from simulation.oracle import Violation
from simulation.several import simulate_several, simulate_severals
from simulation.several_mutations import SEVERAL_MUTATIONS
from simulation.storage_mutations import planted

HAPPENED = (
    *("learners killed", "actors killed", "pauses", "cuts", "runs", "copies", "rivals", "away"),
    *("drained", "dropped: learner away", "dropped: run ended", "refused: policy"),
)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_own_step_is_stored_once_or_counted() -> None:
    """By its own learner, under every fault; each fault and each answer to one happens."""
    seen = simulate_severals(range(10))
    assert [name for name in HAPPENED if not seen[name]] == []


@pytest.mark.slow
def test_a_seed_is_one_history() -> None:
    """The same seed yields the same history."""
    assert simulate_several(3) == simulate_several(3)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutation", SEVERAL_MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_planted_fault_is_noticed(mutation: Mutation) -> None:
    """Each planted fault breaks a promise within 20 seeds."""
    with planted(mutation), pytest.raises(Violation):
        simulate_severals(mutation.seeds(20))
