"""The evaluation at the end of a run that kept none, or has only an old one."""

import json
import threading
import time
from types import SimpleNamespace

import pytest
import support.worlds  # noqa: F401 - registers toys
from support.learners import a_config, a_learner
from support.waiting import eventually

from farflung.common.process.config import Loaded
from farflung.common.process.lifecycle import Stop
from farflung.learner import last_evaluation, training
from farflung.learner.last_evaluation import LastEvaluation, overdue, wanted
from farflung.learner.learner import Learner
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.storage import policies
from farflung.learner.storage.best_keeper import BestKeeper

LAST = 0.2  # the time for a last evaluation, where it is to run out


@pytest.fixture
def stop():
    made = Stop()
    yield made
    made.close()


@pytest.fixture
def evaluation(tmp_path):
    """Return a function that makes an evaluation of three episodes, its weights and its looks."""

    def make(environment, look=lambda left: None, **changes):
        config = a_config(environment=environment, evaluate_every=100, evaluate_episodes=3)
        core = a_learner(config, tmp_path).core
        return LastEvaluation(core.spec, 2, look), core.acting()

    return make


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs a small learner to its end, and what it wrote."""
    monkeypatch.setattr(
        training, "metrics", lambda folder: StatusSink("metrics", lambda status: None, 1.0)
    )

    def run(**changes):
        asked = {"run_dir": str(tmp_path), "evaluate_every": 10_000, "evaluate_episodes": 3}
        config = a_config(**{**asked, "name": "one", "steps": 40, **changes})
        code = Learner(Loaded(config, {})).serve()
        return code, capsys.readouterr(), tmp_path / config.name

    return run


def test_all_episodes_are_played_under_the_weights(evaluation, stop):
    """Three whole episodes; while they last, the number to go is shown, never a growing one."""
    seen = []
    one, weights = evaluation("CartPole-v1", lambda left: seen.append(left()))
    parcel = one.play(weights, stop, "a test asks")
    assert parcel is not None
    assert parcel.evaluation
    assert parcel.version == weights.version
    assert len(parcel.results.returns) == 3
    assert (parcel.results.returns == parcel.results.lengths).all()
    assert seen == sorted(seen, reverse=True)


def test_world_that_raises_costs_the_evaluation_alone(evaluation, stop, caplog, monkeypatch):
    """The reason is named, and nothing is raised."""
    one, weights = evaluation("CartPole-v1")
    monkeypatch.setattr("gymnasium.envs.classic_control.CartPoleEnv.step", _raise)
    assert one.play(weights, stop, "a test asks") is None
    assert "no last evaluation" in caplog.text
    assert "the motor is hot" in caplog.text


def test_step_that_hangs_ends_with_the_time(evaluation, stop, caplog, monkeypatch):
    """The main thread goes on; the step may end later."""
    one, weights = evaluation("CartPole-v1")
    monkeypatch.setattr(last_evaluation, "MOST_S", LAST)
    monkeypatch.setattr(last_evaluation, "LET_GO_S", 0.05)
    hung = threading.Event()
    monkeypatch.setattr(
        "gymnasium.envs.classic_control.CartPoleEnv.step", lambda *words: hung.wait(120)
    )
    assert one.play(weights, stop, "a test asks") is None
    hung.set()
    assert "it took too long" in caplog.text


def test_signal_ends_an_evaluation(evaluation, stop, caplog, monkeypatch):
    """A first one, in the midst of an endless episode."""
    started = time.monotonic()
    one, weights = evaluation("toys/Endless-v0", lambda left: stop.set("SIGINT", 130))
    monkeypatch.setattr(last_evaluation, "MOST_S", 600.0)
    assert one.play(weights, stop, "a test asks") is None
    assert "a signal came" in caplog.text
    assert time.monotonic() - started < 300
    assert eventually(lambda: "last evaluation" not in [t.name for t in threading.enumerate()])


def test_time_for_it(stop):
    """At a goal and after Ctrl-C; not after SIGTERM, nor after a failure."""
    assert wanted(stop)
    for reason, code, expected in (("SIGINT", 130, True), ("SIGTERM", 0, False), ("x", 78, False)):
        one = Stop()
        one.set(reason, code)
        assert wanted(one) is expected
        one.close()


def test_short_run_has_a_best_policy(run):
    """Its last weights, which no other evaluation came to; the summary says so."""
    code, said, folder = run()
    assert code == 0
    best = policies.read_best(folder)
    assert best is not None
    assert f"best evaluation: {best.interval} under version " in said.err
    statuses = [json.loads(line) for line in said.out.splitlines() if line.startswith("{")]
    assert statuses[-1]["evaluation"]["mean"] == pytest.approx(best.interval.mean)


@pytest.mark.parametrize(
    ("came", "kept", "expected"),
    [
        (None, False, "no evaluation was kept"),  # a short run
        (4_000, False, "no evaluation was kept"),  # the first one, of weights that are too young
        (2_300, True, "the newest result came 3,700 steps ago"),  # of 6,000, one each 2,000 steps
        (4_000, True, "the newest result came 2,000 steps ago"),
        (4_001, True, ""),
        (None, True, ""),  # of an epoch before
    ],
)
def test_last_weights_are_evaluated_if_evaluations_did_not_keep_up(came, kept, expected):
    """By hand: at the end of 6,000 steps the newest result is a whole interval old, or it is not.

    Then the weights of the end may be far better than the best policy.
    """
    newest = None if came is None else SimpleNamespace(steps=came)
    assert overdue(newest, 6_000, 2_000, kept=kept) == expected


@pytest.mark.parametrize(("mean", "is_last"), [(1.0, True), (1e9, False)])
def test_last_weights_are_the_best_policy_only_if_they_are_better(run, monkeypatch, mean, is_last):
    """The evaluator brought one result at the beginning, and no other one came."""
    kept = []

    def young(evaluation, steps, every, *, kept):
        return "a test asks"

    def keeping(self, result, weights):
        kept.append(weights.version)
        keep(self, result, weights)

    keep = BestKeeper.keep
    monkeypatch.setattr(last_evaluation, "overdue", young)
    monkeypatch.setattr(BestKeeper, "keep", keeping)
    monkeypatch.setattr(BestKeeper, "_open", lambda self: setattr(self, "mean", mean))
    code, said, _ = run()
    assert code == 0
    assert len(kept) == is_last
    assert "evaluating the last weights, as a test asks" in said.err


@pytest.mark.parametrize("changes", [{"evaluate_every": 0}, {"warmup": 400}])
def test_no_evaluation_is_made_for_nothing(run, changes):
    """Not where none is asked for, nor of weights that nothing was learned in."""
    _, said, folder = run(**changes)
    assert policies.read_best(folder) is None
    assert "best evaluation: none yet" in said.err


def _raise(*words):
    raise RuntimeError("the motor is hot")
