"""Sweeps without learners: files, and processes that play the part of one in no time."""

import tomllib
from itertools import pairwise
from pathlib import Path

from farflung.common.process.lifecycle import Stop
from farflung.learner.storage.run_folder import open_run
from farflung.learner.sweeps import plan
from farflung.learner.sweeps.sweep import Sweep
from support.runs import a_run, add, point

FILE = """\
[sweep]
{sweep}
[learner]
env = "CartPole-v1"
steps = 400
evaluate-every = 100
[space]
replay-ratio = [1, 2, 4]
[space.dqn]
learning-rate = {{ low = 1e-4, high = 1e-2, log = true }}
"""


def a_plan(folder, *lines):
    """Return a plan with these lines in [sweep]."""
    path = folder / "toy.toml"
    path.write_text(FILE.format(sweep="\n".join(lines)))
    return plan.load(path)


class Learners:
    """Processes that end at once; `plays` returns the evaluations of a trial with a seed."""

    def __init__(self, plays):
        self.plays = plays
        self.started = []  # names of runs
        self.stopped = []

    def __call__(self, command, log, environment):
        return _Process(self, command)


class _Process:
    """A process that is seen at work once, and then has ended."""

    def __init__(self, learners, command):
        words = dict(pairwise(command))
        self.name = words["--name"]
        learners.started.append(self.name)
        self._learners, self._looks, self.word = learners, 0, ""
        place, settings = (
            Path(words["--run-dir"]),
            tomllib.loads(Path(words["--config"]).read_text()),
        )
        trial = int(self.name.split("-")[1])
        played = learners.plays(trial, int(words["--seed"]), settings)
        self._code = played if isinstance(played, int) else 0
        if isinstance(played, int):
            self.word = f"exit code {played}: as asked"
            return
        run = (
            open_run(place / self.name) if (place / self.name).exists() else a_run(place, self.name)
        )
        with run.locked():
            (run.folder / "metrics.jsonl").unlink(missing_ok=True)
            add(run.folder, *(point(100 * (at + 1), value) for at, value in enumerate(played)))
        run.finish("all steps")

    @property
    def exit_code(self):
        self._looks += 1
        return None if self._looks == 1 else self._code

    def stop(self):
        self._learners.stopped.append(self.name)

    def kill(self):
        """It has ended."""

    def close(self):
        """It has no input."""


def sweep_through(plan, folder, at_once=2):
    """Run a sweep to its end in this process; return it."""
    folder.mkdir(exist_ok=True)
    stop = Stop()
    try:
        sweep = Sweep(plan, folder, at_once, stop)
        sweep.run()
        return sweep
    finally:
        stop.close()
