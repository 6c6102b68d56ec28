"""The account of steps at a fixed rate: parts, overruns, figures, and time without a learner."""

from pathlib import Path

import pytest

from farflung.actor.realtime.alone import Alone, WithoutLearner, is_answer
from farflung.actor.realtime.clock import Clock
from farflung.actor.realtime.figures import NAMES, RATE, figures, summary
from farflung.actor.realtime.overruns import SAY_S, Overruns
from farflung.actor.realtime.parts import Parts, Stopwatch
from farflung.actor.worlds.own import find_answer
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.ledger import Ledger


def test_stopwatch_leaves_the_rest_of_a_step_to_us() -> None:
    """Of 20 ms the environment took 12 and inference 5."""
    watch = Stopwatch(lambda: 0.0)
    watch.environment_s, watch.inference_s = 0.012, 0.005
    parts = watch.parts(late_s=0.001, took_s=0.020)
    assert (parts.woken, parts.environment, parts.inference) == (0.001, 0.012, 0.005)
    assert round(parts.ours, 9) == 0.003
    assert parts.cause == "environment"
    watch.restart()
    assert watch.parts(0.0, 0.5) == (0.0, 0.0, 0.0, 0.5)
    assert watch.parts(0.0, 0.5).cause == "ours"


def test_overruns_are_named_by_the_worst_and_counted_by_cause() -> None:
    """Three in ten seconds are one sentence; the next sentence has its own."""
    overruns = Overruns(period_s=0.02)
    assert overruns.sentence(0.0) == ""
    overruns.add(7, Parts(0.0, 0.025, 0.001, 0.0))
    overruns.add(8, Parts(0.005, 0.03, 0.001, 0.002))
    overruns.add(9, Parts(0.021, 0.001, 0.0, 0.0))
    assert overruns.sentence(0.0) == (
        "step 8 was over after 38.0 ms of its 20.0: woken 5.0 ms late, environment 30.0, "
        "inference 1.0, ours 2.0; so were 2 others"
    )
    overruns.add(10, Parts(0.0, 0.0, 0.022, 0.0))
    assert overruns.sentence(SAY_S - 0.1) == ""
    assert overruns.sentence(SAY_S) == (
        "step 10 was over after 22.0 ms of its 20.0: woken 0.0 ms late, environment 0.0, "
        "inference 22.0, ours 0.0"
    )
    assert overruns.causes == {"environment": 2, "woken": 1, "inference": 1}


def test_without_a_learner_an_actor_goes_on_or_stops() -> None:
    """Only periods without a learner are counted."""
    goes_on, stops = Alone(), Alone(WithoutLearner.STOP)
    for there in (True, False, False, True):
        assert not goes_on.stops(there)
        assert stops.stops(there) is not there
    assert (goes_on.steps, goes_on.stopped) == (2, 0)
    assert (stops.steps, stops.stopped) == (0, 2)


def test_without_a_learner_a_function_may_act() -> None:
    """It is named for each period in which no learner is there, and these are counted."""
    alone = Alone(abs)
    named = []
    for there in (True, False, False, True):
        assert not alone.stops(there)
        named.append(alone.instead)
    assert named == [None, abs, abs, None]
    assert (alone.steps, alone.stopped) == (2, 0)


def test_the_answer_is_a_word_or_the_name_of_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module may lie in the present folder; what cannot be called is refused."""
    (tmp_path / "safe_arm.py").write_text("def hold(seen):\n    return 2\n\n\nLIMIT = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert all(map(is_answer, ("go-on", "stop", "safe_arm:hold")))
    assert not is_answer("wait")
    assert find_answer("stop") is WithoutLearner.STOP
    hold = find_answer("safe_arm:hold")
    assert not isinstance(hold, WithoutLearner)
    assert hold([1.0]) == 2
    with pytest.raises(ConfigurationError, match="it is no function, but 3"):
        find_answer("safe_arm:LIMIT")
    with pytest.raises(ConfigurationError, match="safe_arm has no hold_still"):
        find_answer("safe_arm:hold_still")


def test_figures_are_those_of_a_report_and_of_the_last_line() -> None:
    """Two steps at 4 Hz, of which the first takes 0.625 s: one period is left out."""
    clock = Clock(4.0, now=0.0)
    clock.begin(0.0)
    clock.end(0.625)
    clock.begin(0.625)
    alone = Alone()
    alone.stops(there=False)
    found = figures(clock, {"environment": 1}, alone, weights_age_s=2.5)
    assert found == {
        "rate.hz": 4.0,
        "rate.steps": 2.0,
        "rate.missed": 1.0,
        "rate.skipped": 1.0,
        "rate.late_p50_s": 1e-6,
        "rate.late_p99_s": 0.375,
        "rate.late_worst_s": 0.375,
        "rate.weights_age_s": 2.5,
        "rate.alone": 1.0,
        "rate.stopped": 0.0,
        "rate.missed.environment": 1.0,
    }
    assert {RATE + name for name in NAMES} == found.keys() - {"rate.missed.environment"}
    ledger = Ledger()
    ledger.miss("outbox full", parcels=3, rows=12)
    assert ledger.balanced
    assert summary(found, ledger) == (
        "at 4 Hz: 2 steps, 1 over their period (environment 1), 1 periods left out; "
        "late by 0.00 ms (p50), 375.00 (p99), 375.00 (worst); weights 2.5 s old; "
        "3 parcels dropped; without a learner 1 steps, 0 periods stopped"
    )
