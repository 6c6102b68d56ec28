"""A peer that ignores its credit, at a real learner and through a real broker."""

import pytest
from hostile.attacking import TRIES, attacking
from hostile.victim import victim

pytestmark = [pytest.mark.system, pytest.mark.slow]

QUIET_S, ATTACK_S, BACK_S = 2.0, 4.0, 3.0
PART_DURING, PART_AFTER = 0.4, 0.6  # on any machine. Before: 0.01 and 0
GROWTH_MB = 150  # before: 1,900
JOURNAL_MB = 200  # its first segment takes 67; before: 2,400


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "name", ["credit ignored", pytest.param("giant parcels", marks=pytest.mark.faults)]
)
@pytest.mark.parametrize(
    ("keys", "through"),
    [
        pytest.param(False, False, id="direct"),
        pytest.param(True, False, id="with a key", marks=pytest.mark.faults),
        pytest.param(True, True, id="through a broker", marks=pytest.mark.faults),
    ],
)
def test_peer_that_ignores_its_credit_hurts_only_itself(tmp_path, name, keys, through):
    """Honest actors go on, also right after it; memory and journal stay; the audit holds."""
    with victim(tmp_path, keys=keys, broker=through, actors=1, relayed=int(through)) as target:

        def steps_stay():
            before = target.during(QUIET_S)
            with attacking(target, name, ATTACK_S, keys=keys, through=through):
                during = target.during(ATTACK_S)
            after = target.during(BACK_S)
            assert during.most_mb - during.memory_mb[0] < GROWTH_MB
            return (
                during.steps_per_s > PART_DURING * before.steps_per_s
                and after.steps_per_s > PART_AFTER * before.steps_per_s
            )

        assert any(steps_stay() for _ in range(TRIES))
        journal = tmp_path / "runs" / "victim" / "journal"
        assert sum(path.stat().st_size for path in journal.iterdir()) < JOURNAL_MB * 1_000_000
        assert target.audit()[0] == 0
