"""Folders of runs, made by the code of a learner."""

import json

from farflung.learner.storage.run_folder import new_run

SETTINGS = """\
env = "CartPole-v1"  # flag
algorithm = "dqn"  # default
name = "{name}"  # flag
seed = {seed}  # default
replay-ratio = inf  # default
[dqn]
learning-rate = {rate}  # flag
"""


def point(steps, evaluation=None, **more):
    """Return a line of metrics."""
    line = {"time/total_timesteps": float(steps), "train/n_updates": 2.0, **more}
    return line if evaluation is None else line | {"eval/mean_reward": evaluation}


def a_run(place, name, *lines, seed=0, rate=0.001):
    """Make a run with these lines of metrics."""
    settings = SETTINGS.format(name=name, seed=seed, rate=rate)
    run = new_run(str(place), name, "CartPole-v1", settings)
    add(run.folder, *lines)
    return run


def add(folder, *lines):
    """Append lines of metrics."""
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)
