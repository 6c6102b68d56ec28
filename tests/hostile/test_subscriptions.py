"""A flood of subscriptions against a real learner and a real broker."""

import time

import pytest
from hostile.attacking import AT_BOTH, TRIES, attacking
from hostile.seen import is_answered
from hostile.victim import victim

from farflung.common.net import intake

pytestmark = [pytest.mark.system, pytest.mark.slow]

ATTACK_S = 6.0
# Of a quiet machine's second, as slow as this one may be. Before: 40 s, and no answer in 40 s.
GAP_S = 8.0
JOIN_S = 20.0
GROWTH_MB = 150  # before: 1,170
CROWD, CROWD_MB = 50, 300  # before: 830
CROWD_JOIN_S = 40.0  # one connection after the other; before: a minute and no answer


@pytest.mark.parametrize(
    "name", ["long topics", "topics of many incarnations", "snapshots that are never read"]
)
@AT_BOTH
def test_a_flood_of_subscriptions_hurts_only_its_sender(tmp_path, name, through):
    """Beacons and acknowledgements go on, memory stays, and an honest actor joins meanwhile."""
    with victim(tmp_path, broker=through, actors=1, relayed=int(through)) as target:
        attack = attacking(target, name, ATTACK_S, through=through)
        with target.measuring() as figures, attack:
            time.sleep(2.0)  # of the attack alone
            with target.peer(name="joiner", through=through, learns=False, seed=9) as honest:
                assert is_answered(honest, JOIN_S)
            time.sleep(ATTACK_S / 2)  # so that the figures have a while without a look at them
        assert figures.beacon_gap_s < GAP_S
        assert figures.slowest > 0
        assert figures.most_mb - figures.memory_mb[0] < GROWTH_MB
        assert target.learner.running


@pytest.mark.faults
@pytest.mark.timeout(300)
def test_a_crowd_that_asks_for_snapshots_keeps_no_actor_out(tmp_path):
    """Fifty peers without keys, through a broker: before, it stood still for a minute after."""
    with victim(tmp_path, broker=True, actors=1, relayed=1) as target:
        assert target.broker is not None
        memory_mb = target.broker.own_mb()
        question = "snapshots that are never read"
        with attacking(target, question, ATTACK_S, through=True, peers=CROWD):
            time.sleep(ATTACK_S)
            with target.peer(name="joiner", through=True, learns=False, seed=9) as honest:
                assert is_answered(honest, CROWD_JOIN_S)
            assert target.broker.own_mb() - memory_mb < CROWD_MB
        assert any(target.during(10.0).slowest > 0 for _ in range(TRIES))


@AT_BOTH
def test_a_message_without_an_end_is_cut_at_both(tmp_path, through):
    """Its connection is ended, and honest actors go on; unread bytes stay within their bound."""
    with victim(tmp_path, broker=through, actors=1, relayed=int(through)) as target:
        attacked = target.broker if through else target.learner
        assert attacked is not None
        memory_mb, most_mb = attacked.own_mb(), 0.0
        attack = attacking(target, "message without an end", ATTACK_S, through=through)
        with attack, target.measuring() as figures:
            end = time.monotonic() + ATTACK_S
            while time.monotonic() < end:
                most_mb = max(most_mb, attacked.own_mb())
                time.sleep(0.05)  # between two looks
        # Before: no bound. The share above it is what comes between two looks.
        assert most_mb - memory_mb < 1.5 * intake.UNREAD / 1e6
        assert figures.slowest > 0
        assert "sends a message without an end" in attacked.said
