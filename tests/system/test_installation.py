"""The wheel and the sdist of this tree, in a fresh environment with the actor extra alone."""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.waiting import run_to_end

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
PACKAGES = ("actor", "broker", "common", "learner")
PIP_S = 300.0
SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
IMPORT_ALL = """
import importlib, pkgutil
for name in ("actor", "broker", "common"):
    package = importlib.import_module(f"farflung.{name}")
    for module in pkgutil.walk_packages(package.__path__, f"farflung.{name}."):
        importlib.import_module(module.name)
"""


def run_pip(*words, **options):
    """Run pip. Without an index the tests are skipped, but not in CI, which sets `CI`."""
    command = (sys.executable, "-m", "pip", "--disable-pip-version-check", *words)
    result = run_to_end(command, PIP_S, **options)
    if result.returncode:
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        give_up(f"pip cannot do it here: {reason}")


def run_in(environment, *words):
    """Run a program of an environment outside of this tree; return its output."""
    ended = run_to_end([environment / words[0], *words[1:]], cwd=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def contents(wheel):
    """Return the files of a wheel with their bytes."""
    with zipfile.ZipFile(wheel) as archive:
        assert len(set(archive.namelist())) == len(archive.namelist())
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of what is to be built, without the remains of other builds."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("farflung", *PACKAGES):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    return folder


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """Variables with which the setuptools that pyproject.toml asks for are there."""
    folder = tmp_path_factory.mktemp("tools")
    run_pip("install", "--quiet", "--no-compile", "--target", folder, "setuptools>=77")
    return os.environ | {"PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def wheel(tree, tmp_path_factory):
    """A wheel of this tree, built in isolation as by a user."""
    folder = tmp_path_factory.mktemp("wheel")
    run_pip("wheel", "--quiet", "--no-deps", "--wheel-dir", folder, tree)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def sdist(tree, tools, tmp_path_factory):
    """An sdist of this tree."""
    folder = tmp_path_factory.mktemp("sdist")
    built = run_to_end([sys.executable, "-c", SDIST, folder], cwd=tree, env=tools)
    assert built.returncode == 0, built.stderr
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """The programs of a fresh virtual environment with the actor extra alone."""
    folder = tmp_path_factory.mktemp("installation") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python, extra = folder / "bin" / "python", f"farflung[actor] @ {wheel.as_uri()}"
    words = ("install", "--quiet", "--no-compile", "-c", ROOT / "constraints.txt", extra)
    run_pip("--python", python, *words)
    return folder / "bin"


@pytest.fixture
def installed(tmp_path):
    """Returns variables with which packages are there, whether or not they are installed."""

    def install(*packages):
        folder = tmp_path / "packages"
        words = ("--no-deps", "--target", folder, "-c", ROOT / "constraints.txt")
        run_pip("install", "--quiet", "--no-compile", *words, *packages)
        return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}

    return install


def test_wheel_holds_every_module_once_under_farflung(wheel):
    """The links in farflung/ double nothing; py.typed tells type checkers to read the types."""
    modules = {
        f"farflung/{path.relative_to(ROOT)}"
        for name in PACKAGES
        for path in (ROOT / name).rglob("*.py")
    }
    files = [*ROOT.glob("learner/presets/*.toml"), *ROOT.glob("learner/dashboard/static/**/*")]
    data = {f"farflung/{path.relative_to(ROOT)}" for path in files if path.is_file()}
    own = {f"farflung/{path.name}" for path in (ROOT / "farflung").glob("*.py")}
    own.add("farflung/py.typed")
    found = {name for name in contents(wheel) if ".dist-info/" not in name}
    assert found == modules | data | own
    assert "farflung/learner/presets/cartpole.toml" in found


def test_sdist_builds_the_same_wheel(sdist, wheel, tools, tmp_path):
    """File by file and byte by byte; the sdist has each module once, too."""
    with tarfile.open(sdist) as archive:
        names = [member.name.partition("/")[2] for member in archive.getmembers()]
    assert not [name for name in names if name.startswith("farflung/") and name.count("/") > 1]
    words = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path)
    run_pip("wheel", *words, sdist, env=tools)
    (again,) = tmp_path.glob("*.whl")
    assert contents(again) == contents(wheel)


def test_installation_has_all_commands_and_one_top_level_package(environment):
    """`actor`, `broker`, `farflung` and `python -m farflung`; nothing is called `common`."""
    for role in ("actor", "broker"):
        assert f"Usage: {role}" in run_in(environment, role, "--help")
    version = run_in(environment, "farflung", "--version")
    assert run_in(environment, "python", "-m", "farflung", "--version") == version
    site = "import sysconfig; print(sysconfig.get_path('purelib'))"
    installed = {path.name for path in Path(run_in(environment, "python", "-c", site)).iterdir()}
    assert "farflung" in installed
    assert installed.isdisjoint({*PACKAGES, *(f"{name}.py" for name in PACKAGES)})


def test_actor_extra_has_what_every_module_of_an_actor_imports(environment):
    """The broker and all common modules included, and none of them needs torch."""
    run_in(environment, "python", "-c", IMPORT_ALL)


def test_actor_extra_trains_without_torch(environment, shared, shell):
    """A learner counts the actor's steps and learns from them."""
    assert run_to_end([environment / "python", "-c", "import torch"]).returncode == 1
    actor = shell.start(environment / "actor", shared.address, "--name", "lean", "--envs", 4)
    shared.shows(lambda status: any(a.name == "lean" and a.acknowledged > 5 for a in status.actors))
    shared.learns_on()
    actor.send(signal.SIGTERM)
    assert actor.ended() == 0


def test_learner_without_torch_names_the_extra_to_install(environment, shell):
    """One sentence, exit code 78."""
    learner = shell.start(environment / "learner", "--steps", 1)
    assert learner.ended() == 78
    assert (
        learner.said.splitlines()[-1]
        == "learner: the package torch is not installed here: pip install 'farflung[learner]'"
    )


WORLDS = {
    "box2d": (["Box2D", "pygame-ce"], ["LunarLander-v3"]),
    "atari": (
        ["ale-py", "opencv-python-headless"],
        ["ALE/Pong-v5", "--import", "ale_py", "--wrapper", "atari", "--stack", 4],
    ),
    "mujoco": (
        ["mujoco", "mujoco-core", "mujoco-studio", "glfw", "PyOpenGL", "websockets", "imageio"],
        ["InvertedPendulum-v5", "--wrapper", "DiscretizeAction:bins=5"],
    ),
    "minatar": (["MinAtar"], ["MinAtar/Breakout-v0"]),  # without what it draws with
}


@pytest.mark.faults
@pytest.mark.parametrize("extra", WORLDS)
def test_worlds_of_an_extra_train(extra, installed, shell):
    """A learner and its own actor play it and learn from it."""
    packages, flags = WORLDS[extra]
    goal = ("--warmup", 200, "--batch-size", 16, "--until", "updates >= 20")
    learner = shell.learner("--env", *flags, "--actors", 1, *goal, **installed(*packages))
    assert learner.ended() == 0, learner.said
    assert "solved: updates >= 20" in learner.said


@pytest.mark.parametrize(
    ("variables", "outcome"), [({}, pytest.skip.Exception), ({"CI": "true"}, pytest.fail.Exception)]
)
def test_failure_of_pip_skips_these_tests_except_in_ci(variables, outcome, monkeypatch):
    """The reason is pip's last line."""
    monkeypatch.delenv("CI", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(outcome, match=r"pip cannot do it here: .*no-such-folder"):
        run_pip("install", "--no-index", "./no-such-folder")
