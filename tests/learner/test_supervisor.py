"""The supervisor of a run: goals, checkpoints, children and status."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.learners import a_config, a_learner
from support.waiting import eventually

from farflung.common.data.parcel import Results
from farflung.common.data.weights import Version
from farflung.common.process.lifecycle import Stop
from farflung.common.process.log import Who
from farflung.common.protocol.messages import State
from farflung.learner import supervisor
from farflung.learner.core.progress import EvaluationResult
from farflung.learner.local.children import Children
from farflung.learner.observe.endpoint_status import EndpointStatus
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.observe.status import ActorStatus, WaitingStatus
from farflung.learner.observe.status_builder import StatusBuilder
from farflung.learner.steering.orders import AS_BEGUN
from farflung.learner.storage import checkpoint
from farflung.learner.storage.run_folder import new_run
from farflung.learner.storage.saver import Saver
from farflung.learner.supervisor import CHECK_S, Supervisor


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that the test sets."""
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(supervisor, "time", clock)
    return clock


def settle(supervisor):
    """Wait until no checkpoint is being written."""
    if supervisor.saver.busy:
        eventually(lambda: not supervisor.saver.busy)
        assert not supervisor.saver.busy


@pytest.fixture
def make(tmp_path, clock):
    """Return a function that makes a supervisor at 100 s, with its parts as attributes."""
    stops = []

    def make(**changes):
        config = a_config(**changes)
        learner = a_learner(config, tmp_path, "learner")
        run = new_run(str(tmp_path), "one", "CartPole-v1", "")
        shown, stop = [], Stop()
        stops.append(stop)
        builder = StatusBuilder(config, run, learner.core, "cpu")
        children, who = Children(tmp_path / "logs"), Who("learner", "one")
        transport = SimpleNamespace(status=EndpointStatus())
        saver = Saver(run, learner.core)
        made = Supervisor(
            config, learner.core, builder, saver, transport, children, stop, who, clock.now
        )
        made.sinks.append(StatusSink("list", shown.append, 0.0, lambda: shown.append("left")))
        parts = {
            "core": learner.core,
            "transport": transport,
            "stop": stop,
            "shown": shown,
            "children": children,
            "run": run,
            "who": who,
        }

        def over():
            made.tick()
            settle(made)
            return made.over

        return SimpleNamespace(supervisor=made, over=over, **parts)

    yield make
    for stop in stops:
        stop.close()


def test_run_without_a_goal_is_never_over(make):
    """A run without a goal ends only by a signal."""
    assert not make().over()


def test_signal_ends_a_run_and_is_named(make):
    """The verdict names the signal."""
    one = make()
    one.stop.set("SIGTERM")
    assert one.over()
    assert one.supervisor.verdict == "stopped: SIGTERM"
    assert (one.supervisor.finished, one.supervisor.last_state) == (False, State.AWAY)


def test_steps_end_a_run_once_they_are_learned_from(make):
    """A run ends when all steps are collected and pacing allows no further update."""
    one = make(steps=16)
    one.core.state.steps = 15
    assert not one.over()
    assert one.supervisor.rows_wanted == 1
    one.core.state.steps, one.core.state.updates = 17, 1
    assert one.supervisor.rows_wanted == 0
    assert one.over()
    assert one.supervisor.verdict == "all 17 steps are collected and learned from"
    assert (one.supervisor.finished, one.supervisor.last_state) == (True, State.STOP)


def test_flags_that_continue_a_run_lift_the_goal_that_it_reached(make):
    """All that the run has; before its goal there are none."""
    one = make(steps=16, until="updates > 3")
    one.core.state.steps, one.core.state.updates = 17, 1
    assert one.supervisor.continued_by == ""
    assert one.over()
    assert one.supervisor.continued_by == "--steps 0 --until ''"


def test_verdict_names_a_warmup_that_was_never_over(make):
    """The verdict of a run without an update names the warm-up."""
    one = make(steps=8, warmup=16)
    one.core.state.steps = 8
    assert one.over()
    assert "did not complete the warm-up of 16" in one.supervisor.verdict
    assert one.supervisor.continued_by == ""  # it may go on as it is


def test_run_is_not_over_while_the_ratio_asks_for_updates(make):
    """A run continues while the replay ratio requires updates."""
    one = make(steps=16, warmup=0)
    one.core.state.steps = 16
    one.core.pacing.inserted(16)
    assert not one.over()
    one.core.pacing.sampled(16)
    assert one.over()


def test_run_with_an_infinite_ratio_ends_with_its_steps(make):
    """An infinite ratio always allows one more update, so the steps alone end the run."""
    one = make(mode="async", replay_ratio=float("inf"), steps=32, warmup=0)
    one.core.pacing.inserted(32)
    assert not one.over()
    one.core.state.steps = 32
    assert one.over()


@pytest.mark.parametrize(
    ("actors", "stops"),
    [
        ((), True),
        (("left", "evaluating", "silent"), True),
        (("left", "running"), False),
        (("left", "learning"), False),
    ],
)
def test_run_whose_own_actors_are_given_up_ends_with_their_code(make, clock, actors, stops):
    """The verdict has the sentence about the last one. Another actor that collects goes on."""
    one = make(mode="async")
    program = [sys.executable, "-S", "-c", "print('wrong shape'); raise SystemExit(78)"]
    child = one.children.add("local-0", program, clock.now)
    child.process.wait(60)
    rows = tuple(ActorStatus(f"box-{n}", state) for n, state in enumerate(actors))
    one.transport.status = EndpointStatus(actors=rows)
    clock.now += CHECK_S
    assert one.over() is stops
    if stops:
        assert one.stop.exit_code == 78
        assert one.supervisor.verdict == f"stopped: {child.given_up}"
        assert "wrong shape" in one.supervisor.verdict


def test_episodes_that_were_cut_are_logged_once(make, clock, caplog):
    """For as long as the same number is cut."""
    one = make()
    most = one.core.spec.evaluation.max_steps
    for version in (1, 2, 3):
        results = Results(np.array([1.0, 1.0]), np.array([most, 4], np.int32))
        one.core.progress.evaluation = EvaluationResult(11, Version(1, version), results)
        clock.now += CHECK_S
        one.over()
    said = [record.message for record in caplog.records if "were cut" in record.message]
    assert said == [
        "1 of the 2 episodes of the newest evaluation were cut after 27,000 steps "
        "(--evaluate-max-steps): under the greedy policy they go on"
    ]


def test_condition_ends_a_run_as_solved(make):
    """A run is solved when its figures meet the condition; an unknown figure does not."""
    one = make(until="evaluation >= 5 and steps > 10", evaluate_every=10)
    one.core.state.steps = 11
    assert not one.over()
    results = Results(np.array([4.0, 6.0]), np.array([1, 1], np.int32))
    one.core.progress.evaluation = EvaluationResult(11, Version(1, 1), results)
    assert one.over()
    assert one.supervisor.verdict == "solved: evaluation >= 5 and steps > 10"


@pytest.mark.parametrize(
    "condition", ["seconds >= 7", "return > 2", "episodes >= 1", "updates >= 3"]
)
def test_every_figure_may_be_a_goal(make, clock, condition):
    """Seconds, mean return, episodes and updates can end a run."""
    one = make(until=condition)
    assert not one.over()
    clock.now += 7.0
    one.core.progress.returns.append(3.0)
    one.core.progress.episodes, one.core.state.updates = 1, 3
    assert one.over()


def test_supervisor_shows_a_status_four_times_a_second(make, clock):
    """Ticks between two checks show no status."""
    one = make()
    for _ in range(5):
        one.over()
    assert len(one.shown) == 1
    clock.now += 1.01 * CHECK_S
    one.over()
    assert len(one.shown) == 2


def test_supervisor_checkpoints_at_the_interval(make, clock):
    """A checkpoint is written 60 s after the last one."""
    often = make(checkpoint_every=60.0)
    for at, expected in ((159.0, 0), (160.0, 1), (219.0, 1), (220.0, 2)):
        clock.now = at
        often.over()
        assert len(list(often.run.folder.glob("checkpoints/*"))) == expected


def test_supervisor_without_an_interval_checkpoints_at_the_end_only(make, clock):
    """With an interval of 0 no checkpoint is written during the run."""
    one = make(checkpoint_every=0.0)
    clock.now += 10**6
    one.over()
    assert not (one.run.folder / "checkpoints").exists()


def test_status_names_a_checkpoint_that_failed(make, monkeypatch):
    """The saver's sentence is shown as a problem."""
    one = make()
    monkeypatch.setattr(
        one.supervisor.saver, "problem", lambda: "no checkpoint could be written: No space left"
    )
    assert not one.over()
    assert one.shown[-1].problems[-1] == "no checkpoint could be written: No space left"


def test_supervisor_skips_a_checkpoint_while_one_is_written(make, clock, monkeypatch):
    """The saver writes one checkpoint at a time; the next one starts an interval later."""
    begun = []
    one = make(checkpoint_every=60.0)
    monkeypatch.setattr(one.supervisor.saver, "begin", begun.append)
    monkeypatch.setattr(Saver, "busy", property(lambda self: clock.now < 200.0))
    for at, expected in ((160.0, 0), (219.0, 0), (220.0, 1)):
        clock.now = at
        one.supervisor.tick()
        assert len(begun) == expected


def test_log_lines_carry_the_version(make, clock):
    """The log names the newest version of the weights."""
    one = make()
    one.core.publish()
    one.over()
    assert one.who.version == "1.1"


def test_last_checkpoint_holds_counters_randomness_and_roster(make):
    """The checkpoint holds steps, updates, samples, episodes, the run's id and the members."""
    one = make()
    one.core.state.steps, one.core.state.updates, one.core.progress.episodes = 30, 4, 2
    one.transport.status = EndpointStatus(roster={"starts": [1], "members": []})
    one.supervisor.save()
    assert one.supervisor.saver.saved == str(one.run.folder / "checkpoints" / "000001")
    found = checkpoint.load(one.run.folder)
    random = torch.get_rng_state().numpy().tobytes()
    counters = {"steps": 30, "updates": 4, "episodes": 2, "samples": 0, "run": one.run.identity}
    assert found.facts == counters | {
        "random": random,
        "replay": b"",
        "pacing": (1.0, 0.0),
        "steering": AS_BEGUN,
        "roster": {"starts": [1], "members": []},
    }
    assert found.tensors.keys() == one.core.algorithm.state().keys()


def test_status_names_a_child_that_died(make, monkeypatch, caplog):
    """The sentence about its end is logged and shown."""
    one = make()
    monkeypatch.setattr(one.children, "tick", lambda now: ["local-0 ended with exit code 70"])
    one.over()
    assert one.shown[-1].problems == ("local-0 ended with exit code 70",)
    assert "local-0 ended" in caplog.text


def test_run_is_shown_while_an_action_takes_long(make, clock):
    """An evaluation in this process: at most four times a second, with its episodes to go."""
    one = make()
    one.supervisor.tick()
    before = len(one.shown)
    for moment in (0.1, 0.2, 0.3, 0.4, 0.6):
        clock.now = 100.0 + moment
        one.supervisor.look(lambda: 7)
    shown = one.shown[before:]
    assert [status.seconds for status in shown] == pytest.approx([0.3, 0.6])
    assert {status.waiting for status in shown} == {WaitingStatus("evaluation", 7, 1.0)}
    one.supervisor.tick()
    assert one.shown[-1].waiting.cause == "warm-up"


def test_supervisor_shows_the_last_status_and_closes_its_sinks(make):
    """The last status has the newest counters and the state in which the learner leaves."""
    one = make()
    one.transport.status = EndpointStatus(received=7)
    one.supervisor.tick()
    one.supervisor.finish()
    assert (one.shown[-2].state, one.shown[-2].received, one.shown[-1]) == (State.AWAY, 7, "left")
