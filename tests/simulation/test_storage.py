"""Acknowledged parcels survive kills, power cuts and errors of the simulated disk."""

from pathlib import Path
from random import Random

import pytest
from simulation.disk import SimulatedDisk, installed
from simulation.mutations import Mutation
from simulation.oracle import Violation
from simulation.storage import simulate_storage, simulate_storages
from simulation.storage_mutations import STORAGE_MUTATIONS, planted

from farflung.learner.storage.run_folder import new_run, open_run

FAULTS = (
    "kills",
    "power cuts",
    "deaths",
    "full",
    "waited for room",
    "checkpoints",
    "retired",
    "ended by Input/output error",
)


@pytest.mark.slow
def test_storage_keeps_every_acknowledged_parcel_once() -> None:
    """With `fsync` after a power cut, with `process` after a kill; a full disk only delays.

    `make simulate` has 1,000 seeds.
    """
    seen = simulate_storages(range(40))
    assert [name for name in FAULTS if not seen[name]] == []


@pytest.mark.slow
@pytest.mark.parametrize("mutation", STORAGE_MUTATIONS, ids=lambda mutation: mutation.name)
def test_simulation_notices_a_planted_fault_of_storage(mutation: Mutation) -> None:
    """It breaks a promise within 600 seeds."""
    with planted(mutation), pytest.raises(Violation):
        simulate_storages(mutation.seeds(600))


def test_planted_fault_is_removed_afterwards() -> None:
    """The code is what it was."""
    before = simulate_storage(2)
    with planted(STORAGE_MUTATIONS[0]), pytest.raises(Violation):
        simulate_storages(range(150))
    assert simulate_storage(2) == before


@pytest.mark.slow
def test_new_run_survives_a_power_cut(tmp_path: Path) -> None:
    """Without folder, id and configuration its journal could not be resumed."""
    for seed in range(40):
        folder = tmp_path / str(seed)
        folder.mkdir()
        disk = SimulatedDisk(folder, Random(seed))
        disk.settle()
        with installed(disk.sync_inode):
            run = new_run(str(folder / "deep" / "runs"), "one", "CartPole-v1", "seed = 3\n")
        disk.cut_power()
        assert open_run(run.folder).identity == run.identity
        assert (run.folder / "config.toml").read_text() == "seed = 3\n"
