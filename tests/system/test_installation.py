"""What is installed from a wheel of this tree: the actor extra by itself trains without torch, the Box2D extra brings its worlds."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


def run_pip(*words):
    """Run it. Where it cannot reach an index there is nothing to test; but CI, which sets `CI`, must not pass over that."""
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, words))
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if result.returncode:
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        give_up(
            f"pip cannot do it here: {(result.stderr.strip().splitlines() or ['no reason given'])[-1]}"
        )


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A fresh virtual environment with the actor extra alone, from a wheel of this tree."""
    folder, wheels = (
        tmp_path_factory.mktemp("installation") / "venv",
        tmp_path_factory.mktemp("wheels"),
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    run_pip("wheel", "--no-deps", "--wheel-dir", wheels, ROOT)
    (wheel,) = wheels.glob("*.whl")
    extra = f"farflung[actor] @ {wheel.as_uri()}"
    run_pip(
        "--python",
        folder / "bin" / "python",
        "install",
        "--no-compile",
        "-c",
        ROOT / "constraints.txt",
        extra,
    )
    return folder / "bin"


@pytest.fixture
def box2d(tmp_path):
    """Variables with which Box2D is there, whether or not it is installed."""
    run_pip(
        "install",
        "--no-deps",
        "--target",
        tmp_path / "box2d",
        "-c",
        ROOT / "constraints.txt",
        "Box2D",
        "pygame-ce",
    )
    return {
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "box2d"), os.environ.get("PYTHONPATH", "")])
    }


def test_the_actor_extra_installs_without_torch_and_trains(environment, shared, shell):
    """A learner counts its steps and learns from them."""
    without = subprocess.run(
        [environment / "python", "-c", "import torch"], capture_output=True, check=False
    )
    assert without.returncode == 1
    actor = shell.start(environment / "actor", shared.address, "--name", "lean", "--envs", 4)
    shared.shows(lambda status: any(a.name == "lean" and a.acknowledged > 5 for a in status.actors))
    shared.learns_on()
    actor.send(signal.SIGTERM)
    assert actor.ended() == 0


def test_lunar_lander_runs_where_its_extra_is_installed(box2d, shell):
    """A learner and its own actor play it and learn from it."""
    goal = ("--warmup", 200, "--until", "updates >= 20")
    learner = shell.learner("--env", "LunarLander-v3", "--actors", 1, *goal, **box2d)
    assert learner.ended() == 0, learner.said
    assert "solved: updates >= 20" in learner.said


@pytest.mark.parametrize(
    ("variables", "outcome"), [({}, pytest.skip.Exception), ({"CI": "true"}, pytest.fail.Exception)]
)
def test_what_pip_cannot_do_fails_where_it_must_work(variables, outcome, monkeypatch):
    """Elsewhere it is passed over, with pip's last words as the reason."""
    monkeypatch.delenv("CI", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(outcome, match=r"pip cannot do it here: .*no-such-folder"):
        run_pip("install", "--no-index", "./no-such-folder")


def test_a_learner_without_torch_says_what_to_install(environment, shell):
    """One sentence, exit code 78."""
    learner = shell.start(environment / "learner", "--steps", 1)
    assert learner.ended() == 78
    assert (
        learner.said.splitlines()[-1]
        == "learner: the package torch is not installed here: pip install 'farflung[learner]'"
    )
