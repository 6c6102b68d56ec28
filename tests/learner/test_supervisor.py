"""What goes on around training: the end is decided, checkpoints are written, figures shown."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.learners import a_config, a_learner

from farflung.common.data.parcel import Results
from farflung.common.data.version import Version
from farflung.common.process.lifecycle import Stop
from farflung.common.process.log import Who
from farflung.common.protocol.messages import State
from farflung.learner import supervisor
from farflung.learner.children import Children
from farflung.learner.core.training import EvaluationResult
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.observe.status_builder import StatusBuilder
from farflung.learner.storage import checkpoint, saver
from farflung.learner.storage.run_folder import new_run
from farflung.learner.supervisor import LOOK_S, Supervisor
from farflung.learner.transport.network_thread import NetworkView


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(supervisor, "time", clock)
    return clock


def settle(supervisor):
    """Wait until no checkpoint is being written."""
    if supervisor.saver.busy:
        supervisor.saver._thread.join(10)
        assert not supervisor.saver.busy


@pytest.fixture
def make(tmp_path, clock):
    """Makes a session that began at 100 s, with everything it looks after as attributes."""
    stops = []

    def make(**changes):
        config = a_config(**changes)
        learner = a_learner(config, tmp_path, "learner")
        run = new_run(str(tmp_path), "one", "CartPole-v1", "")
        shown, stop = [], Stop()
        stops.append(stop)
        overview = StatusBuilder(config, run, learner.training, "cpu")
        children, who = Children(tmp_path / "logs"), Who("learner", "one")
        made = Supervisor(config, run, learner.training, overview, children, stop, who, clock.now)
        made.outlets.append(StatusSink("list", shown.append, 0.0, lambda: shown.append("left")))
        parts = {
            "training": learner.training,
            "stop": stop,
            "shown": shown,
            "children": children,
            "run": run,
            "who": who,
        }

        def goes_on():
            goes = made.goes_on(NetworkView())
            settle(made)
            return goes

        return SimpleNamespace(supervisor=made, goes_on=goes_on, **parts)

    yield make
    for stop in stops:
        stop.close()


def test_a_run_without_a_goal_goes_on(make):
    """Nothing ends it but a signal."""
    assert make().goes_on()


def test_a_signal_ends_it_with_its_reason(make):
    """The verdict says who wanted it."""
    one = make()
    one.stop.set("SIGTERM")
    assert not one.goes_on()
    assert one.supervisor.verdict == "stopped: SIGTERM"
    assert (one.supervisor.finished, one.supervisor.last_state) == (False, State.AWAY)


def test_the_steps_end_it(make):
    """Once all steps are collected and no update is left that pacing allows."""
    one = make(steps=16)
    one.training.progress.steps = 15
    assert one.goes_on()
    assert one.supervisor.rows_wanted == 1
    one.training.progress.steps, one.training.updates = 17, 1
    assert one.supervisor.rows_wanted == 0
    assert not one.goes_on()
    assert one.supervisor.verdict == "all 17 steps are collected and learned from"
    assert (one.supervisor.finished, one.supervisor.last_state) == (True, State.STOP)


def test_steps_within_the_warm_up_teach_nothing_and_that_is_said(make):
    """Without a single update nothing was learned from."""
    one = make(steps=8, warmup=16)
    one.training.progress.steps = 8
    assert not one.goes_on()
    assert "the warm-up of 16 was never over" in one.supervisor.verdict


def test_the_last_steps_are_learned_from(make):
    """With updates left that the ratio asks for, it goes on."""
    one = make(steps=16, warmup=0)
    one.training.progress.steps = 16
    one.training.pacing.inserted(16)
    assert one.goes_on()
    one.training.pacing.sampled(16)
    assert not one.goes_on()


def test_an_infinite_ratio_ends_with_the_steps(make):
    """There is always one more update: the steps alone decide."""
    one = make(mode="async", replay_ratio=float("inf"), steps=32, warmup=0)
    one.training.pacing.inserted(32)
    assert one.goes_on()
    one.training.progress.steps = 32
    assert not one.goes_on()


def test_the_condition_ends_it(make):
    """A run is solved when its figures say so; unknown figures say nothing."""
    one = make(until="evaluation >= 5 and steps > 10", evaluate_every=10)
    one.training.progress.steps = 11
    assert one.goes_on()
    results = Results(np.array([4.0, 6.0]), np.array([1, 1], np.int32))
    one.training.progress.evaluation = EvaluationResult(11, Version(1, 1), results)
    assert not one.goes_on()
    assert one.supervisor.verdict == "solved: evaluation >= 5 and steps > 10"


@pytest.mark.parametrize(
    "condition", ["seconds >= 7", "return > 2", "episodes >= 1", "updates >= 3"]
)
def test_every_figure_may_be_a_goal(make, clock, condition):
    """Time since the start, the mean return, episodes and updates."""
    one = make(until=condition)
    assert one.goes_on()
    clock.now += 7.0
    one.training.progress.returns.append(3.0)
    one.training.progress.episodes, one.training.updates = 1, 3
    assert not one.goes_on()


def test_it_looks_around_now_and_then(make, clock):
    """Between two updates it costs nothing; four times a second figures are shown."""
    one = make()
    for _ in range(5):
        one.goes_on()
    assert len(one.shown) == 1
    clock.now += 1.01 * LOOK_S
    one.goes_on()
    assert len(one.shown) == 2


def test_checkpoints_are_written_at_their_interval(make, clock):
    """Every 60 s here, counted from the last one."""
    often = make(checkpoint_every=60.0)
    for at, expected in ((159.0, 0), (160.0, 1), (219.0, 1), (220.0, 2)):
        clock.now = at
        often.goes_on()
        assert len(list(often.run.folder.glob("checkpoints/*"))) == expected


def test_without_an_interval_no_checkpoint_is_written_on_the_way(make, clock):
    """0 means only at the end."""
    one = make(checkpoint_every=0.0)
    clock.now += 10**6
    one.goes_on()
    assert not (one.run.folder / "checkpoints").exists()


def test_a_checkpoint_that_failed_is_named_on_the_screen(make, monkeypatch):
    """What the saver says of it is a problem."""
    one = make()
    monkeypatch.setattr(
        one.supervisor.saver, "problem", lambda: "no checkpoint could be written: No space left"
    )
    assert one.goes_on()
    assert one.shown[-1].problems[-1] == "no checkpoint could be written: No space left"


def test_while_a_checkpoint_is_written_the_next_one_is_left_out(make, clock, monkeypatch):
    """One at a time; it is tried again at its time."""
    begun = []
    one = make(checkpoint_every=60.0)
    monkeypatch.setattr(one.supervisor.saver, "begin", begun.append)
    monkeypatch.setattr(saver.Saver, "busy", property(lambda self: clock.now < 200.0))
    for at, expected in ((160.0, 0), (219.0, 0), (220.0, 1)):
        clock.now = at
        one.supervisor.goes_on(NetworkView())
        assert len(begun) == expected


def test_log_lines_carry_the_version(make, clock):
    """Whoever reads the log knows which weights were the newest."""
    one = make()
    one.training.publish()
    one.goes_on()
    assert one.who.version == "1.1"


def test_a_checkpoint_holds_the_counters(make):
    """Steps, updates, samples and episodes go with the weights, the run's id, randomness and who takes part."""
    one = make()
    one.training.progress.steps, one.training.updates, one.training.progress.episodes = 30, 4, 2
    one.supervisor.view = NetworkView(roster={"starts": [1], "members": []})
    one.supervisor.save()
    assert one.supervisor.saver.saved == str(one.run.folder / "checkpoints" / "000001")
    found = checkpoint.load(one.run.folder)
    random = torch.get_rng_state().numpy().tobytes()
    counters = {"steps": 30, "updates": 4, "episodes": 2, "samples": 0, "run": one.run.identity}
    assert found.facts == counters | {
        "random": random,
        "replay": b"",
        "roster": {"starts": [1], "members": []},
    }
    assert found.tensors.keys() == one.training.algorithm.state().keys()


def test_a_dead_child_is_a_problem_on_the_screen(make, monkeypatch, caplog):
    """Its sentence is logged and shown."""
    one = make()
    monkeypatch.setattr(one.children, "tick", lambda now: ["local-0 ended with exit code 70"])
    one.goes_on()
    assert one.shown[-1].problems == ("local-0 ended with exit code 70",)
    assert "local-0 ended" in caplog.text


def test_the_last_figures_are_shown_and_the_terminal_left(make):
    """With the newest view, and the state in which it leaves, also where nothing but an error ended it."""
    one = make()
    one.supervisor.goes_on(dataclasses.replace(NetworkView(), received=7))
    one.supervisor.finish()
    assert (one.shown[-2].state, one.shown[-2].received, one.shown[-1]) == (State.AWAY, 7, "left")
