"""Training from Python as users do: scripts from standard input, notebooks, threads, debuggers."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.waiting import run_to_end

pytestmark = [pytest.mark.slow, pytest.mark.system]

README = Path(__file__).parents[2] / "README.md"
WITHIN_S = 120.0
SHORT = "port=0, warmup=200, replay_ratio=1, actors=1, name='one', exploration_steps=1000"

GRID = '''
import gymnasium
import numpy as np

class Grid(gymnasium.Env):
    """Walks to the right; its module is found in a folder that the script adds to sys.path."""

    def __init__(self, size=5):
        self.observation_space = gymnasium.spaces.Box(0, size, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.size = size

    def reset(self, seed=None, options=None):
        self.at, self.steps = 0, 0
        return np.array([0], np.float32), {}

    def step(self, action):
        self.at, self.steps = max(0, self.at + 2 * int(action) - 1), self.steps + 1
        over = self.at == self.size
        return np.array([self.at], np.float32), float(over), over, self.steps == 50, {}
'''


@pytest.fixture
def python(tmp_path: Path) -> Any:
    """Returns a function that runs a script from standard input, in an empty folder."""

    def run(script: str, *words: str) -> "subprocess.CompletedProcess[str]":
        command, typed = [sys.executable, *(words or ("-",))], tmp_path / "typed"
        typed.write_text(script)
        with typed.open() as lines:
            return run_to_end(command, WITHIN_S, cwd=tmp_path, stdin=lines)

    return run


def test_script_from_standard_input_trains_with_actors_of_its_own(python: Any, tmp_path: Path):
    """A callback adds a figure; another stops the run: the reason is in result and folder."""
    found = python(f"""
import farflung

class Figures(farflung.Callback):
    def on_episode(self, run, episode):
        run.record("mine/length", episode.length)

class Enough(farflung.Callback):
    def on_evaluation(self, run, evaluation):
        if run.updates > 50:
            run.stop(f"evaluated after {{run.updates}} updates")

result = farflung.train(
    "CartPole-v1", evaluate_every=200, evaluate_episodes=2, callbacks=[Figures(), Enough()], {SHORT}
)
print("RESULT", result.reason, result.metrics["mine/length"] >= 8, result.best is not None)
""")
    assert found.returncode == 0, found.stderr
    said = re.search(
        r"RESULT stopped by a callback: evaluated after (\d+) updates True True", found.stdout
    )
    assert said, found.stdout
    assert int(said[1]) > 50
    run = tmp_path / "runs" / "one"
    assert f"evaluated after {said[1]} updates" in (run / "FINISHED").read_text()
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["mine/length"] >= 8
    assert {path.name for path in (run / "logs").iterdir()} >= {"local-0.log", "evaluator.log"}


def test_lines_of_the_readme_train(python: Any, tmp_path: Path):
    """With another port and fewer steps than there."""
    [lines] = re.findall(r"```python\n(import farflung\n.*?)```", README.read_text(), re.DOTALL)
    assert "steps=100_000" in lines
    short = lines.replace("steps=100_000", "steps=600, port=0, warmup=200, run_dir='here'")
    found = python(f"{short}\nprint('RESULT', result.steps, policy.act([0.0] * 4))")
    assert found.returncode == 0, found.stderr
    assert re.search(r"^RESULT 6\d\d [01]$", found.stdout, re.MULTILINE), found.stdout
    [run] = (tmp_path / "here").iterdir()
    assert "mine/to_best" in (run / "metrics.jsonl").read_text()


def test_callback_that_raises_ends_the_script_with_the_users_traceback(python: Any, tmp_path: Path):
    """Its line is the last of the traceback; the run is saved; no actor is left."""
    found = python(f"""
import farflung

class Mine(farflung.Callback):
    def on_publication(self, run):
        if run.updates > 20:
            raise LookupError("my own mistake")

farflung.train("CartPole-v1", callbacks=[Mine()], {SHORT})
print("NOT REACHED")
""")
    assert found.returncode == 1
    assert "NOT REACHED" not in found.stdout
    assert "please report" not in found.stdout + found.stderr
    assert "the callback Mine.on_publication failed: LookupError: my own mistake" in found.stdout
    trace = found.stderr[found.stderr.rindex("Traceback (most recent call last)") :]
    assert 'File "<stdin>", line 7, in on_publication' in trace
    assert trace.splitlines()[-2:] == [
        "LookupError: my own mistake",
        "The run ended for this. It is saved in runs/one",
    ]
    run = tmp_path / "runs" / "one"
    assert not (run / "FINISHED").exists()
    assert run_to_end([sys.executable, "-m", "farflung", "audit", str(run)]).returncode == 0


def test_class_of_a_module_on_the_scripts_own_path_is_played_by_actors(python: Any, tmp_path: Path):
    """Actors look for modules where the script does; the run's folder has all that others need."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "grids.py").write_text(GRID)
    (folder / "random.py").write_text("raise SystemExit('this would hide a module of Python')")
    found = python(f"""
import sys
sys.path.append({str(folder)!r})
import farflung, grids
result = farflung.train(grids.Grid, env_args={{"size": 3}}, until="updates >= 20", {SHORT})
print("RESULT", result.episodes > 10)
""")
    assert found.returncode == 0, found.stderr
    assert "RESULT True" in found.stdout
    assert 'import = ["grids:Grid"]' in (tmp_path / "runs/one/config.toml").read_text()
    (folder / "random.py").unlink()  # `--import` looks in the folder that the user is in
    evaluate = [sys.executable, "-P", "-m", "farflung", "evaluate", tmp_path / "runs/one"]
    evaluated = run_to_end([*evaluate, "--episodes", "2"], WITHIN_S, cwd=folder)
    assert evaluated.returncode == 0, evaluated.stderr


def test_notebook_cell_trains_beside_a_running_event_loop_and_in_a_thread(python: Any):
    """As a kernel runs cells; the second run is outside of the main thread."""
    found = python(
        """
import asyncio, threading, farflung

settings = dict(mode="sequential", steps=200, warmup=50, replay_ratio=1, env="CartPole-v1")

async def cell():
    return farflung.train(**settings)

first, found = asyncio.run(cell()), []
thread = threading.Thread(target=lambda: found.append(farflung.train(**settings)))
thread.start(); thread.join()
print("RESULT", first.parameters == found[0].parameters, first.folder != found[0].folder)
""",
        "-c",
        "import sys; exec(sys.stdin.read())",
    )
    assert found.returncode == 0, found.stderr
    assert "RESULT True True" in found.stdout


def test_debugger_steps_through_a_sequential_run(python: Any, tmp_path: Path):
    """A breakpoint in a callback and one in an environment; nothing else takes the terminal."""
    (tmp_path / "script.py").write_text("""
import farflung
from gymnasium.envs.classic_control import CartPoleEnv

class Watched(CartPoleEnv):
    def step(self, action):
        if look.episodes == 1:
            look.episodes += 1
            breakpoint()
        return super().step(action)

class Look(farflung.Callback):
    episodes = 0

    def on_episode(self, run, episode):
        self.episodes += 1
        if self.episodes == 1:
            breakpoint()

look = Look()
result = farflung.train(Watched, mode="sequential", steps=100, warmup=50, callbacks=[look])
print("RESULT", result.steps)
""")
    typed = "p 'length', episode.length\nc\np 'action', int(action)\nup\nc\n"
    found = python(typed, "script.py")
    assert found.returncode == 0, found.stderr
    assert re.search(r"^\(Pdb\) \('length', \d+\)$", found.stdout, re.MULTILINE), found.stdout
    assert re.search(r"^\(Pdb\) \('action', [01]\)$", found.stdout, re.MULTILINE), found.stdout
    assert re.search(r"^RESULT 1\d\d$", found.stdout, re.MULTILINE), found.stdout
