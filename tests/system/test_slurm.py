"""The Slurm scripts with stand-ins for Slurm: a step and an array train and end with the run."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SCRIPTS = Path(__file__).parents[2] / "deploy/slurm"
STAND_INS = {"srun": 'exec "$@"', "squeue": 'test "$2" = --jobs=7 && echo 127.0.0.1'}


def test_slurm_step_and_array_train(shell, free_address, tmp_path):
    """The actors ask for the learner's node, and everything ends with exit code 0."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in STAND_INS.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    job = {
        "PATH": path,
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "FARFLUNG_LEARNER_PORT": str(free_address.port),
    }
    job["FARFLUNG_LEARNER_FEED_PORT"] = str(free_address.feed_port)
    bash = shutil.which("bash")
    assert shell.start("learner", "keys", "keys").ended() == 0
    actors = [
        shell.start(bash, SCRIPTS / "actors.sbatch", "7", "--envs", "2", **job) for _ in range(2)
    ]
    for actor in actors:
        actor.says("waiting for a learner")  # so that neither comes when all is over
    learner = shell.start(
        bash,
        SCRIPTS / "learner.sbatch",
        "--warmup",
        "100",
        "--steps",
        "3000",
        "--ui",
        "lines",
        **job,
    )
    assert learner.ended() == 0
    assert [actor.ended() for actor in actors] == [0, 0]
    assert re.search(r"all \d+ steps are collected and learned from", learner.said)
    assert all("collecting CartPole-v1" in actor.said for actor in actors)


def test_slurm_actors_name_a_job_that_does_not_run(shell, tmp_path):
    """A job that does not run has no node."""
    (tmp_path / "squeue").write_text("#!/bin/sh\n")
    (tmp_path / "squeue").chmod(0o755)
    actor = shell.start(
        shutil.which("bash"),
        SCRIPTS / "actors.sbatch",
        "8",
        PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
    )
    assert actor.ended() != 0
    assert "job 8 does not run" in actor.said
