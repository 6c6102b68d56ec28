"""Commands of the pages that are no stories: run here, or named with what a test lacks for them.

Stories and the second machine are in test_pages.py. That every line parses is in test_docs.py.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.programs import BIN, TAIL
from support.waiting import eventually, run_to_end

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^ *```(?:sh|bash)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
WITHIN_S = 180.0  # for one command, on a quiet machine
STORIES = {
    *("first_run", "own_environment", "own_network", "tuning", "second_machine"),
    *("from_multiprocessing", "from_stable_baselines3", "from_rllib"),
}
OF_RUNS = ("README", "policies", "reliability", "metrics", "operations", "algorithms")
AT_WORK = ("operations", "dashboard")
TRAININGS = ("algorithms", "many_policies", "metrics", "selfplay", "workers", "worlds")
# What no test here has: the beginnings of commands, and words in them.
MISSING = {
    "a clone of its own: make test and .ci/run do": r"^make |^\. ",
    "an engine or a cluster: make containers, test_deploy.py": r"docker|^kubectl |^job=|^sbatch ",
    "a registry, or another machine to copy from": r"^pip |^npm (?!test)|^scp |--to-hub|--log-to",
    "Node.js: test_node_actor.py": r"^node |^npm test|examples/node-actor",
    "a package of the reader's": r"YourWorld|my_robot|my_games|mygames",
    "a window": r"--render|--open",
    "several GPUs": r"cuda:",
    "minutes to learn: the page has their result": r"ttt|--name four|--sac\.layer-norm",
    "a run with that archive: test_archive.py": r"runs/(four|tictactoe|duel|ttt|other)|@1\.|=runs/",
    "several terminals, as in tests/system": r"^learner --env CartPole-v1$|--keys farflung-keys$",
    "a dashboard and a status of the usual ports": r"^learner (status|dashboard)$",
    "a team at work: test_many_policies.py": r"runs/hunt|--policy (agent_0|red|blue)\b",
    "other libraries: test_peers.py": r"^python -m bench\.peers",
    "a whole search: test_plan.py reads its file": r"^learner sweep |sweeps/",
    "another host: others are run on loopback": r"^(actor|broker|learner worker)( |$)",
}
EXTRAS = {"ALE/": "ale_py", "InvertedPendulum": "mujoco"}  # packages that worlds need
LENGTH = re.compile(r" --(?:steps|until|evaluate-every|episodes|seconds|seed) ('[^']*'|\S+)")


def pages() -> dict[str, Path]:
    """Return the pages by name."""
    paths = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")]
    return {
        str(path.relative_to(ROOT).with_suffix("")).removeprefix("docs/"): path for path in paths
    }


def commands(page: str) -> list[str]:
    """Return the commands of a page, without what a comment says of them."""
    found = []
    for block in BLOCK.findall(pages()[page].read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            command = re.sub(r"\s+", " ", re.sub(r"(^|\s)#.*", "", line)).strip()
            found += [command] if command else []
    return found


def missing(command: str) -> str:
    """Return what a test lacks for a command; nothing for one that it runs."""
    return next((why for why, words in MISSING.items() if re.search(words, command)), "")


def is_training(command: str) -> bool:
    """Return whether a command is one that trains."""
    return bool(re.match(r"learner --", command)) and "--bind" not in command


def of_run(command: str) -> bool:
    """Return whether a command is about a run that has ended."""
    words = r"learner (evaluate|export|audit|dataset|runs|keys|presets)\b|python -c .*minari"
    return bool(re.match(words, command)) and "gpu-box" not in command


def at_work(command: str) -> bool:
    """Return whether a command is about a learner at work."""
    words = r"learner (pause|resume|set|checkpoint|evaluate|stop|status|trace|dashboard|--bind)\b"
    return bool(re.match(words, command)) and not of_run(command)


def test_every_command_of_every_page_has_its_place() -> None:
    """One that is new is run by a test here, or is named with a reason."""
    of_pages = [(page, each) for page in pages() if page not in STORIES for each in commands(page)]
    assert len(of_pages) > 100
    stories = Path(__file__).with_name("test_pages.py").read_text()
    assert all(f'"{page}"' in stories for page in STORIES)
    left = []
    for page, command in of_pages:
        here = (
            (page in OF_RUNS and of_run(command))
            or (page in AT_WORK and at_work(command))
            or (page in TRAININGS and is_training(command))
            or (page == "README" and "--name cartpole" in command)
            or command == "cd examples/worlds"
        )
        if not here and not missing(command):
            left.append((page, command))
    assert left == []


def variables(folder: Path) -> dict[str, str]:
    """Return an environment with our programs, and a learner at any free port."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARFLUNG_")}
    path = f"{BIN}{os.pathsep}{kept.get('PATH', '')}"
    ours = {"FARFLUNG_LEARNER_PORT": "0", "MINARI_DATASETS_PATH": f"{folder}/minari"}
    return {**kept, **ours, "OMP_NUM_THREADS": "1", "PATH": path}


def run(folder: Path, command: str) -> str:
    """Run a command of a page in a folder; return what it wrote."""
    words = ["bash", "-euo", "pipefail", "-c", command]
    ended = run_to_end(words, WITHIN_S, cwd=folder, env=variables(folder), stdin=subprocess.DEVNULL)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, f"{command} ended with {ended.returncode}:\n{said[-TAIL:]}"
    return said


def short(
    command: str, flags: str = "--steps 2500 --evaluate-every 2000 --evaluate-episodes 1"
) -> str:
    """Return a training that ends soon."""
    return f"{LENGTH.sub('', command)} {flags}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run as README trains it, but for its length."""
    folder = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("node*"))
    [first] = [each for each in commands("README") if "--name cartpole" in each]
    run(folder, short(first, "--steps 600 --warmup 100 --evaluate-every 300"))
    return folder


def test_commands_about_a_run_that_has_ended(folder: Path) -> None:
    """Evaluations, exports, curves, lists, audits: on the run that README trains."""
    done = set()
    for page in OF_RUNS:
        for command in commands(page):
            if not of_run(command) or missing(command) or command in done:
                continue
            done.add(command)
            if "minari" in command or " dataset " in command:
                pytest.importorskip("minari")
            if "--video" in command:
                pytest.importorskip("imageio_ffmpeg")
            own = command.replace("NAME", "cartpole").replace("box-1", "local-0")
            own = re.sub(r" one two 'trial-\*'", " cartpole cartpole", own)
            own = re.sub(r"--against FILE FILE", "", own)
            own = re.sub(
                r"(evaluate runs/\S+)", r"\1 --episodes 2", own.replace(" --episodes 5", "")
            )
            run(folder, own)
    assert len(done) > 15
    assert (folder / "cartpole.onnx").stat().st_size > 1000


def consecutive() -> int:
    """Return a free port that is followed by another one: the address of the pages has no other."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port = int(first.getsockname()[1])
            try:
                with socket.create_server(("127.0.0.1", port + 1)):
                    return port
            except OSError:
                continue


@contextmanager
def in_background(folder: Path, command: str, ready: str) -> Iterator[None]:
    """Run a command that stays until a signal, once it says that it is ready; it ends with 0."""
    log = folder / "background.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            shlex.split(command), cwd=folder, env=variables(folder), stdout=output, stderr=output
        )
    try:
        eventually(lambda: re.search(ready, log.read_text()), f"{command}: {ready}", WITHIN_S)
        yield
        process.send_signal(signal.SIGTERM)
        eventually(lambda: process.poll() is not None, f"the end of {command}", WITHIN_S)
        assert process.returncode == 0, log.read_text()[-TAIL:]
    finally:
        process.kill()
        process.wait()


def test_commands_to_a_learner_at_work(tmp_path: Path) -> None:
    """Keys, a learner with them, all that steers and shows it, and dashboards: as the pages say."""
    port = consecutive()
    shown = commands("operations")
    for command in shown[: shown.index(next(each for each in shown if each.startswith("actor")))]:
        if command.startswith("learner keys"):
            run(tmp_path, command)
    run(tmp_path, next(each for each in shown if "--role operator" in each))
    [listen] = [each for each in shown if "--bind" in each]
    local = listen.replace("0.0.0.0", "127.0.0.1")
    begun = f"{local} --port {port} --actors 1 --warmup 100 --replay-ratio 1 --name lander"
    with in_background(tmp_path, f"{begun} --evaluate-episodes 2", r"listening"):
        at = f"127.0.0.1:{port}"
        eventually(lambda: "steps" in run(tmp_path, f"learner status {at} --keys keys/actor.key"))
        steering = [each for each in shown if at_work(each) and "--bind" not in each]
        assert len(steering) > 7
        for command in sorted(steering, key=lambda each: each.startswith("learner stop")):
            if missing(command) or "docker" in command:
                continue
            own = re.sub(r"gpu-box(:5555)?", at, command).replace("--seconds 10", "--seconds 1")
            key = "actor" if re.match(r"learner (trace|status)", own) else "ops"
            own = re.sub(r" --keys \S+", "", own)
            run(tmp_path, own if "runs/" in own else f"{own} --keys keys/{key}.key")
        assert (tmp_path / "trace.json").stat().st_size > 1000
        for command in commands("dashboard"):
            (tmp_path / "sweeps/cartpole").mkdir(parents=True, exist_ok=True)
            own = command.replace("gpu-box:5555", at).replace("--token-file token", "")
            own = re.sub(r" --port 0", "", own).replace("0.0.0.0", "127.0.0.1")
            with in_background(tmp_path / ".", f"{own} --port 0", r"http://127\.0\.0\.1:\d+"):
                pass


@pytest.mark.faults
@pytest.mark.long  # make pages
@pytest.mark.parametrize("page", TRAININGS)
def test_trainings_of_a_page_begin_and_end(page: str, folder: Path) -> None:
    """Each that does not take minutes to be worth it, with fewer steps."""
    found = [each for each in commands(page) if is_training(each) and not missing(each)]
    assert found
    for number, command in enumerate(found):
        needed = next((module for word, module in EXTRAS.items() if word in command), "json")
        if find_spec(needed) is None:
            continue
        where = folder / "examples/worlds" if "--import t" in command else folder
        own = re.sub(r" --name \S+", "", command)
        run(where, f"{short(own)} --name {page}-{number}")
