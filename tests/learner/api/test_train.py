"""Training from Python in this process: callbacks, results, signals, and the state around it."""

import gc
import itertools
import json
import math
import os
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv
from support import games, worlds
from support.learners import shared_graphs
from support.terminals import Terminal

import farflung
from farflung.common.process.errors import ConfigurationError, Diverged, UsageError
from farflung.learner.api.train import train
from farflung.learner.cli.selfplay import standings
from farflung.learner.core.core import Core
from farflung.learner.selfplay import report
from farflung.learner.selfplay.standings import totals
from farflung.learner.storage import archive

pytestmark = pytest.mark.slow
assert worlds

DESCRIPTORS = Path("/proc/self/fd")

SMALL = {
    "mode": "sequential",
    "horizon": 8,
    "warmup": 16,
    "batch_size": 8,
    "replay_ratio": 1.0,
    "capacity": 500,
    "checkpoint_every": 0.0,
    "dqn": {"hidden": [4]},
    "evaluate_every": 0,
}


@pytest.fixture
def run(tmp_path):
    """Return a function that trains a small CartPole run."""

    def run(*callbacks, **settings):
        with shared_graphs():
            return train(callbacks, {**SMALL, "steps": 200, "run_dir": tmp_path, **settings})

    return run


class Recorder(farflung.Callback):
    """Keeps all calls, and raises or acts where it is told to."""

    def __init__(self, **acts):
        self.calls, self.views, self._acts = [], [], acts
        for hook in ("start", "publication", "episode", "evaluation", "checkpoint", "end"):
            setattr(self, f"on_{hook}", lambda view, *fact, hook=hook: self._note(hook, view, fact))

    def _note(self, hook, view, fact):
        self.calls.append((hook, *fact))
        self.views.append(view)
        if hook in self._acts:
            self._acts[hook](view)

    def facts(self, hook):
        """Return what came with the calls of a hook."""
        return [call[1] for call in self.calls if call[0] == hook]


def fail(view):
    """Raise an error of the user."""
    raise LookupError("no such\nthing")


def test_run_tells_its_callbacks_everything_in_order(run):
    """Each publication, episode, evaluation and checkpoint once; start and end around them."""
    seen = Recorder()
    result = run(seen, evaluate_every=100, evaluate_episodes=2)
    hooks = [call[0] for call in seen.calls]
    assert (hooks[0], hooks[-2], hooks[-1]) == ("start", "checkpoint", "end")
    versions = [
        v.version for v, hook in zip(seen.views, hooks, strict=True) if hook == "publication"
    ]
    assert versions == list(range(1, len(versions) + 1))
    assert versions[-1] == result.metrics["train/version"]
    episodes = seen.facts("episode")
    assert len(episodes) == result.episodes > 3
    assert all(episode.total_reward == episode.length for episode in episodes)  # CartPole's reward
    assert result.return_mean == pytest.approx(sum(e.length for e in episodes) / len(episodes))
    evaluations = seen.facts("evaluation")
    assert [e.episodes for e in evaluations] == [2] * len(evaluations)
    assert evaluations[-1] == result.evaluation
    assert result.best == max(e.mean for e in evaluations)
    assert seen.facts("checkpoint")[-1] == result.checkpoint
    assert {path.name for path in seen.facts("checkpoint")} == {"best", "000001"}
    assert seen.views[-1].ending == result.reason == "all 200 steps are collected and learned from"


def test_archived_versions_are_a_function_of_the_counts(run):
    """Every five updates, the same ones with the same weights in each run; old ones go."""
    runs = [run(name=name, archive_every="5 updates", archive_most=3).folder for name in "ab"]
    one, other = [archive.read(folder) for folder in runs]
    assert [each.number for each in one] == [1, 3, 4]
    assert [each.updates // 5 for each in one] == [1, 3, 4]
    assert [each.version for each in one] == [each.version for each in other]
    assert [each.counts for each in one] == [each.counts for each in other]
    first, last = [], []
    for folder in runs:
        for kept, version in ((first, one[0].version), (last, one[-1].version)):
            kept.append(farflung.load(f"{folder}@{version}"))
    assert {each.version for each in first} == {str(one[0].version)}
    shown = [[x, y, -x, -y] for x in (-1.0, 0.0, 1.0) for y in (-1.0, 0.5)]
    for pair in (first, last):
        assert pair[0].act(shown).tolist() == pair[1].act(shown).tolist()


def test_pool_in_one_process_plays_archived_versions_and_repeats_itself(run):
    """Its actor gets each version within its turn; the same seed has the same games and bits."""
    games.load("tictactoe")
    results = [
        run(
            environment="examples/tictactoe_v0",
            steps=300,
            pool=("random=1", "win_or_block=1", "archive=2"),
            archive_every="8 updates",
        )
        for _ in range(2)
    ]
    assert results[0].parameters == results[1].parameters
    found = report.read(results[0].folder)
    assert found.standings.played == found.episodes
    against = [found.name(number) for number in found.standings.against()]
    assert {"random", "script:win_or_block"} < set(against)
    assert [name for name in against if name.startswith("archive:")]


def test_games_of_a_world_with_opponents_are_counted(run, capsys):
    """Each episode is a game; its opponent, seat and outcome are in the standings of the run."""
    result = run(
        environment="toys/Duel-v0",
        steps=120,
        metrics=("opponent", "outcome", "seat"),
        archive_every="10 episodes",
    )
    found = report.read(result.folder)
    assert found.standings.played == found.episodes == result.episodes == 40
    assert len(found.archived) >= 2
    against = found.standings.against()
    games = {number: {s: g.count for s, g in seats.items()} for number, seats in against.items()}
    assert games == {0: {0: 10, 1: 10}, 9: {0: 10, 1: 10}}
    counts = [totals(seats) for seats in against.values()]
    assert result.metrics["games/wins"] == sum(each.wins for each in counts)
    assert result.metrics["games/played"] == 40
    assert standings(result.folder) == 0
    assert "40 games in 40 episodes" in capsys.readouterr().out


def test_result_is_that_of_the_folder(run, tmp_path, capsys):
    """The run's own files, and a policy that acts."""
    result = run(name="mine")
    assert result.folder == tmp_path / "mine"
    assert (result.steps, result.updates, result.evaluation, result.best) == (200, 23, None, None)
    assert f"parameters: {result.parameters}" in capsys.readouterr().out
    assert result.checkpoint.is_dir()
    assert farflung.load(result.folder).act([0.0, 0.0, 0.0, 0.0]) in (0, 1)
    with pytest.raises(AttributeError):
        result.steps = 3


def test_two_runs_of_one_seed_are_equal(run):
    """With a callback that follows one of them: it changes nothing."""
    first, second = run(Recorder(), seed=4), run(seed=4)
    assert first.parameters == second.parameters


def test_callback_records_figures_for_every_outlet(run):
    """The result, metrics.jsonl, and `until`: the mean of the values, here 0, 1, 2, ..."""
    values = itertools.count()
    result = run(Recorder(episode=lambda view: view.record("mine/number", next(values))))
    mean = (result.episodes - 1) / 2
    assert result.metrics["mine/number"] == mean
    lines = result.folder.joinpath("metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["mine/number"] == mean
    values = itertools.count()
    result = run(
        Recorder(episode=lambda view: view.record("mine/number", next(values))),
        until="mine/number >= 1",
        steps=10_000,
    )
    assert result.reason == "solved: mine/number >= 1"
    assert result.episodes < 20


def test_figures_of_a_run_can_be_read(run):
    """Under the names of metrics.jsonl."""
    found = []
    run(Recorder(end=lambda view: found.append(view.figures())))
    assert found[0]["time/total_timesteps"] == 200
    assert math.isfinite(found[0]["train/loss"])


@pytest.mark.parametrize(("name", "value"), [("a\nb", 1), (3, 1), ("eval/a", 1), ("a", "much")])
def test_recorded_figures_are_numbers_with_names(run, name, value):
    """Others are refused in the callback: the traceback shows its line."""
    with pytest.raises((farflung.FarflungError, ValueError)) as raised:
        run(Recorder(episode=lambda view: view.record(name, value)))
    assert "<lambda>" in [entry.name for entry in raised.traceback]


def test_callback_stops_a_run_with_a_reason(run, tmp_path):
    """It counts as reached: saved, finished, the reason is shown, the first one stays."""

    def stop(view):
        if view.episodes >= 3:
            view.stop(f"{view.episodes} episodes are enough")

    seen = Recorder(episode=stop)
    result = run(seen, name="one", steps=100_000)
    assert result.reason == "stopped by a callback: 3 episodes are enough"
    assert result.steps < 1000
    assert (tmp_path / "one" / "FINISHED").read_text().strip() == result.reason
    assert seen.calls[-1] == ("end",)
    assert result.checkpoint.is_dir()


@pytest.mark.parametrize("hook", ["start", "publication", "episode", "checkpoint", "end"])
def test_callback_that_raises_ends_the_run_with_its_own_traceback(run, tmp_path, hook, capsys):
    """The run is saved and not finished; the log names the callback; the others hear of the end."""
    other = Recorder()
    with pytest.raises(LookupError, match="no such") as raised:
        run(other, Recorder(**{hook: fail}), name="one", steps=400)
    assert raised.traceback[-1].name == "fail"
    assert raised.value.__notes__ == [f"The run ended for this. It is saved in {tmp_path / 'one'}"]
    assert list((tmp_path / "one" / "checkpoints").glob("0*"))
    assert other.calls[-1] == ("end",)
    log = (tmp_path / "one" / "logs" / "learner.log").read_text()
    assert f"the callback Recorder.on_{hook} failed" in log
    assert "LookupError" in log
    if hook in ("start", "publication", "episode"):
        assert not (tmp_path / "one" / "FINISHED").exists()
        reason = f"the callback Recorder.on_{hook} failed: LookupError: no such thing"
        assert other.views[-1].ending == reason
        assert reason in capsys.readouterr().out


def test_first_of_two_failures_is_raised(run):
    """A callback that failed in the middle is still told of the end, and may fail there again."""
    seen = Recorder(episode=fail, end=lambda view: 1 / 0)
    with pytest.raises(LookupError):
        run(seen)
    assert seen.calls[-1] == ("end",)


def test_callbacks_hear_of_a_run_that_fails(run, monkeypatch):
    """`on_end` has the reason; the error is that of the run."""

    def broken(self, rows):
        raise Diverged("weights went away")

    monkeypatch.setattr(Core, "update", lambda self: broken(self, 0))
    seen = Recorder()
    with pytest.raises(Diverged):
        run(seen)
    assert seen.calls[-1] == ("end",)
    assert seen.views[-1].ending == "failed: Diverged: weights went away"


def test_callable_environment_plays_in_this_process(run):
    """Sequential mode takes a lambda, and a debugger can step into it."""
    made = []

    def make(**arguments):
        made.append(arguments)
        return CartPoleEnv(**arguments)

    result = run(env=make, env_args={"sutton_barto_reward": False}, steps=40)
    assert result.steps == 40
    assert made
    assert all(arguments == {"sutton_barto_reward": False} for arguments in made)


async def hook(self, run):
    """Do nothing, but asynchronously."""


def with_hook(name, function=None):
    """Return a callback with one hook."""
    return type("Mine", (farflung.Callback,), {name: function})()


@pytest.mark.parametrize(
    ("callbacks", "sentence"),
    [
        ([Recorder], "is no farflung.Callback: add ()"),
        ([SimpleNamespace()], "is no farflung.Callback: derive its class from it"),
        (
            [with_hook("on_evalution")],
            "Mine.on_evalution is no hook of a callback. Did you mean on_evaluation?",
        ),
        ([with_hook("on_start", hook)], "Mine.on_start is async, and hooks are called without"),
        (Recorder(), "callbacks is a list: write callbacks=[Recorder(…)]"),
    ],
)
def test_callback_that_would_never_be_called_is_refused(callbacks, sentence):
    """Before anything is started."""
    with pytest.raises(UsageError) as refusal:
        farflung.train("CartPole-v1", callbacks=callbacks)
    assert sentence in str(refusal.value)


def test_missing_torch_is_named_with_its_extra(run, monkeypatch, tmp_path):
    """In one sentence, and the run leaves no folder; another missing module is not ours."""

    class WithoutTorch:
        def find_spec(self, name, path=None, target=None):
            if name == "farflung.learner.training":
                raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.delitem(sys.modules, "farflung.learner.training")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "meta_path", [WithoutTorch(), *sys.meta_path])
        with pytest.raises(ConfigurationError, match=r"pip install 'farflung\[learner\]'"):
            run(name="one")
    assert not (tmp_path / "one").exists()
    monkeypatch.setitem(sys.modules, "farflung.learner.training", None)
    with pytest.raises(ModuleNotFoundError):
        run(name="one")


def test_program_without_a_python_of_its_own_cannot_start_actors(monkeypatch):
    """As one that embeds Python: said before anything is started."""
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(ConfigurationError, match="does not know its Python"):
        farflung.train("CartPole-v1", steps=10)


@pytest.mark.parametrize(("ui", "free"), [("lines", True), ("json", False)])
def test_debugger_has_the_terminal_beside_lines(run, monkeypatch, ui, free):
    """Nothing stands in for it, so that a debugger can edit lines; elsewhere a stand-in does."""
    terminal, found = Terminal(), []
    monkeypatch.setattr(sys, "stdout", terminal.stream)
    run(Recorder(start=lambda view: found.append(sys.stdout is terminal.stream)), ui=ui, steps=40)
    terminal.close()
    assert found == [free]


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_signal_saves_the_run_and_then_ends_the_script(run, tmp_path, number, raised):
    """As the user of a script expects; handlers are what they were."""
    before = signal.getsignal(number)
    seen = Recorder(episode=lambda view: os.kill(os.getpid(), number))
    with pytest.raises(raised) as said:
        run(seen, name="one", steps=100_000)
    assert str(said.value) in ("0", f"the run is saved in {tmp_path / 'one'}")
    assert signal.getsignal(number) is before
    assert seen.views[-1].ending == f"stopped: {signal.Signals(number).name}"
    assert list((tmp_path / "one" / "checkpoints").glob("0*"))


def test_second_ctrl_c_does_not_wait_and_leaves_the_process_alive(run):
    """A notebook's kernel outlives its runs: an exception comes instead of the end."""

    def twice(view):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(Recorder(episode=twice), steps=100_000)


def test_run_outside_of_the_main_thread(run):
    """Without handlers of signals, which Python allows in the main thread only."""
    found = []
    thread = threading.Thread(target=lambda: found.append(run(steps=40).steps))
    thread.start()
    thread.join(60)
    assert found == [40]


def test_run_leaves_the_process_as_it_was(run):
    """Threads and random numbers of torch, the garbage collector, and file descriptors."""
    threshold = gc.get_threshold()
    run(steps=40)
    torch.manual_seed(1)
    torch.set_num_threads(2)
    state, descriptors = torch.get_rng_state(), len(list(DESCRIPTORS.iterdir()))
    run(steps=40)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == 2
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == threshold
    assert len(list(DESCRIPTORS.iterdir())) <= descriptors
    torch.set_num_threads(1)
