"""The actor extra by itself: no torch anywhere, and it trains."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A fresh virtual environment with the actor extra alone, from a wheel of this tree."""
    folder = tmp_path_factory.mktemp("installation") / "venv"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    wheel = tmp_path_factory.mktemp("wheel")
    for words in (
        (sys.executable, "-m", "venv", "--without-pip", folder),
        (*pip, "wheel", "--no-deps", "--wheel-dir", wheel, ROOT),
        (*pip, "--python", folder / "bin" / "python", "install", "--no-compile", "-c", ROOT / "constraints.txt"),
    ):
        extra = [f"farflung[actor] @ {found.as_uri()}" for found in wheel.glob("*.whl")]
        result = subprocess.run([*map(str, words), *extra], capture_output=True, text=True, timeout=300, check=False)
        if result.returncode:
            pytest.skip(f"pip cannot do it here: {(result.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    return folder / "bin"


def test_the_actor_extra_installs_without_torch_and_trains(environment, shared, shell):
    """A learner counts its steps and learns from them."""
    without = subprocess.run([environment / "python", "-c", "import torch"], capture_output=True, check=False)
    assert without.returncode == 1
    actor = shell.start(environment / "actor", shared.address, "--name", "lean", "--envs", 4)
    shared.shows(lambda status: any(a.name == "lean" and a.acknowledged > 5 for a in status.actors))
    shared.learns_on()
    actor.send(signal.SIGTERM)
    assert actor.ended() == 0


def test_a_learner_without_torch_says_what_to_install(environment, shell):
    """One sentence, exit code 78."""
    learner = shell.start(environment / "learner", "--steps", 1)
    assert learner.ended() == 78
    assert learner.said.splitlines()[-1] == "learner: the package torch is not installed here: pip install 'farflung[learner]'"
