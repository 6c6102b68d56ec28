"""The executor of commands, with a real core and a real folder."""

import logging
import os

import pytest
from support.steered import SteeredRun
from support.waiting import eventually

from farflung.learner.steering.orders import AS_BEGUN, Steering
from farflung.learner.storage import manifest, steering


@pytest.fixture
def bench(tmp_path, shared_graphs):
    """Return a function that makes a run."""
    made = []

    def make(**changes):
        made.append(SteeredRun(tmp_path, **changes))
        return made[-1]

    yield make
    for each in made:
        each.executor.close()
        each.stop.close()


def test_pause_and_resume(bench, caplog):
    """The log says who asked."""
    caplog.set_level(logging.INFO)
    run = bench(mode="async")
    assert run.done("pause") == [(1, "")]
    assert run.core.state.paused
    assert "pause: asked for by lab/me at 10.0.0.7" in caplog.text
    assert "training pauses: learner resume" in caplog.text
    assert run.done("resume", 2) == [(2, "")]
    assert not run.core.state.paused
    assert [(each.order, each.by) for each in run.record.answers] == [
        ("pause", "lab/me at 10.0.0.7"),
        ("resume", "lab/me at 10.0.0.7"),
    ]


def test_settings_have_their_effect_at_once(bench):
    """On optimizer, pacing, schedule and log; `default` takes them back."""
    run = bench(mode="async", replay_ratio=1.0)
    algorithm, state = run.core.algorithm, run.core.state
    begun = algorithm.learning_rate
    level = logging.getLogger("farflung").level
    asked = {"learning_rate": begun / 10, "replay_ratio": 3, "publish_every": 7, "weight": 2}
    try:
        assert run.done("set", **asked, log_level="error") == [(1, "")]
        assert algorithm.learning_rate == pytest.approx(begun / 10)
        assert (state.pacing.pace, state.pacing.weight, state.publish_every) == (6.0, 2.0, 7)
        assert logging.getLogger("farflung").level == logging.ERROR
        back = dict.fromkeys((*asked, "log_level"))
        assert run.done("set", 2, **back) == [(2, "")]
        assert algorithm.learning_rate == begun
        assert (state.pacing.pace, state.pacing.weight, state.publish_every) == (1.0, 1.0, 0)
        assert logging.getLogger("farflung").level == logging.INFO
    finally:
        logging.getLogger("farflung").setLevel(level)
    assert run.core.steering == AS_BEGUN


def test_command_that_comes_again_is_not_executed_again(bench):
    """By any door, in this epoch and in the next: its answer is the same."""
    run = bench(mode="async")
    first = run.command("set", weight=2)
    run.asks(first)
    run.asks(run.command("set", 2, weight=3))
    run.asks(first)
    steering.leave(run.folder, first, 1)
    run.executor.tick()
    assert run.settled == [(1, ""), (2, ""), (1, "")]
    assert run.core.state.pacing.weight == 3.0
    run.again()
    run.asks(first)
    run.executor.tick()
    assert run.settled[3:] == [(1, "")]
    assert run.core.state.pacing.weight == 3.0
    assert len(run.record.answers) == 2


def test_command_of_an_earlier_epoch_that_was_not_done_is_refused(bench):
    """So a replay of yesterday's does nothing."""
    run = bench(mode="async")
    late = run.command("stop")
    run.again()
    run.asks(late)
    run.executor.tick()
    assert run.settled == [(1, "epoch")]
    assert not run.stop


def test_kill_between_record_and_answer_executes_once(bench, monkeypatch):
    """The record is the moment at which a command counts."""
    run = bench(mode="async")
    asked = run.command("set", weight=2)
    run.executor.tick()
    run.asks(asked)
    monkeypatch.setattr(run.core, "steer", lambda steering: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # it dies there
        run.executor.tick()
    monkeypatch.undo()
    assert run.settled == []
    run.again()
    run.asks(asked)
    run.executor.tick()
    assert run.settled == [(1, "")]
    assert run.core.state.pacing.weight == 2.0
    assert len(run.record.answers) == 1


def test_changed_settings_are_in_the_checkpoint_and_in_the_folder(bench):
    """A resumed run goes on with them; without its record, with those of its checkpoint."""
    run = bench(mode="async", replay_ratio=1.0)
    run.core.state.pacing.rows = 116  # 100 after the warm-up
    run.done("set", learning_rate=1e-5, replay_ratio=2, weight=3, publish_every=4)
    owed = run.core.state.pacing.owed
    assert owed == -500.0
    assert run.done("checkpoint", 2) == []
    eventually(lambda: run.executor.tick() or run.settled, "the checkpoint")
    assert run.settled == [(2, "")]
    facts = manifest.facts(run.folder, manifest.kept(run.folder)[-1])
    wanted = Steering(learning_rate=1e-5, replay_ratio=2.0, weight=3.0, publish_every=4)
    assert facts[manifest.STEERING] == wanted
    (run.folder / steering.FILE).unlink()
    run.again()
    run.executor.tick()
    assert run.core.steering == wanted
    assert run.core.algorithm.learning_rate == pytest.approx(1e-5)
    pacing = run.core.state.pacing
    assert (pacing.pace, pacing.owed, run.core.state.publish_every) == (6.0, owed, 4)


def test_checkpoint_is_answered_when_it_is_written(bench):
    """Two that come together are one; one that comes while another is written is the next."""
    run = bench(mode="async")
    for number in (1, 2):
        run.asks(run.command("checkpoint", number))
    run.executor.tick()
    assert run.settled == []
    assert run.record.answers == ()
    run.asks(run.command("checkpoint", 3))
    eventually(lambda: run.executor.tick() or len(run.settled) == 3, "both checkpoints")
    assert run.settled == [(1, ""), (2, ""), (3, "")]
    assert len(manifest.kept(run.folder)) == 2
    assert [each.order for each in run.record.answers] == ["checkpoint"] * 3


def test_checkpoint_that_cannot_be_written_is_refused(bench):
    """The run goes on with the one before."""
    run = bench(mode="async")
    run.asks(run.command("checkpoint"))
    (run.folder / manifest.FOLDER).write_text("in the way")
    run.executor.tick()
    eventually(lambda: run.executor.tick() or run.settled, "an answer")
    assert run.settled == [(1, "disk")]


def test_stop_is_written_down_and_answered_before_the_end(bench):
    """With who asked as the reason of the end."""
    run = bench(mode="async")
    assert run.done("stop") == [(1, "")]
    assert run.stop.reason == "asked for by lab/me at 10.0.0.7"
    assert run.stop.exit_code == 0


def test_evaluation_is_played_beside_training(bench):
    """Its result counts as an evaluation's; meanwhile no other one begins."""
    run = bench(mode="async", evaluate_every=0, evaluate_episodes=3)
    run.asks(run.command("evaluate"))
    assert run.done("evaluate", 2) == [(1, ""), (2, "busy")]
    progress = run.core.progress
    eventually(lambda: run.executor.tick() or progress.evaluation, "the result")
    assert progress.evaluation.episodes == 3
    assert run.saver.best.mean == progress.evaluation.mean
    assert run.core.state.steps == 0
    assert run.done("evaluate", 3) == [(3, "")]


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({"mode": "sequential"}, {"publish_every": 2}),
        ({"mode": "async", "replay_ratio": float("inf")}, {"weight": 2}),
        ({"mode": "async", "replay_ratio": float("inf")}, {"replay_ratio": 2}),
        ({"mode": "async", "gradients": "both"}, {"replay_ratio": 2}),
        ({"mode": "async", "gradients": "both"}, {"publish_every": 2}),
    ],
)
def test_setting_without_an_effect_in_this_run_is_refused(bench, changes, values):
    """With all that came in one command: nothing of it is done."""
    run = bench(**changes)
    assert run.done("set", **values, learning_rate=1e-5) == [(1, "no effect")]
    assert run.core.steering == AS_BEGUN
    (answer,) = run.record.answers
    assert answer.refused == "no effect"
    assert next(iter(values)).replace("_", "-") in answer.detail


def test_learning_rate_in_rounds_is_answered_with_its_checkpoint(bench):
    """Updates that are made again after a kill have the rate of the newest checkpoint."""
    run = bench(mode="sequential")
    assert run.done("set", learning_rate=1e-5) == []
    eventually(lambda: run.executor.tick() or run.settled, "the checkpoint")
    assert run.settled == [(1, "")]
    facts = manifest.facts(run.folder, manifest.kept(run.folder)[-1])
    assert facts[manifest.STEERING].learning_rate == 1e-5


def test_command_that_waits_in_the_folder_counts_once(bench):
    """For any epoch: it may have waited for this learner. The log says which user left it."""
    run = bench(mode="async")
    steering.leave(run.folder, run.command("pause", epoch=0), 1)
    steering.leave(run.folder, run.command("checkpoint", 2, epoch=0), 2)
    run.executor.tick()
    assert run.core.state.paused
    assert len(list(steering.waiting(run.folder))) == 1  # until the checkpoint is written
    eventually(lambda: run.executor.tick() or len(run.record.answers) == 2, "the checkpoint")
    assert list(steering.waiting(run.folder)) == []
    assert run.record.answers[0].by.endswith("on this machine")
    assert len(manifest.kept(run.folder)) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_command_that_cannot_be_written_down_is_not_executed(bench):
    """Its sender is told."""
    run = bench(mode="async")
    run.executor.tick()
    run.folder.chmod(0o500)
    try:
        assert run.done("pause") == [(1, "disk")]
    finally:
        run.folder.chmod(0o700)
    assert not run.core.state.paused


def test_command_that_finds_the_disk_full_is_not_executed(bench, monkeypatch):
    """Its sender is told, and may ask again under another number."""
    run = bench(mode="async")
    run.executor.tick()
    (run.folder / steering.FILE).mkdir()  # no file takes its place
    assert run.done("pause") == [(1, "disk")]
    assert not run.core.state.paused
    (run.folder / steering.FILE).rmdir()
    assert run.done("pause", 2) == [(2, "")]
