"""A run's policy in use: evaluated, filmed, loaded, and run by bare onnxruntime elsewhere."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.films import frames_of
from support.learners import a_policy_run
from support.programs import Program
from support.shown import RUNS, inputs, observations
from support.waiting import run_to_end

import farflung
from farflung.actor.acting.policy import Policy
from farflung.actor.worlds import gymnasium
from farflung.common import heads
from farflung.common.data.parcel import Results
from farflung.common.data.statistics import Interval, confidence
from farflung.learner.policies.exporting import open_source, to_onnx
from farflung.learner.storage import policies

pytestmark = [pytest.mark.slow, pytest.mark.system]

ROOT = Path(__file__).parents[2]
FLAGS = ("--warmup", 300, "--dqn.hidden", 32, "--actors", 1, "--evaluate-episodes", 10)
LINES = re.compile(r"```python\n(import json\n.*?)```", re.DOTALL)
PIP_S = 300.0


def learner(shell, *words):
    """Run a command of the learner to its end; return its output."""
    program = shell.start("learner", *words)
    assert program.ended() == 0, program.said
    return program.said


@pytest.fixture(scope="module")
def run(house):
    """A run that learned for a while."""
    trained = house.learner("--name", "policies", *FLAGS, "--steps", 4000, "--evaluate-every", 500)
    assert trained.ended() == 0, trained.said
    folder = house.folder / "runs" / "policies"
    assert f"learner evaluate {folder}\n" in trained.said
    assert f"learner export {folder} policies.onnx\n" in trained.said
    assert "best evaluation: " in trained.said
    return folder


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The Python of a fresh environment with onnxruntime and numpy alone."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    words = ("--python", python, "install", "--quiet", "--no-compile")
    words += ("-c", ROOT / "constraints.txt")
    command = (sys.executable, "-m", "pip", *words, "onnxruntime", "numpy")
    if run_to_end(command, PIP_S).returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("pip cannot install here")
    return python


def evaluators_actions(run, shown):
    """Return the actions that the run's evaluator takes."""
    spec = policies.read_spec(run)
    policy = Policy(spec.graph)
    policy.load(policies.read_weights(run, spec, "best"))
    outputs = policy.answer({"observations": shown})
    return heads.find(spec.head).greedy(spec).choose(0, outputs).actions


def met(run, count):
    """Return observations of a run's environment under random actions."""
    environment = gymnasium.make(policies.read_spec(run).world)
    environment.action_space.seed(1)
    seen = [environment.reset(seed=1)[0]]
    while len(seen) < count:
        observation, _, ended, cut, _ = environment.step(environment.action_space.sample())
        seen.append(environment.reset()[0] if ended or cut else observation)
    return np.array(seen, np.float32)


def test_lines_of_the_documentation_run_elsewhere(shell, run, bare):
    """Bare onnxruntime has the evaluator's actions on 1,000 observations, without Farflung."""
    learner(shell, "export", run, "cartpole.onnx")
    (lines,) = LINES.findall((ROOT / "docs/policies.md").read_text())
    assert len(lines.strip().splitlines()) <= 10
    shown = met(run, 1000)
    np.save(shell.folder / "shown.npy", shown)
    changed = re.sub(r"np\.zeros\(.*?\n", "np.load('shown.npy')\n", lines)
    assert changed != lines
    ask = "import sys; assert not any('farflung' in path for path in sys.path)\n"
    for text, rows in ((lines, 5), (changed, 1000)):
        script = ask + text + "print(json.dumps(actions.tolist()))\n"
        ended = subprocess.run(
            [bare, "-I", "-c", script],
            cwd=shell.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        said = ended.stdout.splitlines()
        assert "CartPole-v1" in ended.stdout
        actions = json.loads(said[-1])
        assert len(actions) == rows
    assert (
        actions == evaluators_actions(run, shown).tolist() == farflung.load(run).act(shown).tolist()
    )
    assert len(set(actions)) == 2
    ended = subprocess.run(
        [bare, "-c", "import farflung"],
        cwd="/",
        capture_output=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert ended.returncode == 1


# Runs a file on the inputs beside it; prints the actions.
ACT = """
import json, sys
import numpy as np, onnxruntime
assert not any('farflung' in path for path in sys.path)
session = onnxruntime.InferenceSession(sys.argv[1])
(actions,) = session.run(["action"], dict(np.load(sys.argv[2])))
print(json.dumps(actions.tolist()))
"""


@pytest.mark.parametrize("kind", ["parts", "stacked", "own"])
def test_file_of_every_kind_runs_elsewhere(tmp_path, monkeypatch, bare, kind):
    """A dictionary, a stack of 4 images, an own network: 1,000 actions of bare onnxruntime."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    folder, file = a_policy_run(tmp_path, **RUNS[kind]), tmp_path / "a.onnx"
    to_onnx(open_source(folder, ""), file)
    spec = policies.read_spec(folder)
    seen, begins = observations(folder, 1000)
    np.savez(tmp_path / "shown.npz", **inputs(spec, seen, begins))
    command = [bare, "-I", "-c", ACT, file, tmp_path / "shown.npz"]
    ended = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    policy, expected = farflung.load(folder), []
    for observation, begun in zip(seen, begins, strict=True):
        if begun:
            policy.reset()
        expected.append(policy.act(observation))
    assert json.loads(ended.stdout) == np.array(expected).tolist()


def test_best_evaluation_comes_again_on_a_hundred_other_episodes(shell):
    """Its interval and that of 100 episodes from other start states overlap.

    The run repeats to the bit: of asynchronous ones, each with a best of many, some would not.
    """
    flags = ("--mode", "sequential", "--evaluate-every", 1000, "--steps", 5000, *FLAGS)
    trained_run = shell.learner("--name", "repeats", *flags)
    assert trained_run.ended() == 0, trained_run.said
    run = shell.folder / "runs" / "repeats"
    trained = policies.read_best(run)
    facts = json.loads(learner(shell, "evaluate", run, "--json").splitlines()[-1])
    low, high = facts["interval_95"]
    again = Interval(facts["mean"], (high - low) / 2)
    print(f"\nwhile it trained {trained.interval}, again {again}")
    assert facts["episodes"] == 100
    assert again.overlaps(trained.interval)
    assert confidence(facts["returns"]) == pytest.approx(again)


def test_evaluation_ends_at_once_after_ctrl_c(shell, run):
    """With the episodes that ended, and the exit code of Ctrl-C; no film is left in halves."""
    words = ("evaluate", run, "--episodes", 1000000, "--json")
    program = Program(("learner", *map(str, words)), shell.folder, 99, {})
    program.says(r"\d+ of 1000000 episodes")
    program.send(signal.SIGINT)
    assert program.ended(5.0) == 130
    facts = json.loads(program.said.splitlines()[-1])
    assert 0 < facts["episodes"] < 1000000
    assert "Traceback" not in program.said


def test_torch_is_not_imported_by_the_commands(shell, run, tmp_path):
    """A torch that cannot be imported disturbs neither."""
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')\n")
    found = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    for words in (
        ("evaluate", run, "--episodes", 2),
        ("export", run, shell.folder / "b.onnx"),
        ("export", run, shell.folder / "b.safetensors", "--format", "safetensors"),
    ):
        program = Program(("learner", *map(str, words)), shell.folder, 90, found)
        assert program.ended() == 0, program.said
        assert "torch was imported" not in program.said


def test_video_is_written_by_the_command(shell, run):
    """Its three frames show different moments."""
    pytest.importorskip("imageio_ffmpeg", reason="the extra `video` is not installed")
    pytest.importorskip("pygame")
    learner(shell, "evaluate", run, "--episodes", 2, "--video", "a.mp4")
    _, frames = frames_of(shell.folder / "a.mp4")
    assert len({frames[at].tobytes() for at in (0, len(frames) // 2, -1)}) == 3


@pytest.mark.faults
def test_best_checkpoint_survives_worse_evaluations_and_kills(shell, run):
    """A copy of the run goes on, is evaluated twenty times, and is killed after every two.

    Its best evaluation is said to be above all that is possible, so that each one is worse. The
    file has the same bytes at every look.
    """
    folder = shell.folder / "runs" / "policies"
    shutil.copytree(run, folder)
    spec = policies.read_spec(run)
    weights = policies.read_weights(run, spec, "best")
    above = Results(np.full(10, 501.0), np.full(10, 500, np.int32))
    policies.write_best(folder, weights, above)
    before = (folder / "checkpoints" / "best").read_bytes()
    for _ in range(10):
        flags = ("--resume", folder, "--evaluate-every", 100, "--evaluate-episodes", 2)
        again = shell.learner(*flags, "--steps", 0).listens()
        seen: set[int] = set()  # versions that were evaluated; the first may be of before
        again.shows(
            lambda status, seen=seen: (
                status.evaluation and not seen.add(status.evaluation.version) and len(seen) > 2
            )
        )
        again.process.kill()
        again.process.wait()
        assert (folder / "checkpoints" / "best").read_bytes() == before
    assert farflung.load(folder).version == str(weights.version)
