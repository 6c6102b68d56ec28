"""A flood of subscriptions against a real learner and a real broker."""

import time

import pytest
from hostile.attacking import AT_BOTH, TRIES, attacking
from hostile.seen import is_answered
from hostile.victim import victim
from support.waiting import took_at_most

from farflung.common.net import intake

pytestmark = [pytest.mark.system, pytest.mark.slow]

ATTACK_S = 4.0
# Of a quiet machine's second, as slow as this one may be. Before: 40 s, and no answer in 40 s.
GAP_S = 8.0
JOIN_S = 20.0
CUT, PATIENCE_S = "sends a message without an end", 60.0
GROWTH_MB = 150  # before: 1,170
CROWD, CROWD_MB = 50, 300  # before: 830
CROWD_JOIN_S = 40.0  # one connection after the other; before: a minute and no answer


FLOODS = ("long topics", "topics of many incarnations", "snapshots that are never read")


@AT_BOTH
def test_a_flood_of_subscriptions_hurts_only_its_sender(tmp_path, through):
    """Beacons and acknowledgements go on, memory stays, and an honest actor joins meanwhile."""
    with victim(tmp_path, broker=through, actors=1, relayed=int(through)) as target:
        for seed, name in enumerate(FLOODS, 9):
            attack = attacking(target, name, ATTACK_S, through=through)
            with target.measuring() as figures, attack:
                time.sleep(2.0)  # of the attack alone
                joiner = target.peer(
                    name=f"joiner-{seed}", through=through, learns=False, seed=seed
                )
                with joiner as honest:
                    assert is_answered(honest, JOIN_S), name
                time.sleep(ATTACK_S / 2)  # so that the figures have a while without a look at them
            assert took_at_most(figures.beacon_gap_s, GAP_S), name
            assert figures.slowest > 0, name
            assert figures.most_mb - figures.memory_mb[0] < GROWTH_MB, name
            assert target.learner.running, name


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


@pytest.mark.faults
@pytest.mark.timeout(300)
def test_a_crowd_behind_a_broker_does_not_have_the_broker_cut(tmp_path):
    """Fifty peers with a key: before, the learner cut the broker some ten times in ten seconds."""
    with victim(tmp_path, keys=True, broker=True, actors=1, relayed=1) as target:
        for name in ("subscriptions that come and go", "topics of many incarnations"):
            attack = attacking(target, name, 2 * ATTACK_S, through=True, keys=True, peers=CROWD)
            with attack, target.measuring() as figures:
                time.sleep(2 * ATTACK_S)
            assert figures.slowest > 0, name
            with target.peer(key="joiner", through=True, learns=False, seed=9) as honest:
                assert is_answered(honest, JOIN_S), name
        assert "key edge" not in target.learner.said, "the broker's connection was cut"


@AT_BOTH
def test_a_message_without_an_end_is_cut_at_both(tmp_path, through):
    """Its connection is ended, and honest actors go on; the kernel bounds it by bytes."""
    with victim(tmp_path, broker=through, actors=1, relayed=int(through)) as target:
        attacked = target.broker if through else target.learner
        assert attacked is not None
        memory_mb, most_mb = attacked.own_mb(), 0.0
        attack = attacking(target, "message without an end", PATIENCE_S, through=through)
        with attack, target.measuring() as figures:
            end = time.monotonic() + ATTACK_S
            while time.monotonic() < end or CUT not in attacked.said:
                assert time.monotonic() < end + PATIENCE_S
                most_mb = max(most_mb, attacked.own_mb())
                time.sleep(0.05)  # between two looks
        # Before: no bound, then one by looks (1,350 MB). The attack dials again when it is cut.
        assert most_mb - memory_mb < 3 * intake.UNFINISHED / 1e6
        assert figures.slowest > 0
