"""The siege in short: honest actors go on, memory stays in its bounds, and the audit holds."""

import json
import sys
from pathlib import Path

import pytest
from hostile.attacking import TRIES
from hostile.seen import AFTER, Ledger, Round, by_attack
from support.waiting import run_to_end

SIEGE = Path(__file__).parent / "siege.py"
CONVERSE = Path(__file__).parent / "converse.py"
WORST = 0.5  # in one round of the short form; the long form promises more, on a quiet machine


class Clockwork:
    """A victim with one honest actor of 100 steps a second, and a gap in them."""

    def __init__(self, *steps):
        self._steps = iter(steps)

    def steps(self):
        """Return the next count."""
        return {"honest-0": next(self._steps, 0)}


def a_ledger(rates):
    """Return a ledger of one look a second, with so many steps between two."""
    ledger, total = Ledger(Clockwork()), 0
    for second, rate in enumerate(rates):
        total += rate
        ledger._times.append(float(second))
        ledger._steps.append(total)
    return ledger


def test_return_of_steps_is_found_where_they_come_back():
    """Steps fall to nothing for six seconds: they are back when a whole window has them again."""
    ledger = a_ledger([100] * 10 + [0] * 6 + [100] * 14)
    assert ledger.rate(0, 9) == 100
    assert ledger.rate(10, 15) == 0
    assert ledger.back_after(10, AFTER * 100, 29) == pytest.approx(4.6, abs=0.5)
    assert a_ledger([100] * 10 + [50] * 20).back_after(10, AFTER * 100, 29) is None


def a_round(part, back_s, *names):
    """Return a round of these attacks."""
    return Round([*names], 1, ["1 × a key, learner"], 200.0, 200.0 * part, back_s, 1.0, 330.0, 30)


def test_table_shows_the_worst_of_an_attack():
    """The worst round counts; one after which steps did not come back is named by None."""
    found = by_attack(
        [a_round(1.0, 0.0, "a"), a_round(0.5, 3.0, "a", "b"), a_round(0.9, None, "b")]
    )
    assert (found["a"]["rounds"], found["a"]["during_worst"], found["a"]["back_s"]) == (2, 0.5, 3.0)
    assert found["b"]["back_s"] is None


def result(script, *words):
    """Run a script; return its exit code, the JSON that it printed, and all that it said."""
    done = run_to_end([sys.executable, script, *map(str, words)], within_s=200)
    said = done.stdout + done.stderr
    assert "{" in done.stdout, said
    return done.returncode, json.JSONDecoder().raw_decode(said[said.index("{\n") :])[0], said


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_minute_of_attacks_stops_and_exhausts_nothing():
    """Learner and broker live, honest actors step, memory is bounded, nothing is lost."""

    def steps_stay():
        _, found, said = result(SIEGE, "--minutes", 1)
        assert found["exits"] == 0, said
        assert found["audit"] == 0, said
        assert "lost: 0; duplicated: 0; changed: 0" in found["audited"]
        assert found["memory_mb"]["most"] <= found["memory_mb"]["bound"], said
        return found["during"]["worst"] >= WORST

    assert any(steps_stay() for _ in range(TRIES))


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_conversations_with_lies_do_a_learner_no_harm():
    """Twenty seconds of changed messages: the learner lives, and honest actors have their steps."""
    code, found, said = result(CONVERSE, "--minutes", 0.33)
    assert code == 0, said
    assert found["turns"] > 100
