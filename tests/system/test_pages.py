"""The pages of the documentation as a reader follows them: each command and each block runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import BIN, TAIL
from support.waiting import eventually, run_to_end

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
WITHIN_S = 180.0  # for one block, on a quiet machine
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A reader's runs are longer and learn more: `make faults` has all of the first page's.
MOST = {"steps": 2000, "timesteps": 2000, "evaluate-every": 500, "evaluate_every": 500}
LENGTH = re.compile(rf"\b({'|'.join(MOST)})([ =])(\d[\d_]*)")
STORIES = ("first_run", "own_environment", "tuning")  # from top to bottom on one machine
# Each starts five programs or more that import torch, so it is in `make faults`.
LONGER = ("own_network", "from_multiprocessing", "from_stable_baselines3", "from_rllib")


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the blocks of commands and of Python in a page."""
    return BLOCK.findall((ROOT / f"docs/{page}.md").read_text())


def shortened(text: str) -> str:
    """Return a block with shorter runs."""
    return LENGTH.sub(lambda found: f"{found[1]}{found[2]}{_at_most(found[1], found[3])}", text)


def _at_most(setting: str, written: str) -> int:
    return min(int(written), MOST[setting])


def variables(**more: str) -> dict[str, str]:
    """Return an environment with our programs, and a learner at any free port."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARFLUNG_")}
    path = f"{BIN}{os.pathsep}{kept.get('PATH', '')}"
    free = {"FARFLUNG_LEARNER_PORT": "0", "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    return {**kept, **free, "PATH": path, **more}


def run(folder: Path, words: list[str], **more: str) -> str:
    """Run a program in a folder, without a terminal; return what it wrote."""
    ended = run_to_end(words, WITHIN_S, cwd=folder, env=variables(**more), stdin=subprocess.DEVNULL)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, f"{words} ended with {ended.returncode}:\n{said[-TAIL:]}"
    return said


@pytest.mark.parametrize(
    ("page", "whole"),
    [
        *((page, False) for page in STORIES),
        *(pytest.param(page, False, marks=pytest.mark.faults) for page in LONGER),
        pytest.param("first_run", True, marks=pytest.mark.faults),
    ],
)
def test_each_block_of_a_page_runs_in_its_turn(page: str, whole: bool, tmp_path: Path) -> None:
    """Files are written where the page shows them; commands stop at the first that fails."""
    shutil.copytree(ROOT / "examples/worlds", tmp_path / "examples/worlds")
    found = blocks(page)
    assert found
    for language, written in found:
        text = written if whole else shortened(written)
        if language == "sh":
            run(tmp_path, ["bash", "-euo", "pipefail", "-c", text])
        elif name := re.match(r"# (\w+\.py)\n", text):
            (tmp_path / name[1]).write_text(text)
            run(tmp_path, [sys.executable, name[1]])
        else:
            (tmp_path / "block.py").write_text(text)
            run(tmp_path, [sys.executable, "block.py"])


def test_the_page_about_a_second_machine_on_loopback(tmp_path: Path) -> None:
    """Keys, a learner, its status, and an actor that joins with the copied key until the end."""
    here, there = (text for language, text in blocks("second_machine") if language == "sh")
    make, listen = (line.partition("#")[0].split() for line in here.strip().splitlines())
    status, join = (line.partition("#")[0].split() for line in there.strip().splitlines())
    run(tmp_path, make)
    listen[listen.index("0.0.0.0")] = "127.0.0.1"
    log = tmp_path / "learner.log"
    with log.open("w") as output:
        learner = subprocess.Popen(
            listen, cwd=tmp_path, env=variables(), stdout=output, stderr=output
        )
    try:
        found = eventually(lambda: re.search(r"127\.0\.0\.1:(\d+)", log.read_text()), "the port")
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "actor.key").write_bytes((tmp_path / "farflung-keys/actor.key").read_bytes())
        (elsewhere / "actor.key").chmod(0o600)
        at = f"127.0.0.1:{found[1]}"
        assert "of 5,000" in run(elsewhere, [at if "gpu" in word else word for word in status])
        run(elsewhere, [at if "gpu" in word else word for word in join])
        eventually(lambda: learner.poll() is not None, "the learner's end", WITHIN_S)
        assert learner.returncode == 0, log.read_text()[-TAIL:]
    finally:
        learner.kill()
        learner.wait()


SMALL = {
    "dqn": {"warmup": 100, "replay_ratio": 1},
    "r2d2": {"warmup": 100, "replay_ratio": 1, "batch_size": 80},
    "ppo": {"ppo": {"rollout": 128}},
    "impala": {"impala": {"rollout": 128}},
    "sac": {"env": "Pendulum-v1", "warmup": 100, "replay_ratio": 1},
    "td3": {"env": "Pendulum-v1", "warmup": 100, "replay_ratio": 1},
}
TRAINED = f"""
import json, farflung
written = set()
for name, small in {SMALL!r}.items():
    settings = dict(env="CartPole-v1", batch_size=64, steps=500, evaluate_every=250) | small
    result = farflung.train(
        algorithm=name, mode="sequential", evaluate_episodes=1, envs=2, **settings
    )
    lines = (result.folder / "metrics.jsonl").read_text().splitlines()
    written |= {{key for line in lines for key in json.loads(line)}}
print("WRITTEN", *sorted(written))
"""


def test_every_curve_of_the_built_in_algorithms_is_in_the_list(tmp_path: Path) -> None:
    """The page about metrics has all that real runs write, and no other curve of training."""
    (tmp_path / "all.py").write_text(TRAINED)
    said = run(tmp_path, [sys.executable, "all.py"])
    [written] = re.findall(r"^WRITTEN (.+)$", said, re.MULTILINE)
    page = (ROOT / "docs/every_metric.md").read_text()
    listed = set(re.findall(r"^- `([\w/]+)`", page, re.MULTILINE))
    assert set(written.split()) - listed - {"epoch"} == set()
    of_training = {name for name in listed if name.startswith(("train/", "rollout/"))}
    assert of_training - set(written.split()) == set()
